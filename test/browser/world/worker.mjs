// A process that runs a session slowly, until it is killed: node worker.mjs <store> <session>
import { defineAgent, message, Savepoint } from "savepoint";
import { setTimeout as pause } from "node:timers/promises";

/** Calls a tool in each step, and never ends. */
export const walker = defineAgent({
  name: "walker",
  initial: () => ({ steps: 0, messages: [message.user("Walk.")] }),
  strategy: "everyStep",
  async step(run) {
    const call = { id: `walk-${run.step}`, name: "walk", arguments: { step: run.step } };
    run.state.messages.push(message.assistant(`Step ${run.step}`, [call]));
    const result = await run.tool(call, async () => {
      await pause(60);
      return "ok";
    });
    run.state.messages.push(message.toolResult(call.id, result));
    run.state.steps++;
  },
});

const [url, session] = process.argv.slice(2);
if (url !== undefined && session !== undefined) {
  const sp = await Savepoint.open(url);
  await sp.run(walker, { session, input: {} });
}
