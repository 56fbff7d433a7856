/** Rows in aligned columns under a heading. */
import { Styled } from "./text.js";
import { displayWidth, padEnd, padStart, truncate } from "./terminal-text.js";

export interface TableColumn {
  readonly title: string;
  readonly align?: "right";
  /** The column that is truncated if the terminal is too narrow. */
  readonly flexible?: boolean;
}

const GAP = "  ";

/** Formats a table as a stream: the first rows determine the widths of the columns, later rows are printed immediately. */
export class Table {
  readonly #columns: readonly TableColumn[];
  readonly #screenWidth: number;
  #widths: readonly number[] = [];

  /** @param screenWidth infinite if the output is not a terminal */
  constructor(columns: readonly TableColumn[], screenWidth: number) {
    this.#columns = columns;
    this.#screenWidth = screenWidth;
  }

  /** Determines the widths of the columns and returns the heading. */
  begin(rows: readonly (readonly string[])[]): Styled {
    const widths = this.#columns.map(({ title }, index) =>
      Math.max(title.length, ...rows.map((row) => displayWidth(row[index] ?? ""))),
    );
    const total = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
    const flexible = this.#columns.findIndex((column) => column.flexible);
    if (flexible >= 0 && total > this.#screenWidth) {
      widths[flexible] = Math.max(8, (widths[flexible] as number) - (total - this.#screenWidth));
    }
    this.#widths = widths;
    return this.row(this.#columns.map(({ title }) => title));
  }

  /** @param cells as they are printed, with colours */
  row(cells: readonly string[]): Styled {
    const last = this.#columns.length - 1;
    const formatted = this.#columns.map(({ align, flexible }, index) => {
      const width = this.#widths[index] as number;
      const cell = cells[index] ?? "";
      const tooWide = flexible && this.#screenWidth !== Number.POSITIVE_INFINITY && displayWidth(cell) > width;
      const fitting = tooWide ? truncate(cell, width) : cell;
      if (align === "right") return padStart(fitting, width);
      return index === last ? fitting : padEnd(fitting, width);
    });
    return new Styled(formatted.join(GAP).trimEnd());
  }
}
