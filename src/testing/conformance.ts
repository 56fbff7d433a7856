/** The conformance kit: tests for everything that the contract of `Store` promises. */
import type { StoreHarness, TestRunner } from "./harness.js";
import { atomicitySpec } from "./specs/atomicity.js";
import { blobSpec } from "./specs/blobs.js";
import { bytesSpec } from "./specs/bytes.js";
import { closeSpec } from "./specs/close.js";
import { compactSpec } from "./specs/compact.js";
import { concurrencySpec } from "./specs/concurrency.js";
import { conflictSpec } from "./specs/conflicts.js";
import { corruptionSpec } from "./specs/corruption.js";
import { crashSpec } from "./specs/crash.js";
import { itemSpec } from "./specs/items.js";
import { randomOperationsSpec } from "./specs/random-operations.js";
import { numberingSpec } from "./specs/numbering.js";
import { orderSpec } from "./specs/order.js";
import { backpressureSpec } from "./specs/backpressure.js";
import { recordSpec } from "./specs/records.js";
import { refSpec } from "./specs/refs.js";
import { reopenSpec } from "./specs/reopen.js";
import { retainSpec } from "./specs/retain.js";
import { textChangesSpec } from "./specs/text-changes.js";
import { textSharingSpec } from "./specs/text-sharing.js";
import { textSpec } from "./specs/texts.js";
import { workSpec } from "./specs/work.js";
import { Suite } from "./suite.js";

/** Options of {@link storeConformance}. */
export interface ConformanceOptions {
  /**
   * The seed of the random operations. A failure names the seed that reproduces it.
   * @default a random number
   */
  readonly seed?: number;
  /**
   * The number of sequences of 120 random operations that are compared with a memory store.
   * @default 6
   */
  readonly rounds?: number;
}

/**
 * Defines the tests that every store must pass.
 *
 * @example
 * import { describe, it } from "vitest";
 * import { storeConformance } from "savepoint/testing";
 *
 * describe("my store", () => {
 *   storeConformance({ setup: async () => ({ store: openMyStore(), teardown: async () => {} }) }, { describe, it });
 * });
 */
export function storeConformance(harness: StoreHarness, runner: TestRunner, options: ConformanceOptions = {}): void {
  const suite = new Suite(harness, runner);
  const { seed = Math.floor(Math.random() * 2 ** 31), rounds = 6 } = options;
  recordSpec(suite);
  itemSpec(suite);
  numberingSpec(suite);
  refSpec(suite);
  blobSpec(suite);
  conflictSpec(suite);
  atomicitySpec(suite);
  orderSpec(suite);
  concurrencySpec(suite);
  retainSpec(suite);
  compactSpec(suite);
  bytesSpec(suite);
  textChangesSpec(suite, (store) => store.texts);
  textSpec(suite, seed, (store) => store.texts);
  textSharingSpec(suite);
  workSpec(suite);
  closeSpec(suite);
  reopenSpec(suite);
  backpressureSpec(suite);
  corruptionSpec(suite);
  crashSpec(suite);
  randomOperationsSpec(suite, seed, rounds);
}
