/**
 * Waiting for a condition. A test never waits for a time: what has happened "by now" on one machine has not on another.
 * Plain JavaScript, because the children that tests start use it too.
 */
import { setTimeout as sleep } from "node:timers/promises";

/** How long anything may take, in milliseconds: far longer than on the busiest machine, and no longer than a test may take. */
const PATIENCE = 30_000;

/** How often a condition is checked, in milliseconds. */
const EVERY = 5;

/**
 * Waits until a condition holds, and returns what it gave: anything but `undefined`, `null` and `false`.
 *
 * @template T
 * @param {() => T | Promise<T>} condition checked again and again; what it throws ends the wait
 * @param {string | (() => string)} what for the message, as in "Timed out waiting for <what>."
 * @param {number} [patience]
 * @returns {Promise<Exclude<T, undefined | null | false>>}
 */
export async function until(condition, what, patience = PATIENCE) {
  const end = performance.now() + patience;
  for (;;) {
    const found = await condition();
    if (found !== undefined && found !== null && found !== false) {
      return /** @type {Exclude<T, undefined | null | false>} */ (found);
    }
    if (performance.now() > end) {
      throw new Error(`Timed out waiting for ${typeof what === "string" ? what : what()}.`);
    }
    await sleep(EVERY);
  }
}

/** How long work may take before it counts as hung, in milliseconds. */
const HUNG_AFTER = 20_000;

/**
 * For work that must not hang: what it resolves with, or `"hung"` after a long time. A test that passes does not wait.
 *
 * @template T
 * @param {Promise<T>} work
 * @returns {Promise<T | "hung">}
 */
export async function orHung(work) {
  const timer = new AbortController();
  const hung = sleep(HUNG_AFTER, /** @type {const} */ ("hung"), { signal: timer.signal });
  hung.catch(() => {});
  try {
    return await Promise.race([work, hung]);
  } finally {
    timer.abort();
  }
}
