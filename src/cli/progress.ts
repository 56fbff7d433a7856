/** Progress of long work on a terminal: a bar, the rate and the remaining time. */
import { formatBytes } from "./format.js";
import type { OutputStream } from "./io.js";
import { truncate } from "./terminal-text.js";

/** What is counted. */
export type ProgressUnit = "checkpoints" | "sessions" | "bytes" | "data keys" | "tapes";

export interface ProgressOptions<Unit extends ProgressUnit = ProgressUnit> {
  /** The work, such as "Verifying". */
  readonly label: string;
  readonly unit: Unit;
  /** How much there is to do, if known. */
  readonly total: number | undefined;
}

/** The least time between two paints, in milliseconds. */
const PAINT_INTERVAL = 100;
const BAR_WIDTH = 24;
const CLEAR_LINE = "\r\u001b[K";

/** Paints on one line of the terminal. */
export class ProgressBar {
  readonly #terminal: OutputStream;
  readonly #options: ProgressOptions;
  readonly #startedAt = performance.now();
  #paintedAt = 0;

  constructor(terminal: OutputStream, options: ProgressOptions) {
    this.#terminal = terminal;
    this.#options = options;
    this.#paint(0, options.label);
  }

  /** Reports how much is done. Cheap: the bar is painted a few times a second. */
  update(done: number): void {
    const now = performance.now();
    if (now - this.#paintedAt < PAINT_INTERVAL) return;
    this.#paintedAt = now;
    const { total } = this.#options;
    const rate = done / Math.max(0.001, (now - this.#startedAt) / 1000);
    this.#paint(total ? done / total : 0, describeProgress(this.#options, done, rate));
  }

  clear(): void {
    this.#terminal.write(CLEAR_LINE);
  }

  #paint(fraction: number, text: string): void {
    const full = Math.round(BAR_WIDTH * Math.min(1, fraction));
    const bar = `${"━".repeat(full)}${"─".repeat(BAR_WIDTH - full)}`;
    this.#terminal.write(`${CLEAR_LINE}${truncate(`${bar}  ${text}`, (this.#terminal.columns || 80) - 1)}`);
  }
}

function describeProgress({ label, unit, total }: ProgressOptions, done: number, rate: number): string {
  const amount = (number: number): string =>
    unit === "bytes" ? formatBytes(number) : Math.round(number).toLocaleString("en-US");
  const of = total === undefined ? "" : ` of ${amount(total)}`;
  const unitName = unit === "bytes" ? "" : ` ${unit}`;
  const left = total === undefined || rate === 0 || done >= total ? "" : `, ${duration((total - done) / rate)} left`;
  return `${label} ${amount(done)}${of}${unitName}, ${amount(rate)}/s${left}`;
}

function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} m`;
}
