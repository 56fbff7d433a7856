import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "../../store/index.js";

/** The maximum time to wait, in milliseconds. Much longer than any store takes on a busy machine. */
const TIMEOUT = 30_000;

/**
 * Waits until a condition is true.
 *
 * @param what describes the condition, for the error message
 */
export async function until(holds: () => boolean | Promise<boolean>, what: () => string): Promise<void> {
  const end = performance.now() + TIMEOUT;
  while (!(await holds())) {
    if (performance.now() > end) assert.fail(`Timed out waiting for ${what()}.`);
    await sleep(2);
  }
}

/** Waits until the store's clock has advanced by more than this, and returns its time. */
export async function laterThan(store: Store, milliseconds: number): Promise<number> {
  const start = await store.now();
  let now = start;
  await until(
    async () => (now = await store.now()) > start + milliseconds,
    () => "the store's clock to advance",
  );
  return now;
}
