/** How far long work has come, for somebody who watches: a bar, the rate, and the time that is left. */
import type { OutputStream } from "./io.js";
import { formatBytes, truncate } from "./terminal-text.js";

/** Told as the work goes on. Never slows it down by much: it paints a few times a second. */
export interface Progress {
  /** @throws Interrupted where somebody has pressed Ctrl-C: whatever is under way ends as it does after any error */
  update(done: number): void;
  /** Takes the bar away. */
  stop(): void;
}

export interface ProgressOptions {
  /** What is done, such as "Verifying". */
  readonly label: string;
  /** What is counted. */
  readonly unit: "checkpoints" | "sessions" | "bytes";
  /** How much there is, if that is known. */
  readonly total: number | undefined;
  /** Throws where it should end. */
  readonly check: () => void;
}

/** How often it is painted, in milliseconds. */
const PAINT = 100;
/** How wide the bar is, in columns. */
const WIDTH = 24;
const CLEAR_LINE = "\r\u001b[K";

/** For nobody: it only ends when it should. */
export function silentProgress(check: () => void): Progress {
  return { update: check, stop: () => {} };
}

/** A line of the terminal that is painted again and again. */
export function showProgress(terminal: OutputStream, options: ProgressOptions): Progress {
  const { label, unit, total, check } = options;
  const started = performance.now();
  let painted = 0;
  let shown = false;
  const paint = (share: number, text: string): void => {
    const full = Math.round(WIDTH * Math.min(1, share));
    const bar = `${"━".repeat(full)}${"─".repeat(WIDTH - full)}`;
    terminal.write(`${CLEAR_LINE}${truncate(`${bar}  ${text}`, (terminal.columns || 80) - 1)}`);
    shown = true;
  };
  paint(0, label);
  return {
    update(done) {
      check();
      const now = performance.now();
      if (now - painted < PAINT) return;
      painted = now;
      const rate = done / Math.max(0.001, (now - started) / 1000);
      paint(total ? done / total : 0, describe(label, unit, done, total, rate));
    },
    stop() {
      if (shown) terminal.write(CLEAR_LINE);
      shown = false;
    },
  };
}

function describe(
  doing: string,
  unit: ProgressOptions["unit"],
  done: number,
  total: number | undefined,
  rate: number,
): string {
  const amount = (number: number): string =>
    unit === "bytes" ? formatBytes(number) : Math.round(number).toLocaleString("en-US");
  const of = total === undefined ? "" : ` of ${amount(total)}`;
  const named = unit === "bytes" ? "" : ` ${unit}`;
  const left = total === undefined || rate === 0 || done >= total ? "" : `, ${duration((total - done) / rate)} left`;
  return `${doing} ${amount(done)}${of}${named}, ${amount(rate)}/s${left}`;
}

function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} m`;
}
