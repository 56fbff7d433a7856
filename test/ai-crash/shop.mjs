// Two turns on the AI SDK's own loop, in a world in which the process may die at every point. The next process after a crash
// can repeat all of it from the beginning, because turns have names.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Savepoint, isSavepointError } from "savepoint";
import { durable, idempotencyKeyOf } from "savepoint/ai";
import { z } from "zod";
import { World } from "../run-crash/world.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";

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

/** Where the stores are killed: before a commit, and when it is durable but not acknowledged. */
const WRITES = new Set(["commit", "durable", "written", "logged"]);

/** A mark that makes each reply and each result of a tool different from all others. */
const createMark = () => `mark-${randomUUID()}`;

/** @param {string} folder @param {Variant} variant @param {Death} [death] @returns {Promise<Served>} */
export async function serveTwice(folder, variant, death) {
  const world = new World(folder, death);
  const url = variant.store === "file" ? `file:${join(folder, "store")}` : `sqlite:${join(folder, "store.db")}`;
  const probe = (/** @type {string} */ point) => void (WRITES.has(point) && world.pass(`store ${point}`));
  const sp = await Savepoint.open(url, withTestHooks({ probe }, { durability: /** @type {const} */ ("process") }));
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
        const mark = world.markOf(call?.id ?? "");
        await sp.answer("s", mark ? { happened: true, result: resultOf(call?.arguments, mark) } : { happened: false }, {
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
      const mark = createMark();
      world.note(`end ${toolCallId} ${idempotencyKeyOf(options)} ${mark}`);
      world.pass(`${turn} tool ${toolCallId} end`);
      return resultOf(input, mark);
    },
  });
  const settings = {
    model: run.model(await createModel(world, sdk, turn)),
    tools: run.tools({ charge }, { charge: policyOf(world, policy) }),
    messages: run.messages(`Charge me, ${turn}.`),
    stopWhen: stepCountIs(9),
    maxRetries: 0,
    onStepFinish: (/** @type {{ content: unknown }} */ { content }) => {
      // What the user's code has seen must not differ after a crash.
      world.note(
        `saw ${JSON.stringify(content)
          .match(/mark-[-0-9a-f]+/g)
          ?.join(" ")}`,
      );
      world.pass(`${turn} step`);
    },
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

/** @param {unknown} input @param {string} mark */
const resultOf = (input, mark) => ({ charged: /** @type {{ amount: number }} */ (input).amount, mark });

/** @param {World} world @param {Variant["policy"]} onUnknown @returns {ToolPolicy} */
function policyOf(world, onUnknown) {
  if (onUnknown !== "verify") return { onUnknown };
  /** @param {VerifyContext} context @returns {import("savepoint").Verdict} */
  const verify = ({ toolCallId, input }) => {
    const mark = world.markOf(toolCallId);
    return mark ? { happened: true, result: resultOf(input, mark) } : { happened: false };
  };
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
    const providerMetadata = { shop: { mark: createMark() } };
    /** @type {{ type: string, text?: string, providerMetadata?: object | undefined }[]} */
    const content = (script[spoken] ?? []).map((part) => ({ ...part, providerMetadata }));
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
                { type: "text-start", id: "t", providerMetadata: part.providerMetadata },
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
