/** How far long work has come, for somebody who watches: a bar, the rate, and the time that is left. */
import type { ProgressResult } from "@clack/prompts";
import { bytes } from "./text.js";

/** Told as the work goes on. Never slows it down by much: it paints a few times a second. */
export interface Progress {
  /** @throws Interrupted where somebody has pressed Ctrl-C: whatever is under way ends as it does after any error */
  update(done: number): void;
  /** Takes the bar away. */
  stop(): void;
}

export interface ProgressOptions {
  /** What is done, such as "Verifying". */
  readonly doing: string;
  /** What is counted. */
  readonly unit: "checkpoints" | "sessions" | "bytes";
  /** How much there is, if that is known. */
  readonly total: number | undefined;
  /** Throws where it should end. */
  readonly check: () => void;
}

const PAINT = 100;

/** For nobody: it only ends when it should. */
export function silentProgress(check: () => void): Progress {
  return { update: check, stop: () => {} };
}

export async function showProgress(options: ProgressOptions): Promise<Progress> {
  const { doing, unit, total, check } = options;
  const { progress } = await import("@clack/prompts");
  const bar: ProgressResult = progress({ max: Math.max(1, total ?? 1), output: process.stderr, size: 24 });
  const started = performance.now();
  let painted = 0;
  let shown = 0;
  bar.start(doing);
  // It listens to keys, and would end the process with exit code 0 for Ctrl-C. As a signal it comes to us.
  if (process.stdin.isTTY) process.stdin.setRawMode(false);
  return {
    update(done) {
      check();
      const now = performance.now();
      if (now - painted < PAINT) return;
      painted = now;
      const rate = done / Math.max(0.001, (now - started) / 1000);
      bar.advance(total === undefined ? 0 : Math.min(done, total) - shown, describe(doing, unit, done, total, rate));
      shown = total === undefined ? 0 : Math.min(done, total);
    },
    stop: () => bar.clear(),
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
    unit === "bytes" ? bytes(number) : Math.round(number).toLocaleString("en-US");
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
