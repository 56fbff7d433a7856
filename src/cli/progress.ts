/** Progress of long work on a terminal: a bar, the rate and the remaining time. */
import { formatBytes } from "./format.js";
import type { OutputStream } from "./io.js";
import { truncate } from "./terminal-text.js";

export interface Progress {
  /**
   * Reports how much is done. Cheap: the bar is painted a few times a second.
   * @throws InterruptedError after Ctrl-C, so that work in progress ends as after any error
   */
  update(done: number): void;
  /** Removes the bar. May be called several times. */
  stop(): void;
}

export interface ProgressOptions {
  /** The work, such as "Verifying". */
  readonly label: string;
  /** What is counted. */
  readonly unit: "checkpoints" | "sessions" | "bytes";
  /** How much there is to do, if known. */
  readonly total: number | undefined;
  /** Throws if the work should end. */
  readonly check: () => void;
}

/** The least time between two paints, in milliseconds. */
const PAINT_INTERVAL = 100;
const BAR_WIDTH = 24;
const CLEAR_LINE = "\r\u001b[K";

/** Paints nothing, and only checks for interruption. */
export function silentProgress(check: () => void): Progress {
  return { update: check, stop: () => {} };
}

/** Paints on one line of the terminal. */
export function showProgress(terminal: OutputStream, options: ProgressOptions): Progress {
  const { label, unit, total, check } = options;
  const startedAt = performance.now();
  let paintedAt = 0;
  let visible = false;
  const paint = (fraction: number, text: string): void => {
    const full = Math.round(BAR_WIDTH * Math.min(1, fraction));
    const bar = `${"━".repeat(full)}${"─".repeat(BAR_WIDTH - full)}`;
    terminal.write(`${CLEAR_LINE}${truncate(`${bar}  ${text}`, (terminal.columns || 80) - 1)}`);
    visible = true;
  };
  paint(0, label);
  return {
    update(done) {
      check();
      const now = performance.now();
      if (now - paintedAt < PAINT_INTERVAL) return;
      paintedAt = now;
      const rate = done / Math.max(0.001, (now - startedAt) / 1000);
      paint(total ? done / total : 0, describeProgress(label, unit, done, total, rate));
    },
    stop() {
      if (visible) terminal.write(CLEAR_LINE);
      visible = false;
    },
  };
}

function describeProgress(
  label: string,
  unit: ProgressOptions["unit"],
  done: number,
  total: number | undefined,
  rate: number,
): string {
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
