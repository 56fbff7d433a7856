// A worker in a process of its own: plain JavaScript, and the build, because that is what Node runs.
//
// Arguments: the URL of the store, the folder for notes, the length of a lease, how long counting by one takes.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** @type {typeof import("../../src/index.js")} */
const { defineAgent, Savepoint } = await import(new URL("../../dist/index.js", import.meta.url).href);
const [url, folder = "", lease, pace] = process.argv.slice(2);

/** Counts to thirty, and notes each effect that it executes. */
const counting = defineAgent({
  name: "counting",
  strategy: "everyStep",
  initial: () => ({ n: 0, by: /** @type {number[]} */ ([]) }),
  async step(run) {
    const n = run.state.n + 1;
    await run.effect("count", async () => {
      appendFileSync(join(folder, run.session), `${n} ${process.pid}\n`);
      await sleep(Number(pace));
    });
    run.state.n = n;
    run.state.by.push(process.pid);
    if (n === 30) return run.complete(n);
  },
});

/** Kills every process that runs it. */
const deadly = defineAgent({
  name: "deadly",
  initial: () => ({}),
  async step(run) {
    await run.effect("die", () => process.kill(process.pid, "SIGKILL"));
  },
});

const sp = await Savepoint.open(url, { durability: "process" });
const agents = /** @type {import("../../src/index.js").Agent[]} */ ([counting, deadly]);
const worker = sp.worker(agents, {
  concurrency: 4,
  lease: /** @type {`${number}s`} */ (lease),
  poll: 50,
  maxCrashes: 3,
});
worker.on("leaseLost", () => console.log("lost"));
worker.on("quarantined", ({ sessionId }) => console.log(`quarantined ${sessionId}`));
worker.on("failure", ({ message, error }) => console.log(`failure ${message} ${String(error)}`));
await worker.start();
console.log("ready");
