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

/** @typedef {{ first: number; later: number; bytes: number }} Result milliseconds of a step in the first turn and in later ones */

/** The last turns of a store are those that count as later ones. */
const LATER = 10;

/** @param {string[]} args steps in a turn, turns in a store, rounds */
export default async function ai(args) {
  const [steps = 100, turns = 30, rounds = 3] = args.map(Number);
  /** @type {(durability: Durability, onUnknown: "ask" | "retry") => () => Promise<Result>} */
  const inStore = (durability, onUnknown) => () =>
    inFolder((folder) => recorded(folder, { steps, turns, durability, onUnknown }));
  const contenders = {
    "the bare SDK": () => bare(steps, turns),
    "savepoint/ai, process": inStore("process", "ask"),
    "savepoint/ai, power": inStore("power", "ask"),
    "savepoint/ai, power, retry": inStore("power", "retry"),
  };
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name, /** @type {"first" | "later"} */ turn) =>
    median((results[name] ?? []).map((result) => result[turn]));
  const added = (/** @type {string} */ name, /** @type {"first" | "later"} */ turn = "later") =>
    middle(name, turn) - middle("the bare SDK", turn);
  const bytesOf = (/** @type {string} */ name) => median((results[name] ?? []).map((result) => result.bytes));
  const tables = [
    {
      title: `Turns of ${steps} steps, each with a model call and a tool that answers 1 kB`,
      head: [
        "",
        "a step of the first turn",
        "more than the bare SDK",
        `of turn ${turns}`,
        "more than the bare SDK",
        "bytes each",
      ],
      rows: Object.keys(contenders).map((name) => [
        name,
        ms(middle(name, "first")),
        ms(added(name, "first")),
        ms(middle(name, "later")),
        ms(added(name)),
        bytes(bytesOf(name)),
      ]),
      notes: [
        `A store is opened, and ${turns} turns follow, each in a session of its own. The bytes are those of a file with one turn.`,
        "The model and the tool answer at once: what is measured is the loop, and what is recorded of it. With the policy `ask` a tool is two writes, with `retry` one; a reply and a checkpoint are one each.",
      ],
    },
  ];
  report("ai", tables, {
    process: added("savepoint/ai, process"),
    firstProcess: added("savepoint/ai, process", "first"),
    power: added("savepoint/ai, power"),
    firstPower: added("savepoint/ai, power", "first"),
    bytes: bytesOf("savepoint/ai, process"),
  });
}

/** @param {number} steps @param {number} turns @returns {Promise<Result>} */
async function bare(steps, turns) {
  const spent = await timeTurns(steps, turns, () =>
    loop(steps, createModel(steps), { look }, [{ role: "user", content: "Go." }]),
  );
  return { ...spent, bytes: 0 };
}

/**
 * @param {string} folder
 * @param {{ steps: number; turns: number; durability: Durability; onUnknown: "ask" | "retry" }} options
 * @returns {Promise<Result>}
 */
async function recorded(folder, { steps, turns, durability, onUnknown }) {
  const turn = async (/** @type {Savepoint} */ sp, /** @type {string} */ session) => {
    const run = await durable(sp, { session });
    const tools = run.tools({ look }, { look: { onUnknown } });
    await run.complete(await loop(steps, run.model(createModel(steps)), tools, run.messages("Go.")));
  };
  let sp = await Savepoint.open(`sqlite:${join(folder, "one-turn.db")}`, { durability });
  await turn(sp, "s");
  await sp.close();
  const stored = sizeOf(folder);
  sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const spent = await timeTurns(steps, turns, (index) => turn(sp, `s${index}`));
  await sp.close();
  return { ...spent, bytes: stored / steps };
}

/** @param {number} steps @param {number} turns @param {(index: number) => Promise<unknown>} run */
async function timeTurns(steps, turns, run) {
  const spent = [];
  for (let index = 0; index < turns; index++) spent.push((await timed(() => run(index))) / steps);
  return { first: spent[0] ?? Number.NaN, later: median(spent.slice(-LATER)) };
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
