/** A worker that takes on four sessions at once, of which one ends its process. It is run by `deadly.test.ts`. */
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [, , url = "", dist = ""] = process.argv;
/** @type {typeof import("../../src/index.js")} */
const { defineAgent, Savepoint } = await import(pathToFileURL(dist).href);

const agent = defineAgent({
  name: "agent",
  initial: (/** @type {string} */ how) => ({ how, steps: 0 }),
  async step(run) {
    // Those that do no harm take their time: they are still at it when the other one ends the process.
    await run.effect("think", () => (run.state.how === "deadly" ? process.exit(7) : sleep(300)));
    run.state.steps++;
    return run.state.steps === 2 ? run.complete("done") : undefined;
  },
});

const sp = await Savepoint.open(url, { lease: "2s" });
const worker = sp.worker([agent], { concurrency: 4, maxDeaths: 4, poll: 20 });
await worker.start();
for (;;) {
  const left = await sp.sessions.list().all();
  if (left.every(({ status }) => status === "completed" || status === "failed")) break;
  await sleep(20);
}
await worker.stop();
await sp.close();
