// The loop of the OpenAI Agents SDK, made durable. A desk hands a customer over to a cashier, whose refund needs approval. The process is
// killed in the middle of a tool; the next one resumes the turn and waits for a person; the last one pays. The models are scripted, so that
// this runs offline.
//
//   node examples/openai/refund.mjs            runs everything in a temporary folder
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Agent, run, setTracingDisabled, tool } from "@openai/agents-core";
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing";
import { Savepoint } from "savepoint";
import { durable } from "savepoint/openai";
import { z } from "zod";

/** @import { AgentOutputItem } from "@openai/agents-core" */

setTracingDisabled(true);
const SESSION = "order-88";

const find = tool({
  name: "find_order",
  description: "Finds an order.",
  parameters: z.object({ order: z.number() }),
  execute: async ({ order }) => {
    console.log(`  FINDS order ${order}`);
    if (process.argv[2] === "--crash") process.kill(process.pid, "SIGKILL");
    return { order, paid: 30 };
  },
});

const refund = tool({
  name: "refund",
  description: "Refunds a payment.",
  parameters: z.object({ amount: z.number() }),
  needsApproval: true,
  execute: async ({ amount }) => {
    console.log(`  REFUNDS ${amount} EUR`);
    return `refunded ${amount} EUR`;
  },
});

const cashier = new Agent({
  name: "cashier",
  model: createModel("cashier", {
    2: functionCall("refund", { amount: 30 }, { callId: "c3" }),
    3: assistantMessage("You get 30 EUR back."),
  }),
  tools: [refund],
});
const desk = new Agent({
  name: "desk",
  model: createModel("desk", {
    0: functionCall("find_order", { order: 88 }, { callId: "c1" }),
    1: functionCall("transfer_to_cashier", {}, { callId: "c2" }),
  }),
  tools: [find],
  handoffs: [cashier],
});

/** A model that replies by how many results it is shown. @param {string} name @param {Record<number, AgentOutputItem>} replies */
function createModel(name, replies) {
  const reply = modelResponder(({ request: { input } }) => {
    const done = Array.isArray(input) ? input.filter(({ type }) => type === "function_call_result").length : 0;
    console.log(`  model call, ${name} ${done}`);
    return [replies[done] ?? assistantMessage("Goodbye.")];
  });
  return new ScriptedModel(Array.from({ length: 5 }, () => reply));
}

async function main() {
  const sp = await Savepoint.open("sqlite:./shop.db");
  const turn = await durable(sp, { session: SESSION, turn: "message-1" });
  const agent = turn.agent(desk, { find_order: { onUnknown: "retry" } });
  let result = await run(agent, "Refund order 88.", { session: turn.session });
  while (await turn.approved(result)) result = await run(agent, result.state, { session: turn.session });
  const end = await turn.complete(result);
  if (end.status === "waiting") {
    console.log(`  waiting: ${end.questions[0]?.text}`);
    console.log("  a person approves");
    await sp.answer(SESSION, true);
  } else console.log(`  ${end.status}: ${String(end.output)}`);
  const { length } = await sp.session(SESSION).history().all();
  console.log(`  ${length} checkpoints`);
  await sp.close();
}

function play() {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-openai-"));
  for (const arg of ["--crash", "--resume", "--approved", "--again"]) {
    console.log(`$ node refund.mjs ${arg}`);
    const { stdout, stderr, signal } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), arg], {
      cwd: folder,
    });
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    if (signal) console.log(`  ${signal}`);
  }
  rmSync(folder, { recursive: true, force: true });
}

if (process.argv[2] === undefined) play();
else await main();
