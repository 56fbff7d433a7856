// What savepoint/openai costs: a step of the loop of the OpenAI Agents SDK, with a model call and a tool, beside the same loop without it.
import { join } from "node:path";
import { Agent, MemorySession, run, setTracingDisabled, tool } from "@openai/agents-core";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents-core/testing";
import { Savepoint } from "savepoint";
import { durable } from "savepoint/openai";
import { z } from "zod";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, report } from "./lib/report.mjs";

/** @typedef {import("savepoint").Durability} Durability */

setTracingDisabled(true);

/** @param {string[]} args steps in a turn, rounds */
export default async function openai(args) {
  const [steps = 100, rounds = 5] = args.map(Number);
  const contenders = {
    "the bare SDK": () => bare(steps),
    "savepoint/openai, process": () => inFolder((folder) => recorded(folder, steps, "process", "ask")),
    "savepoint/openai, power": () => inFolder((folder) => recorded(folder, steps, "power", "ask")),
    "savepoint/openai, power, retry": () => inFolder((folder) => recorded(folder, steps, "power", "retry")),
  };
  // What is loaded and compiled first is not what is measured.
  await bare(20);
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name) => median((results[name] ?? []).map(({ each }) => each));
  const added = (/** @type {string} */ name) => middle(name) - middle("the bare SDK");
  const bytesOf = (/** @type {string} */ name) => median((results[name] ?? []).map((result) => result.bytes));
  const tables = [
    {
      title: `A turn of ${steps} steps, each with a model call and a tool that answers 1 kB`,
      head: ["", "each step", "more than the bare SDK", "bytes each"],
      rows: Object.keys(contenders).map((name) => [name, ms(middle(name)), ms(added(name)), bytes(bytesOf(name))]),
      notes: [
        "The model and the tool answer at once: what is measured is the loop, and what is recorded of it. With the policy `ask` a tool is two writes, with `retry` one; a reply and a checkpoint are one each.",
      ],
    },
  ];
  report("openai", tables, {
    process: added("savepoint/openai, process"),
    power: added("savepoint/openai, power"),
    bytes: bytesOf("savepoint/openai, process"),
  });
}

/** @param {number} steps */
async function bare(steps) {
  const session = new MemorySession();
  const spent = await timed(() => run(createAgent(steps), "Go.", { session, maxTurns: steps + 1 }));
  return { each: spent / steps, bytes: 0 };
}

/** @param {string} folder @param {number} steps @param {Durability} durability @param {"ask" | "retry"} onUnknown */
async function recorded(folder, steps, durability, onUnknown) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const spent = await timed(async () => {
    const turn = await durable(sp, { session: "s" });
    const agent = turn.agent(createAgent(steps), { look: { onUnknown } });
    await turn.complete(await run(agent, "Go.", { session: turn.session, maxTurns: steps + 1 }));
  });
  await sp.close();
  return { each: spent / steps, bytes: sizeOf(folder) / steps };
}

const answer = "x".repeat(1000);
const look = tool({
  name: "look",
  description: "Looks something up.",
  parameters: z.object({ at: z.number() }),
  execute: async () => answer,
});

/** @param {number} steps */
function createAgent(steps) {
  const replies = Array.from({ length: steps }, (_, at) => [
    at < steps - 1 ? functionCall("look", { at }, { callId: `c${at}` }) : assistantMessage("Done."),
  ]);
  return new Agent({ name: "looker", model: new ScriptedModel(replies), tools: [look] });
}
