/**
 * The process that is killed. It continues after the last batch in the store, keeps several commits in progress, and prints the
 * number of each batch once its commit has resolved.
 *
 * Arguments: the module with `openForCrash`, the location, and optionally the write point at which the process kills itself
 * and how many times it passes that point.
 */
import { writeSync } from "node:fs";
import { batch, lastBatch } from "./crash-batches.js";
import type { OpenForCrash } from "./harness.js";

/** Enough to pass every write point several times. A process that reaches it was not killed. */
const MAX_BATCHES = 3_000;
const MAX_IN_PROGRESS = 8;
const COMPACT_EVERY = 100;

const [module = "", location = "", fatalPoint, passes = "1"] = process.argv.slice(2);
const { openForCrash } = (await import(module)) as { openForCrash: OpenForCrash };

let passed = 0;
const store = await openForCrash(location, (point) => {
  if (point === fatalPoint && ++passed === Number(passes)) process.kill(process.pid, "SIGKILL");
});

const inProgress = new Set<Promise<void>>();
const first = (await lastBatch(store)) + 1;
for (let n = first; n < first + MAX_BATCHES; n++) {
  const commit = store.commit(batch(n)).then(() => {
    // Synchronous: a buffered acknowledgement would be lost with the process.
    writeSync(1, `${n}\n`);
    inProgress.delete(commit);
  });
  inProgress.add(commit);
  if (inProgress.size >= MAX_IN_PROGRESS) await Promise.race(inProgress);
  if (n % COMPACT_EVERY === 0) await store.compact();
}
await Promise.all(inProgress);
await store.close();
