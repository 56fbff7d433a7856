/**
 * A process that is run by `heartbeat.slow.test.ts`: `busy` blocks its event loop for longer than its lease lasts, until `rival`, which
 * tries to take its work over all the time, has seen that it cannot.
 */
import { existsSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { until } from "../support/until.mjs";

const LEASE = 2000;

const [, , role, url = "", dist = "", enough = ""] = process.argv;
/** @type {typeof import("../../src/index.js")} */
const { defineAgent, isSavepointError, Savepoint } = await import(pathToFileURL(dist).href);

const agent = defineAgent({
  name: "busy",
  initial: (/** @type {string} */ _input) => ({}),
  async step(run) {
    await run.effect("begin", () => {});
    if (role === "rival") return run.complete("taken over");
    // Until the thread has started, the event loop renews the lease.
    await isBeating;
    console.log("busy");
    while (!existsSync(enough));
    return run.complete(await run.effect("end", () => "done"));
  },
});

/** Resolves when the thread that renews the lease has started. */
const isBeating = new Promise((resolve) => {
  process.on("worker", (worker) => worker.on("message", (message) => message === "ready" && resolve(undefined)));
});

// The thread that renews the lease does not keep the process running.
const waiting = setInterval(() => {}, 1000);
const sp = await Savepoint.open(url, { lease: LEASE });
if (role === "busy") {
  const result = await sp.run(agent, { session: "s", input: "go" });
  console.log(result.status, result.output);
} else {
  await until(() => sp.sessions.load("s"), "the session to exist");
  /** @type {number | undefined} */
  let refusedSince;
  await until(async () => {
    try {
      const result = await sp.run(agent, { session: "s", input: "go" });
      console.log(result.status, result.output);
      writeFileSync(enough, "");
      return true;
    } catch (error) {
      if (!isSavepointError(error)) throw error;
      console.log(error.code);
      refusedSince ??= performance.now();
      // A lease that was not renewed would have expired by now.
      if (performance.now() - refusedSince > 1.25 * LEASE) writeFileSync(enough, "");
      return false;
    }
  }, "the run to be completed");
}
await sp.close();
clearInterval(waiting);
