/**
 * A worker whose agent takes 20 short steps and then hangs in a tool, until the process is killed: `node ui-child.mjs <url>`. Run by
 * `live.slow.test.ts`.
 */
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

/**
 * @param {typeof import("../../src/index.js").defineAgent} defineAgent
 * @param {() => unknown} hang the tool in which it hangs
 */
export const defineSlow = (defineAgent, hang) =>
  defineAgent({
    name: "slow",
    strategy: "everyStep",
    initial: () => ({ n: 0 }),
    async step(run) {
      const n = ++run.state.n;
      await run.tool({ id: `call_${n}`, name: "wait" }, () => new Promise((resolve) => setTimeout(resolve, 20, n)));
      if (n < 20) return;
      return run.complete(await run.tool({ id: "call_last", name: "hang" }, hang));
    },
  });

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  /** @type {typeof import("../../src/index.js")} */
  const { defineAgent, Savepoint } = await import(new URL("../../dist/index.js", import.meta.url).href);
  const sp = await Savepoint.open(argv[2] ?? "");
  const agent = defineSlow(defineAgent, () => new Promise(() => {}));
  await sp.enqueue(agent, { session: "s", input: undefined });
  await sp.worker([agent]).start();
}
