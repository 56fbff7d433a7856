// A worker that will be stopped: node takeover-child.mjs <url> <lease>. It says a word at each step, and ends with 3 when it
// has lost its session.
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, Savepoint } from "savepoint";

/** An agent that makes a step every 50 milliseconds, for ever. @param {() => void} stepping */
export function walker(stepping) {
  return defineAgent({
    name: "walker",
    loop: false,
    limits: { stepsPerTurn: Number.POSITIVE_INFINITY },
    initial: () => ({ done: 0 }),
    async step(run) {
      stepping();
      await run.effect("walk", () => sleep(50));
      run.state.done++;
    },
  });
}

const [, file = "", url = "", lease = ""] = process.argv;
if (import.meta.url === pathToFileURL(file).href) {
  const sp = await Savepoint.open(url);
  const worker = sp.worker([walker(() => console.log("step"))], { lease: Number(lease), signals: false });
  worker.on("leaseLost", () => process.exit(3));
  await worker.start();
  console.log("ready");
}
