// A process that shares a folder with others. Arguments: the folder, what to do, and what that needs:
//   count <name> <times>            says "ready", waits for any input, and counts up
//   commit <commit>                 writes one commit
//   die <point> <work>              is killed by its own hand at a point of a write; the work is a commit, or "compact"
//   hold <point> <work>             says "holding" at a point of a write, and stays there for good
//   freeze <point> <work> <options> says "frozen" at a point of a write and stops itself with SIGSTOP; after that it prints the
//                                   outcome of the work, or dies at the second point, if `options` has one as `dieAt`
//   compute <file> <work> <options> computes once the work has begun, without a turn of the event loop, until the file is
//                                   there; then it prints the outcome
//   append <name> <options>         appends to a tape for as long as it lives, and prints each number that was acknowledged
import { once } from "node:events";
import { existsSync, writeSync } from "node:fs";

import { withTestHooks } from "../support/test-hooks.mjs";

const { openFileStore } = await import(new URL("../../dist/store.js", import.meta.url).href);
const { isSavepointError } = await import(new URL("../../dist/index.js", import.meta.url).href);

const [folder, what, first = "", second = "", third = "{}"] = process.argv.slice(2);

async function count() {
  process.stdout.write("ready\n");
  await once(process.stdin, "data");
  process.stdin.destroy();
  const store = await openFileStore(folder, { durability: "process", busyTimeout: "60s" });
  for (let n = 0; n < Number(second);) {
    const [record] = await store.get(["count"]);
    try {
      await store.commit({
        checks: [{ key: "count", value: record?.value }],
        puts: [{ key: "count", value: String(Number(record?.value ?? 0) + 1) }],
        items: [{ tape: "t", counter: "next", items: [{ json: JSON.stringify([first, n]), refs: "" }] }],
      });
      n++;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
  await store.close();
}

/**
 * Opens the store, and does something at each point that the work passes.
 * @param {(point: string) => void} onPoint @param {string} text @param {{ silence?: number, tears?: boolean }} internals
 */
async function work(onPoint, text, internals = {}) {
  let armed = false;
  const probe = (/** @type {string} */ point) => {
    if (armed) onPoint(point);
  };
  const store = await openFileStore(folder, withTestHooks({ probe }), internals);
  armed = true;
  const result = text === "compact" ? store.compact() : store.commit(JSON.parse(text));
  const outcome = await result.then(
    () => "done",
    (/** @type {{ code?: string, message: string }} */ error) => `failed: ${error.code} ${error.message}`,
  );
  writeSync(1, `${outcome}\n`);
  return store;
}

/** @param {() => void} there what happens at the point */
async function stopAt(there) {
  await work((point) => point === first && there(), second);
  throw new Error(`${first} was never reached.`);
}

async function freeze() {
  const options = JSON.parse(third);
  let isFrozen = false;
  const store = await work(
    (point) => {
      if (point === options.dieAt && isFrozen) process.kill(process.pid, "SIGKILL");
      if (point !== first || isFrozen) return;
      isFrozen = true;
      writeSync(1, "frozen\n");
      process.kill(process.pid, "SIGSTOP");
    },
    second,
    options,
  );
  await store.close();
}

async function compute() {
  let hasBegun = false;
  const store = await work(
    (point) => {
      if (point !== "written" || hasBegun) return;
      hasBegun = true;
      // As soon as the store gives the event loop a turn.
      process.nextTick(() => {
        writeSync(1, "computing\n");
        while (!existsSync(first));
      });
    },
    second,
    JSON.parse(third),
  );
  await store.close();
}

async function append() {
  const { silence, durability } = JSON.parse(second);
  const store = await openFileStore(folder, { durability, onBackgroundFailure: () => {} }, { silence });
  for (let n = 0; ; n++) {
    const items = [{ json: JSON.stringify([first, n]), refs: "" }];
    // Files of its own and one that all share, packed now and then.
    const tape = n % 3 === 0 ? first : "shared";
    const { firsts } = await store.commit({
      checks: [{ key: `at/${first}`, value: n === 0 ? undefined : String(n - 1) }],
      puts: [{ key: `at/${first}`, value: String(n) }],
      items: [{ tape, counter: `next/${tape}`, items }],
    });
    writeSync(1, `${JSON.stringify({ n, tape, item: firsts[0] })}\n`);
    if (n % 10 === 9) await store.compact();
  }
}

if (what === "count") await count();
else if (what === "commit") {
  const store = await openFileStore(folder);
  await store.commit(JSON.parse(first));
  await store.close();
} else if (what === "die") await stopAt(() => process.kill(process.pid, "SIGKILL"));
else if (what === "freeze") await freeze();
else if (what === "compute") await compute();
else if (what === "append") await append();
else {
  await stopAt(() => {
    writeSync(1, "holding\n");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
}
