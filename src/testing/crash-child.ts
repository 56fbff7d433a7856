/**
 * The process that is killed. It goes on from the last batch that it finds, keeps several commits under way, and writes
 * the number of each batch to its output once the store has said that it is committed.
 *
 * Arguments: the module with `openForCrash`, the location, and, to be killed by its own hand, a point and how many times
 * to pass it first.
 */
import { writeSync } from "node:fs";
import { batch, lastBatch } from "./crash-batches.js";
import type { OpenForCrash } from "./harness.js";

/** Enough for every point to be passed several times; a child that gets here was never killed. */
const MAX_BATCHES = 3_000;
const UNDER_WAY = 8;
const COMPACT_EVERY = 100;

const [module = "", location = "", fatalPoint, passes = "1"] = process.argv.slice(2);
const { openForCrash } = (await import(module)) as { openForCrash: OpenForCrash };

let passed = 0;
const store = await openForCrash(location, (point) => {
  if (point === fatalPoint && ++passed === Number(passes)) process.kill(process.pid, "SIGKILL");
});

const underWay = new Set<Promise<void>>();
const first = (await lastBatch(store)) + 1;
for (let n = first; n < first + MAX_BATCHES; n++) {
  const commit = store.commit(batch(n)).then(() => {
    // Written before anything else happens: an acknowledgement that waits in a buffer would die with the process.
    writeSync(1, `${n}\n`);
    underWay.delete(commit);
  });
  underWay.add(commit);
  if (underWay.size >= UNDER_WAY) await Promise.race(underWay);
  if (n % COMPACT_EVERY === 0) await store.compact();
}
await Promise.all(underWay);
await store.close();
