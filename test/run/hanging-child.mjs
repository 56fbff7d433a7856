/**
 * An agent that hangs in its second step, and a process with a worker that runs it until it is killed: `node hanging-child.mjs <url>`. Run by
 * `effect-history.test.ts`.
 */
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

/**
 * @param {typeof import("../../src/index.js").defineAgent} defineAgent
 * @param {() => unknown} hang the function of the effect in which it hangs
 */
export const defineHanging = (defineAgent, hang) =>
  defineAgent({
    name: "hanging",
    initial: () => ({ n: 0 }),
    async step(run) {
      const n = ++run.state.n;
      if (n === 1) return void (await run.effect("first", () => 1));
      if (n === 3) return run.complete(await run.effect("last", () => 3));
      await run.effect("before", () => 2);
      await run.effect("hangs", hang, { onUnknown: "retry" });
    },
  });

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  /** @type {typeof import("../../src/index.js")} */
  const { defineAgent, Savepoint } = await import(new URL("../../dist/index.js", import.meta.url).href);
  const sp = await Savepoint.open(argv[2] ?? "");
  const hang = () => {
    console.log("hangs");
    return new Promise(() => {});
  };
  const agent = defineHanging(defineAgent, hang);
  await sp.enqueue(agent, { session: "s", input: undefined });
  await sp.worker([agent]).start();
}
