// Two turns on the AI SDK's own loop, in a world in which the process may die at every point. The next process after a crash
// can repeat all of it from the beginning, because turns have names.
import { join } from "node:path";
import { Savepoint, isSavepointError } from "savepoint";
import { durable, idempotencyKeyOf } from "savepoint/ai";
import { z } from "zod";
import { World } from "../run-crash/world.mjs";

/** @import { AiState, ToolPolicy, VerifyContext } from "savepoint/ai" */
/** @import { Death } from "../run-crash/world.mjs" */

/**
 * @typedef {object} Variant
 * @property {6 | 7} sdk
 * @property {"generate" | "stream"} mode
 * @property {"ask" | "retry" | "verify" | "fail"} policy
 * @property {"sqlite" | "file"} [store]
 */

/**
 * @typedef {object} Served
 * @property {string[]} texts
 * @property {unknown[]} messages
 * @property {string} status
 * @property {number[]} steps of the checkpoints, the oldest first, without those that wait
 * @property {[string, number][]} passed points, and how often each was passed
 */

const TURNS = ["one", "two"];

/** @param {string} folder @param {Variant} variant @param {Death} [death] @returns {Promise<Served>} */
export async function serveTwice(folder, variant, death) {
  const world = new World(folder, death);
  const url = variant.store === "file" ? `file:${join(folder, "store")}` : `sqlite:${join(folder, "store.db")}`;
  const sp = await Savepoint.open(url, { durability: "process" });
  const texts = [];
  for (const turn of TURNS) texts.push(await serve(sp, world, variant, turn));
  /** @type {import("savepoint").Session<AiState>} */
  const session = sp.session("s");
  const latest = await session.latest();
  const steps = (await session.history().all()).flatMap(({ step, status }) => (status === "waiting" ? [] : [step]));
  await sp.close();
  const messages = latest?.state.messages ?? [];
  return { texts, messages, status: latest?.status ?? "none", steps: steps.reverse(), passed: [...world.passed] };
}

/** One turn; if it waits for a person, the answer is what really happened. @param {Savepoint} sp @param {World} world @param {Variant} variant @param {string} turn */
async function serve(sp, world, variant, turn) {
  for (;;) {
    try {
      return await serveOnce(sp, world, variant, turn);
    } catch (error) {
      if (!isSavepointError(error, "OUTCOME_UNKNOWN")) throw error;
      for (const { id, call } of (await sp.sessions.load("s"))?.questions ?? []) {
        const happened = world.happened(call?.id ?? "");
        await sp.answer("s", happened ? { happened, result: resultOf(call?.arguments) } : { happened }, {
          question: id,
        });
      }
    }
  }
}

/** @param {Savepoint} sp @param {World} world @param {Variant} variant @param {string} turn */
async function serveOnce(sp, world, { sdk, mode, policy }, turn) {
  const { generateText, streamText, stepCountIs, tool } = /** @type {typeof import("ai")} */ (
    await import(sdk === 7 ? "ai7" : "ai")
  );
  const run = await durable(sp, { session: "s", agent: "shop", turn });
  const charge = tool({
    inputSchema: z.object({ amount: z.number() }),
    execute: async (input, options) => {
      const { toolCallId } = options;
      world.pass(`${turn} tool ${toolCallId} begin`);
      world.note(`end ${toolCallId} ${idempotencyKeyOf(options)}`);
      world.pass(`${turn} tool ${toolCallId} end`);
      return resultOf(input);
    },
  });
  const settings = {
    model: run.model(await createModel(world, sdk, turn)),
    tools: run.tools({ charge }, { charge: policyOf(world, policy) }),
    messages: run.messages(`Charge me, ${turn}.`),
    stopWhen: stepCountIs(9),
    maxRetries: 0,
    onStepFinish: () => world.pass(`${turn} step`),
  };
  let text = "";
  /** @type {unknown} */
  let result;
  if (mode === "generate") {
    const generated = await generateText(settings);
    ({ text } = generated);
    result = generated;
  } else {
    /** @type {{ error?: unknown }} */
    const failed = {};
    const streamed = streamText({ ...settings, onError: ({ error }) => void (failed.error ??= error) });
    for await (const part of streamed.textStream) {
      world.pass(`${turn} part`);
      text += part;
    }
    if (failed.error !== undefined) throw /** @type {Error} */ (failed.error);
    result = streamed;
  }
  world.pass(`${turn} before completing`);
  await run.complete(result);
  world.pass(`${turn} completed`);
  return text;
}

/** @param {unknown} input */
const resultOf = (input) => ({ charged: /** @type {{ amount: number }} */ (input).amount });

/** @param {World} world @param {Variant["policy"]} onUnknown @returns {ToolPolicy} */
function policyOf(world, onUnknown) {
  if (onUnknown !== "verify") return { onUnknown };
  /** @param {VerifyContext} context @returns {import("savepoint").Verdict} */
  const verify = ({ toolCallId, input }) =>
    world.happened(toolCallId) ? { happened: true, result: resultOf(input) } : { happened: false };
  return { onUnknown, verify };
}

/** Two charges at once, then one more, then an answer. @param {World} world @param {6 | 7} sdk @param {string} turn */
async function createModel(world, sdk, turn) {
  const test = /** @type {any} */ (await import(sdk === 7 ? "ai7/test" : "ai/test"));
  const Model = sdk === 7 ? test.MockLanguageModelV4 : test.MockLanguageModelV3;
  /** @param {string} id @param {number} amount */
  const call = (id, amount) => ({
    type: "tool-call",
    toolCallId: `${turn}-${id}`,
    toolName: "charge",
    input: JSON.stringify({ amount }),
  });
  /** @type {{ type: string, text?: string }[][]} */
  const script = [[call("a", 1), call("b", 2)], [call("c", 3)], [{ type: "text", text: `Charged, ${turn}.` }]];
  /** @param {{ role: string }[]} prompt */
  const replyTo = (prompt) => {
    const since = prompt.map(({ role }) => role).lastIndexOf("user");
    const spoken = prompt.slice(since).filter(({ role }) => role === "assistant").length;
    world.note(`model ${turn} ${spoken}`);
    const content = script[spoken] ?? [];
    const unified = spoken < 2 ? "tool-calls" : "stop";
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    return { spoken, content, end: { finishReason: { unified, raw: undefined }, usage } };
  };
  return new Model({
    /** @param {{ prompt: { role: string }[] }} options */
    doGenerate: async ({ prompt }) => {
      const { spoken, content, end } = replyTo(prompt);
      world.pass(`${turn} model ${spoken}`);
      return { content, ...end, warnings: [] };
    },
    /** @param {{ prompt: { role: string }[] }} options */
    doStream: async ({ prompt }) => {
      const { spoken, content, end } = replyTo(prompt);
      const parts = [
        { type: "stream-start", warnings: [] },
        ...content.flatMap((part) =>
          part.type === "text"
            ? [
                { type: "text-start", id: "t" },
                { type: "text-delta", id: "t", delta: "Charged, " },
                { type: "text-delta", id: "t", delta: `${turn}.` },
                { type: "text-end", id: "t" },
              ]
            : [part],
        ),
        { type: "finish", ...end },
      ];
      const stream = new ReadableStream({
        pull(controller) {
          world.pass(`${turn} model ${spoken}`);
          const part = parts.shift();
          if (part) controller.enqueue(part);
          else controller.close();
        },
      });
      return { stream };
    },
  });
}
