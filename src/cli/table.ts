/** Rows under a heading, aligned. The first rows decide how wide the columns are; the others can then be printed at once. */
import { padEnd, padStart, truncate, displayWidth } from "./terminal-text.js";

export interface TableColumn {
  readonly title: string;
  readonly align?: "right";
  /** The column that gives way when the terminal is too narrow. */
  readonly flexible?: boolean;
}

const GAP = "  ";

export class Table {
  readonly #columns: readonly TableColumn[];
  readonly #screen: number;
  #widths: readonly number[] = [];

  /** @param screen how many columns of characters there are; infinite where nobody looks */
  constructor(columns: readonly TableColumn[], screen: number) {
    this.#columns = columns;
    this.#screen = screen;
  }

  /** Decides how wide the columns are, and gives the heading. */
  begin(rows: readonly (readonly string[])[]): string {
    const widths = this.#columns.map(({ title }, index) =>
      Math.max(title.length, ...rows.map((row) => displayWidth(row[index] ?? ""))),
    );
    const taken = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
    const flexible = this.#columns.findIndex((column) => column.flexible);
    if (flexible >= 0 && taken > this.#screen) {
      widths[flexible] = Math.max(8, (widths[flexible] as number) - (taken - this.#screen));
    }
    this.#widths = widths;
    return this.row(this.#columns.map(({ title }) => title));
  }

  row(cells: readonly string[]): string {
    const last = this.#columns.length - 1;
    const shown = this.#columns.map(({ align, flexible }, index) => {
      const width = this.#widths[index] as number;
      const cell = cells[index] ?? "";
      const tooWide = flexible && this.#screen !== Number.POSITIVE_INFINITY && displayWidth(cell) > width;
      const fitting = tooWide ? truncate(cell, width) : cell;
      if (align === "right") return padStart(fitting, width);
      return index === last ? fitting : padEnd(fitting, width);
    });
    return shown.join(GAP).trimEnd();
  }
}
