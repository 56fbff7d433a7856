// A process that does so many steps and is killed in the middle of the next one: node runs-child.mjs <url> <steps>
import { pathToFileURL } from "node:url";
import { defineAgent, Savepoint } from "savepoint";

/** An agent that reaches a point in its last step. @param {number} count @param {() => unknown} reached */
export function interrupted(count, reached) {
  return defineAgent({
    name: "interrupted",
    loop: false,
    limits: { stepsPerTurn: Number.POSITIVE_INFINITY },
    initial: () => ({ done: 0, messages: /** @type {unknown[]} */ ([]) }),
    async step(run) {
      const { state } = run;
      const content = await run.llm(() => `reply ${state.done}, twenty.`);
      state.messages.push({ role: "assistant", content });
      state.messages.splice(0, state.messages.length - 10);
      if (state.done++ < count) return undefined;
      await run.effect("interrupted", reached);
      return run.complete();
    },
  });
}

const [, file = "", url = "", count = ""] = process.argv;
if (import.meta.url === pathToFileURL(file).href) {
  const sp = await Savepoint.open(url, { durability: "process" });
  const die = () => process.kill(process.pid, "SIGKILL");
  await sp.run(interrupted(Number(count), die), { session: "s", input: {} });
}
