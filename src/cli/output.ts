/** Prints results: data on stdout in the chosen format, everything else on stderr. */
import { toAscii, usesUnicode } from "./glyphs.js";
import type { CliIo, OutputStream } from "./io.js";
import { stringify, toPrintableJson } from "./json.js";
import type { Printer } from "./printer.js";
import { Table, type TableColumn } from "./table.js";
import { type Colors, createColors, type Text, toAnsi } from "./text.js";

export type Format = "text" | "json" | "jsonl";

/** How a list is printed as text. */
export interface ListView<T> {
  readonly columns: readonly (TableColumn & {
    cell(entry: T): Text;
    /** Omit the column if it is empty in all rows. Applies only to a list of which all rows are known before the first one is printed. */
    readonly optional?: boolean;
  })[];
  /** A note on stderr for an empty list. */
  readonly empty: string;
}

/** How many rows are collected before the first one is printed. They determine the widths of the columns. */
const MEASURED_ROWS = 50;

export class Output {
  readonly format: Format;
  /** Colours for stdout. */
  readonly colors: Colors;
  /** Colours for stderr. */
  readonly noteColors: Colors;
  /** Whether prompts are possible: both stdin and stderr are terminals. */
  readonly interactive: boolean;
  /** Whether characters beyond ASCII may be printed. */
  readonly unicode: boolean;
  readonly #io: CliIo;
  readonly #printer: Printer;
  readonly #quiet: boolean;
  /** Warnings of a command that prints JSON. They are printed as JSON when it ends. */
  readonly #warnings: string[] = [];

  constructor(io: CliIo, printer: Printer, options: { format: Format; color: boolean | undefined; quiet: boolean }) {
    this.#io = io;
    this.#printer = printer;
    this.format = options.format;
    this.#quiet = options.quiet;
    this.colors = createColors(usesColor(io.stdout, io.env, options.color));
    this.noteColors = createColors(usesColor(io.stderr, io.env, options.color));
    this.unicode = usesUnicode(io.env);
    this.interactive = Boolean(io.stdin.isTTY && io.stderr.isTTY);
  }

  /** Whether the reader of stdout has closed the pipe. */
  get closed(): boolean {
    return this.#printer.closed;
  }

  /** The width of the terminal. Infinite if stdout is not a terminal. */
  get columns(): number {
    const { stdout } = this.#io;
    return (stdout.isTTY && stdout.columns) || Number.POSITIVE_INFINITY;
  }

  /** Prints a line on stdout. */
  async line(text: Text): Promise<void> {
    await this.#printer.print(`${this.#encode(text)}\n`);
  }

  #encode(text: Text): string {
    return this.unicode ? toAnsi(text) : toAscii(toAnsi(text));
  }

  async raw(data: string | Uint8Array): Promise<void> {
    await this.#printer.print(data);
  }

  /** Prints a hint on stderr. Omitted with `--quiet` and in JSON formats. */
  note(text: Text): void {
    if (!this.#quiet && this.format === "text") this.error(text);
  }

  /** Prints a warning on stderr. JSON formats collect warnings for {@link drainWarnings}. */
  warn(text: string): void {
    if (this.format === "text") this.error(text);
    else this.#warnings.push(text);
  }

  /** Prints a line on stderr in every format. */
  error(text: Text): void {
    this.#io.stderr.write(`${this.#encode(text)}\n`);
  }

  /** Prints a JSON document on stderr. */
  errorJson(record: unknown): void {
    this.#io.stderr.write(`${stringify(record)}\n`);
  }

  /** Removes and returns the collected warnings. */
  drainWarnings(): string[] {
    return this.#warnings.splice(0);
  }

  /** Prints one result: the record as JSON, or the text, which is one line or several. */
  async result(record: unknown, toText: () => Text | readonly Text[]): Promise<void> {
    if (this.format !== "text") return this.json(record, this.format === "json" ? 2 : undefined);
    const text = toText();
    for (const line of isLines(text) ? text : [text]) await this.line(line);
  }

  /** Prints a record as JSON, in one line unless an indentation is given. */
  async json(record: unknown, indent?: number): Promise<void> {
    await this.raw(`${stringify(toPrintableJson(record), indent)}\n`);
  }

  /** Prints a list as it is read: a table, or the entries as JSON. */
  async list<T>(entries: AsyncIterable<T> | Iterable<T>, view: ListView<T>): Promise<void> {
    if (this.format !== "text") return this.stream(entries);
    let table = new Table(view.columns, this.columns);
    let measured: (readonly string[])[] | undefined = [];
    const begin = async (rows: readonly (readonly string[])[], isComplete = false): Promise<void> => {
      if (rows.length === 0) return this.note(view.empty);
      const isShown = view.columns.map(
        ({ optional }, index) => !(isComplete && optional) || rows.some((row) => row[index]),
      );
      const pick = <Cell>(cells: readonly Cell[]): Cell[] => cells.filter((_, index) => isShown[index]);
      if (isShown.includes(false)) table = new Table(pick(view.columns), this.columns);
      await this.line(this.colors.dim(table.begin(rows.map(pick))));
      for (const row of rows) await this.line(table.row(pick(row)));
    };
    for await (const entry of entries) {
      if (this.closed) return;
      const row = view.columns.map((column) => toAnsi(column.cell(entry)));
      if (!measured) await this.line(table.row(row));
      else if (measured.push(row) === MEASURED_ROWS) {
        await begin(measured);
        measured = undefined;
      }
    }
    if (measured) await begin(measured, true);
  }

  /** Prints records as they are read: one JSON array, or one object per line. */
  async stream(records: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    const isArray = this.format === "json";
    let count = 0;
    for await (const record of records) {
      if (this.closed) return;
      const json = stringify(toPrintableJson(record));
      await this.raw(isArray ? `${count++ === 0 ? "[\n" : ",\n"}  ${json}` : `${json}\n`);
    }
    if (isArray) await this.raw(count === 0 ? "[]\n" : "\n]\n");
  }
}

/**
 * `--color` and `--no-color` decide; then FORCE_COLOR, which `0` and `false` turn off; then NO_COLOR, which disables colours. Without
 * all of them, only a terminal gets colours. This is the order of Node.js itself.
 */
function usesColor(stream: OutputStream, env: CliIo["env"], option: boolean | undefined): boolean {
  if (option !== undefined) return option;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return Boolean(stream.isTTY) && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}

function isLines(text: Text | readonly Text[]): text is readonly Text[] {
  return Array.isArray(text);
}
