/** Data goes to stdout, in the form that was asked for; everything else goes to stderr. */
import pc from "picocolors";
import type { CliIo, OutputStream } from "./io.js";
import type { Printer } from "./printer.js";
import { toPrintableJson } from "./json.js";
import { type TableColumn, Table } from "./table.js";

export type Format = "text" | "json" | "jsonl";
export type Colors = ReturnType<typeof pc.createColors>;

/** How a list is shown to people. */
export interface ListView<T> {
  readonly columns: readonly TableColumn[];
  row(entry: T): readonly string[];
  /** Said on stderr where there is nothing. */
  readonly empty: string;
}

/** Rows that are looked at before the first is printed, so that the columns fit them. */
const FIRST_ROWS = 50;

export class Output {
  readonly format: Format;
  readonly colors: Colors;
  /** For what is said beside the data. */
  readonly noteColors: Colors;
  /** Is somebody there who can be asked, and who watches? */
  readonly interactive: boolean;
  readonly #io: CliIo;
  readonly #printer: Printer;
  readonly #quiet: boolean;
  /** What was warned of where programs read: it is told in the end, as they expect it. */
  readonly #warnings: string[] = [];

  constructor(io: CliIo, printer: Printer, options: { format: Format; color: boolean | undefined; quiet: boolean }) {
    this.#io = io;
    this.#printer = printer;
    this.format = options.format;
    this.#quiet = options.quiet;
    this.colors = pc.createColors(isColorful(io.stdout, io.env, options.color));
    this.noteColors = pc.createColors(isColorful(io.stderr, io.env, options.color));
    this.interactive = Boolean(io.stdin.isTTY && io.stderr.isTTY);
  }

  /** Has whoever reads stopped reading? */
  get closed(): boolean {
    return this.#printer.closed;
  }

  get columns(): number {
    const { stdout } = this.#io;
    return (stdout.isTTY && stdout.columns) || Number.POSITIVE_INFINITY;
  }

  async line(text: string): Promise<void> {
    await this.#printer.print(`${text}\n`);
  }

  async raw(data: string | Uint8Array): Promise<void> {
    await this.#printer.print(data);
  }

  /** Says something to people beside the data. */
  note(text: string): void {
    if (!this.#quiet && this.format === "text") this.error(text);
  }

  /** Says something that must not be missed. */
  warn(text: string): void {
    if (this.format === "text") this.error(text);
    else this.#warnings.push(text);
  }

  /** Prints a line on stderr, in every form. */
  error(text: string): void {
    this.#io.stderr.write(`${text}\n`);
  }

  /** What programs were not told yet. */
  drainWarnings(): string[] {
    return this.#warnings.splice(0);
  }

  /** One result: as JSON, or in words. */
  async result(record: unknown, words: () => string): Promise<void> {
    if (this.format === "text") {
      const text = words();
      if (text !== "") await this.line(text);
    } else await this.line(this.#json(record));
  }

  /** Many of a kind, printed as they come. */
  async list<T>(entries: AsyncIterable<T> | Iterable<T>, view: ListView<T>): Promise<void> {
    if (this.format !== "text") return this.stream(entries);
    const table = new Table(view.columns, this.columns);
    let first: (readonly string[])[] | undefined = [];
    const begin = async (rows: readonly (readonly string[])[]): Promise<void> => {
      if (rows.length === 0) return this.note(view.empty);
      await this.line(this.colors.dim(table.begin(rows)));
      for (const row of rows) await this.line(table.row(row));
    };
    for await (const entry of entries) {
      if (this.closed) return;
      const row = view.row(entry);
      if (!first) await this.line(table.row(row));
      else if (first.push(row) === FIRST_ROWS) {
        await begin(first);
        first = undefined;
      }
    }
    if (first) await begin(first);
  }

  /** Many records: one JSON array, or one line each. */
  async stream(records: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    if (this.format === "jsonl") {
      for await (const record of records) {
        if (this.closed) return;
        await this.line(JSON.stringify(toPrintableJson(record)));
      }
      return;
    }
    let count = 0;
    for await (const record of records) {
      if (this.closed) return;
      await this.raw(`${count++ === 0 ? "[\n" : ",\n"}  ${JSON.stringify(toPrintableJson(record))}`);
    }
    await this.line(count === 0 ? "[]" : "\n]");
  }

  #json(record: unknown): string {
    return JSON.stringify(toPrintableJson(record), undefined, this.format === "json" ? 2 : undefined);
  }
}

/** Colour only on a terminal, unless somebody wants it, and never if somebody does not. */
function isColorful(stream: OutputStream, env: CliIo["env"], wanted: boolean | undefined): boolean {
  if (wanted !== undefined) return wanted;
  return Boolean(stream.isTTY) && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}
