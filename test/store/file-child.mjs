// A process that shares a folder with others. Arguments: the folder, what to do, and what that needs:
//   count <name> <times>     says "ready", waits for any input, and counts up
//   commit <commit>          writes one commit
//   die <point> <work>       is killed by its own hand at a point of a write; the work is a commit, or "compact"
//   hold <point> <work>      says "holding" at a point of a write, and stays there for good
import { once } from "node:events";
import { writeSync } from "node:fs";

const { openFileStore } = await import(new URL("../../dist/store/index.js", import.meta.url).href);
const { isSavepointError } = await import(new URL("../../dist/errors.js", import.meta.url).href);

const [folder, what, first = "", second = ""] = process.argv.slice(2);

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

/** @param {() => void} there what happens at the point */
async function stopAt(there) {
  let armed = false;
  const store = await openFileStore(folder, {
    /** @param {string} point */
    probe(point) {
      if (armed && point === first) there();
    },
  });
  armed = true;
  await (second === "compact" ? store.compact() : store.commit(JSON.parse(second)));
  throw new Error(`${first} was never reached.`);
}

if (what === "count") await count();
else if (what === "commit") {
  const store = await openFileStore(folder);
  await store.commit(JSON.parse(first));
  await store.close();
} else if (what === "die") await stopAt(() => process.kill(process.pid, "SIGKILL"));
else {
  await stopAt(() => {
    writeSync(1, "holding\n");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
}
