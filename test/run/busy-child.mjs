/**
 * A process that is run by `leases.test.ts`: `busy` blocks its event loop for much longer than its lease lasts, `rival` tries
 * to take its work away all the time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [, , role, url = "", dist = ""] = process.argv;
/** @type {typeof import("../../src/index.js")} */
const { defineAgent, isSavepointError, Savepoint } = await import(pathToFileURL(dist).href);

const agent = defineAgent({
  name: "busy",
  initial: (/** @type {string} */ _input) => ({}),
  async step(run) {
    await run.effect("begin", () => {});
    console.log("busy");
    const end = Date.now() + 4500;
    while (Date.now() < end);
    return run.complete(await run.effect("end", () => "done"));
  },
});

const sp = await Savepoint.open(url, { lease: "2s" });
if (role === "busy") {
  const result = await sp.run(agent, { session: "s", input: "go" });
  console.log(result.status, result.output);
} else {
  while ((await sp.sessions.load("s")) === undefined) await sleep(10);
  for (;;) {
    try {
      const result = await sp.run(agent, { session: "s", input: "go" });
      console.log(result.status, result.output);
      break;
    } catch (error) {
      if (!isSavepointError(error)) throw error;
      console.log(error.code);
    }
    await sleep(50);
  }
}
await sp.close();
