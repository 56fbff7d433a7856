// Two turns of a crew on the SDK's own loop, in a world in which the process may die at every point. The next process after a crash can
// repeat all of it from the beginning, because turns have names.
//
// In each turn, a clerk charges twice and asks an adviser, all at once; then a cashier takes over, and refunds with approval.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Agent, run, setTracingDisabled, tool } from "@openai/agents-core";
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing";
import { isSavepointError, Savepoint } from "savepoint";
import { durable, idempotencyKeyOf } from "savepoint/openai";
import { z } from "zod";
import { World } from "../run-crash/world.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";

/** @import { AgentInputItem, AgentOutputItem } from "@openai/agents-core" */
/** @import { OpenAiState, ToolPolicy, VerifyContext } from "savepoint/openai" */
/** @import { Death } from "../run-crash/world.mjs" */

setTracingDisabled(true);

/**
 * @typedef {object} Variant
 * @property {"run" | "stream"} mode
 * @property {"ask" | "retry" | "verify" | "fail"} policy
 * @property {"sqlite" | "file"} [store]
 */

/**
 * @typedef {object} Served
 * @property {string[]} texts
 * @property {readonly AgentInputItem[]} messages
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
  /** @type {import("savepoint").Session<OpenAiState>} */
  const session = sp.session("s");
  const latest = await session.latest();
  const steps = (await session.history().all()).flatMap(({ step, status }) => (status === "waiting" ? [] : [step]));
  await sp.close();
  const messages = latest?.state.messages ?? [];
  return { texts, messages, status: latest?.status ?? "none", steps: steps.reverse(), passed: [...world.passed] };
}

/** One turn; if it waits for a person, refunds are approved, and else the answer is what really happened. @param {Savepoint} sp @param {World} world @param {Variant} variant @param {string} turn */
async function serve(sp, world, variant, turn) {
  for (;;) {
    const text = await serveOnce(sp, world, variant, turn).catch((error) => {
      const cause = error?.error ?? error;
      if (!isSavepointError(cause, "OUTCOME_UNKNOWN")) throw error;
      return undefined;
    });
    if (text !== undefined) return text;
    for (const { id, kind, call } of (await sp.sessions.load("s"))?.questions ?? []) {
      world.pass(`${turn} before answering`);
      const mark = world.markOf(call?.id.split("/").at(-1) ?? "");
      const outcome = mark ? { happened: true, result: resultOf(call?.arguments, mark) } : { happened: false };
      await sp.answer("s", kind === "ask" ? true : outcome, { question: id });
    }
  }
}

/** Returns `undefined` if the turn waits. @param {Savepoint} sp @param {World} world @param {Variant} variant @param {string} name */
async function serveOnce(sp, world, { mode, policy }, name) {
  const turn = await durable(sp, { session: "s", agent: "shop", turn: name });
  const policies = Object.fromEntries(["charge", "look", "refund"].map((tool) => [tool, policyOf(world, policy)]));
  const agent = turn.agent(createCrew(world, name), policies);
  // What the user's code has seen must not differ after a crash.
  const see = (/** @type {unknown} */ value) =>
    world.note(
      `saw ${JSON.stringify(value)
        .match(/mark-[-0-9a-f]+/g)
        ?.join(" ")}`,
    );
  const work = async (/** @type {any} */ input) => {
    if (mode === "run") return run(agent, input, { session: turn.session });
    const streamed = await run(agent, input, { session: turn.session, stream: true });
    for await (const event of streamed) {
      world.pass(`${name} ${event.type}`);
      if (event.type === "run_item_stream_event") see(event.item.rawItem);
    }
    await streamed.completed;
    return streamed;
  };
  let result = await work(`Charge me, ${name}.`);
  while (await turn.approved(result)) {
    world.pass(`${name} approved`);
    result = await work(result.state);
  }
  see(result.history);
  world.pass(`${name} before completing`);
  const { status } = await turn.complete(result);
  world.pass(`${name} ${status}`);
  return status === "completed" ? String(result.finalOutput) : undefined;
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

/** @param {World} world @param {string} turn */
function createCrew(world, turn) {
  const toolNamed = (/** @type {string} */ name) =>
    tool({
      name,
      description: name,
      parameters: z.object({ amount: z.number(), mark: z.string() }),
      needsApproval: name === "refund",
      execute: async (input, _context, details) => {
        const id = details?.toolCall?.callId;
        world.pass(`${turn} tool ${id} begin`);
        const mark = createMark();
        world.note(`end ${id} ${idempotencyKeyOf(details)} ${mark}`);
        world.pass(`${turn} tool ${id} end`);
        return resultOf(input, mark);
      },
    });
  const call = (/** @type {string} */ id, /** @type {string} */ name, /** @type {number} */ amount) =>
    functionCall(name, { amount, mark: createMark() }, { callId: `${turn}-${id}` });
  const ask = () => functionCall("ask", { input: "Really?" }, { callId: `${turn}-d` });
  const move = () => functionCall("transfer_to_cashier", {}, { callId: `${turn}-h` });
  const say = (/** @type {string} */ text) => assistantMessage(`${text} ${createMark()}`);
  /** @type {(name: string, script: Record<number, () => AgentOutputItem[]>) => ScriptedModel} */
  const model = (name, script) => {
    const respond = modelResponder(({ request }) => {
      const at = repliesIn(request.input);
      world.note(`model ${turn} ${name} ${at}`);
      const output = script[at]?.() ?? [];
      world.pass(`${turn} model ${name} ${at}`);
      return output;
    });
    return new ScriptedModel(Array.from({ length: 9 }, () => respond));
  };
  const adviser = new Agent({
    name: "adviser",
    model: model("adviser", { 0: () => [call("e", "look", 5)], 1: () => [say("Really.")] }),
    tools: [toolNamed("look")],
  });
  const cashier = new Agent({
    name: "cashier",
    model: model("cashier", { 2: () => [call("c", "refund", 3)], 3: () => [say(`Charged, ${turn}.`)] }),
    tools: [toolNamed("refund")],
  });
  return new Agent({
    name: "clerk",
    model: model("clerk", {
      0: () => [call("a", "charge", 1), call("b", "charge", 2), ask()],
      1: () => [move()],
    }),
    tools: [toolNamed("charge"), adviser.asTool({ toolName: "ask", toolDescription: "Asks." })],
    handoffs: [cashier],
  });
}

/** How often a model has replied since the user has spoken. Calls of one reply are consecutive. @param {string | AgentInputItem[]} input */
function repliesIn(input) {
  const items = typeof input === "string" ? [] : input;
  const from = items.map((item) => "role" in item && item.role).lastIndexOf("user") + 1;
  const kinds = items.slice(from).map(({ type }) => type);
  return kinds.filter((type, at) => type === "function_call_result" && kinds[at + 1] !== type).length;
}
