// Timing, and what is made of many timings.
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Milliseconds that work takes. @param {() => unknown} work */
export async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** @param {readonly number[]} values @param {number} share from 0 to 1 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** @param {readonly number[]} values */
export const median = (values) => quantile(values, 0.5);

/** Runs work in a folder that is removed afterwards. @template T @param {(folder: string) => Promise<T>} work */
export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Bytes of the files in a folder. @param {string} folder */
export function sizeOf(folder) {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

/**
 * How late the event loop comes to its timers while work runs, in milliseconds.
 * @template T @param {() => Promise<T>} work
 */
export async function withLateness(work) {
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  const result = await work();
  histogram.disable();
  // The histogram has the time between two turns of a timer of one millisecond.
  return { result, late: Math.max(0, histogram.percentile(99) / 1e6 - 1), latest: histogram.max / 1e6 - 1 };
}

/**
 * Runs contenders in turns, so that a machine that becomes slower does so for all, and gathers what each run gives.
 * @template T @param {Record<string, () => Promise<T>>} contenders @param {number} rounds @returns {Promise<Record<string, T[]>>}
 */
export async function inTurns(contenders, rounds) {
  /** @type {Record<string, T[]>} */
  const results = {};
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of Object.entries(contenders)) {
      process.stderr.write(`round ${round + 1}/${rounds}: ${name}\n`);
      (results[name] ??= []).push(await run());
    }
  }
  return results;
}
