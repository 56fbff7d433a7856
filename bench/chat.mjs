// What chat streams cost: the steps of a streamed reply that a client reads, beside the same stream of the SDK alone.
import { join } from "node:path";
import { stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { Savepoint } from "savepoint";
import { durable } from "savepoint/ai";
import { z } from "zod";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, report } from "./lib/report.mjs";

/** @typedef {import("savepoint").Durability} Durability */
/** @typedef {{ each: number, bytes: number, streamed: number }} Result */

const DELTAS = 50;

/** @param {string[]} args steps in a reply, rounds */
export default async function chat(args) {
  const [steps = 50, rounds = 5] = args.map(Number);
  /** @type {Record<string, () => Promise<Result>>} */
  const contenders = {
    "the bare SDK": () => bare(steps),
    "savepoint/ai, process": () => inFolder((folder) => recorded(folder, steps, "process")),
    "savepoint/ai, power": () => inFolder((folder) => recorded(folder, steps, "power")),
  };
  // What is loaded and compiled first is not what is measured.
  await bare(10);
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name, /** @type {keyof Result} */ field) =>
    median((results[name] ?? []).map((result) => result[field]));
  const added = (/** @type {string} */ name) => middle(name, "each") - middle("the bare SDK", "each");
  const shown = (/** @type {number} */ value) => (value > 0 ? bytes(value) : "–");
  const tables = [
    {
      title: `A streamed reply of ${steps} steps, each with ${DELTAS} deltas of 20 characters and a tool, read to its end`,
      head: ["", "each step", "more than the bare SDK", "bytes each, stored", "bytes each, while it is streamed"],
      rows: Object.keys(contenders).map((name) => [
        name,
        ms(middle(name, "each")),
        ms(added(name)),
        shown(middle(name, "bytes")),
        shown(middle(name, "streamed")),
      ]),
      notes: [
        "The model and the tool answer at once. The client gets only chunks that are durable. When the turn has ended, its chunks are freed: while it is streamed, the files contain them and the write-ahead log.",
      ],
    },
  ];
  report("chat", tables, {
    process: added("savepoint/ai, process"),
    power: added("savepoint/ai, power"),
    bytes: middle("savepoint/ai, process", "bytes"),
  });
}

/** @param {number} steps @returns {Promise<Result>} */
async function bare(steps) {
  const spent = await timed(() =>
    read(loop(steps, createModel(steps), { look }, [{ role: "user", content: "Go." }]).toUIMessageStreamResponse()),
  );
  return { each: spent / steps, bytes: 0, streamed: 0 };
}

/** @param {string} folder @param {number} steps @param {Durability} durability @returns {Promise<Result>} */
async function recorded(folder, steps, durability) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const spent = await timed(async () => {
    const run = await durable(sp, { session: "s", messages: "Go." });
    const tools = run.tools({ look }, { look: { onUnknown: "retry" } });
    await read(run.toUIMessageStreamResponse(loop(steps, run.model(createModel(steps)), tools, run.messages())));
    await run.ended();
  });
  const streamed = sizeOf(folder);
  await sp.close();
  return { each: spent / steps, bytes: sizeOf(folder) / steps, streamed: streamed / steps };
}

/** Reads a response as a client does. @param {Response} response */
async function read({ body }) {
  for await (const _ of body ?? []);
}

const look = tool({ inputSchema: z.object({ at: z.number() }), execute: async () => "x".repeat(1000) });

/**
 * @param {number} steps @param {MockLanguageModelV3} model @param {{ look: typeof look }} tools
 * @param {import("ai").ModelMessage[]} messages
 */
function loop(steps, model, tools, messages) {
  return streamText({ model, tools, messages, stopWhen: stepCountIs(steps + 1) });
}

/** @param {number} steps */
function createModel(steps) {
  let asked = 0;
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: DELTAS, text: DELTAS, reasoning: 0 },
  };
  return new MockLanguageModelV3({
    doStream: async () => ({ stream: ReadableStream.from(speak(++asked, asked < steps)) }),
  });

  /** @param {number} step @param {boolean} calls @returns {Generator<import("@ai-sdk/provider").LanguageModelV3StreamPart>} */
  function* speak(step, calls) {
    yield { type: "stream-start", warnings: [] };
    yield { type: "text-start", id: "0" };
    for (let n = 0; n < DELTAS; n++) yield { type: "text-delta", id: "0", delta: `${step}.${n} `.padEnd(20, "word ") };
    yield { type: "text-end", id: "0" };
    if (calls) yield { type: "tool-call", toolCallId: `c${step}`, toolName: "look", input: `{"at":${step}}` };
    yield { type: "finish", finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage };
  }
}
