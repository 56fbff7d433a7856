// What savepoint/ai costs: a step of the AI SDK's own loop, with a model call and a tool, beside the same loop without it.
import { join } from "node:path";
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { Savepoint } from "savepoint";
import { durable } from "savepoint/ai";
import { z } from "zod";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, report } from "./lib/report.mjs";

/** @typedef {import("savepoint").Durability} Durability */

/** @param {string[]} args steps in a turn, rounds */
export default async function ai(args) {
  const [steps = 100, rounds = 5] = args.map(Number);
  const contenders = {
    "the bare SDK": () => bare(steps),
    "savepoint/ai, process": () => inFolder((folder) => recorded(folder, steps, "process", "ask")),
    "savepoint/ai, power": () => inFolder((folder) => recorded(folder, steps, "power", "ask")),
    "savepoint/ai, power, retry": () => inFolder((folder) => recorded(folder, steps, "power", "retry")),
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
  report("ai", tables, {
    process: added("savepoint/ai, process"),
    power: added("savepoint/ai, power"),
    bytes: bytesOf("savepoint/ai, process"),
  });
}

/** @param {number} steps */
async function bare(steps) {
  const spent = await timed(() => loop(steps, createModel(steps), { look }, [{ role: "user", content: "Go." }]));
  return { each: spent / steps, bytes: 0 };
}

/** @param {string} folder @param {number} steps @param {Durability} durability @param {"ask" | "retry"} onUnknown */
async function recorded(folder, steps, durability, onUnknown) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const spent = await timed(async () => {
    const run = await durable(sp, { session: "s" });
    const tools = run.tools({ look }, { look: { onUnknown } });
    await run.complete(await loop(steps, run.model(createModel(steps)), tools, run.messages("Go.")));
  });
  await sp.close();
  return { each: spent / steps, bytes: sizeOf(folder) / steps };
}

const answer = "x".repeat(1000);
const look = tool({ inputSchema: z.object({ at: z.number() }), execute: async () => answer });

/**
 * @param {number} steps @param {MockLanguageModelV3} model @param {{ look: typeof look }} tools
 * @param {import("ai").ModelMessage[]} messages
 */
function loop(steps, model, tools, messages) {
  return generateText({ model, tools, messages, stopWhen: stepCountIs(steps + 1) });
}

/** @param {number} steps */
function createModel(steps) {
  let asked = 0;
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  return new MockLanguageModelV3({
    doGenerate: async () => {
      const calls = ++asked < steps;
      const call = /** @type {const} */ ({
        type: "tool-call",
        toolCallId: `c${asked}`,
        toolName: "look",
        input: `{"at":${asked}}`,
      });
      return {
        content: [calls ? call : { type: "text", text: "Done." }],
        finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined },
        usage,
        warnings: [],
      };
    },
  });
}
