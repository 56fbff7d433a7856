import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "../../store/index.js";

/** How long a store may take, in milliseconds: much longer than any does, on the busiest machine. */
const PATIENCE = 30_000;

/** Waits until a condition is true. @param what the awaited condition, for the message */
export async function until(holds: () => boolean | Promise<boolean>, what: () => string): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await holds())) {
    if (performance.now() > end) assert.fail(`Timed out waiting for ${what()}.`);
    await sleep(2);
  }
}

/** The store's time, once it is later than now by more than this. */
export async function laterThan(store: Store, milliseconds: number): Promise<number> {
  const start = await store.now();
  let now = start;
  await until(
    async () => (now = await store.now()) > start + milliseconds,
    () => "the store's clock, which stands still",
  );
  return now;
}
