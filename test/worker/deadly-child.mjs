/** A worker that takes on four sessions at once, of which one ends its process. It is run by `deadly.test.ts`. */
import { pathToFileURL } from "node:url";
import { until } from "../support/until.mjs";

const [, , url = "", dist = "", round = ""] = process.argv;
/** @type {typeof import("../../src/index.js")} */
const { defineAgent, Savepoint } = await import(pathToFileURL(dist).href);

const agent = defineAgent({
  name: "agent",
  initial: (/** @type {string} */ how) => ({ how, steps: 0 }),
  async step(run) {
    const isDeadly = run.state.how === "deadly";
    // In the first process the harmless sessions are still running when the deadly one ends the process.
    await run.effect("think", () => (isDeadly ? process.exit(7) : round === "0" ? new Promise(() => {}) : undefined));
    run.state.steps++;
    return run.state.steps === 2 ? run.complete("done") : undefined;
  },
});

const sp = await Savepoint.open(url, { lease: "2s" });
const worker = sp.worker([agent], { concurrency: 4, maxCrashes: 4, poll: 20 });
await worker.start();
await until(async () => {
  const left = await sp.sessions.list().all();
  return left.every(({ status }) => status === "completed" || status === "failed");
}, "all sessions to be completed or failed");
await worker.stop();
await sp.close();
