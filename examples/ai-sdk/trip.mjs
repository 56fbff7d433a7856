// The Vercel AI SDK's own loop, made durable. The process is killed in the middle of a tool, and another one resumes the
// turn. Then the session is forked at a step and continued with another model. The models are scripted, so that this runs
// offline.
//
//   node examples/ai-sdk/trip.mjs            runs everything in a temporary folder
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { Savepoint } from "savepoint";
import { durable } from "savepoint/ai";
import { z } from "zod";

const SESSION = "trip-1";

const flights = tool({
  description: "Finds flights.",
  inputSchema: z.object({ to: z.string() }),
  execute: async ({ to }) => {
    console.log(`  SEARCHES flights to ${to}`);
    return [`Monday to ${to}`, `Tuesday to ${to}`];
  },
});

const book = tool({
  description: "Books a flight.",
  inputSchema: z.object({ flight: z.string() }),
  execute: async ({ flight }) => {
    console.log(`  BOOKS ${flight}`);
    if (process.argv[2] === "--crash") process.kill(process.pid, "SIGKILL"); // the outcome is unknown now
    return { booked: flight };
  },
});

/** Starts the turn, or resumes it. @param {Savepoint} sp @param {"early" | "late"} taste @param {string} [branch] */
async function plan(sp, taste, branch = "main") {
  const run = await durable(sp, { session: SESSION, agent: "planner", branch });
  try {
    const result = await generateText({
      model: run.model(createModel(taste)),
      tools: run.tools({ flights, book }, { flights: { onUnknown: "retry" } }),
      messages: run.messages("Book me a flight to Lisbon."),
      stopWhen: stepCountIs(5),
    });
    await run.complete(result);
    console.log(`  ${branch}: ${result.text}`);
  } catch (error) {
    // The turn waits for a person, or has failed. Either way it can be resumed.
    await run.release();
    console.log(`  ${branch} stopped: ${/** @type {{ code?: string }} */ (error).code ?? String(error)}`);
  }
}

async function main() {
  const sp = await Savepoint.open("sqlite:./trip.db");
  await plan(sp, "early");
  const { status, questions } = (await sp.sessions.load(SESSION)) ?? {};
  if (status !== "waiting") return sp.close();

  console.log(`  a person checks ${questions?.[0]?.call?.name} and answers that it happened`);
  await sp.answer(SESSION, { happened: true, result: { booked: "Monday to Lisbon" } });
  await plan(sp, "early");

  /** @type {import("savepoint").Session<import("savepoint/ai").AiState>} */
  const session = sp.session(SESSION);
  for (const { step, status: stepStatus } of (await session.history().all()).reverse())
    console.log(`  step ${step}: ${stepStatus}`);
  // After step 1 the flights are known, and nothing is booked yet.
  const fork = await session.fork({ step: 1 }, { branch: "what-if" });
  await plan(sp, "late", fork.branch);
  const count = async (/** @type {typeof session} */ of) => (await of.latest())?.state.messages.length;
  console.log(`  ${await count(session)} messages on main, ${await count(fork)} on what-if`);
  await sp.close();
}

/** A model that searches flights and books the first or the second one. @param {"early" | "late"} taste */
function createModel(taste) {
  /** @param {string} toolName @param {object} input */
  const call = (toolName, input) => ({
    type: /** @type {const} */ ("tool-call"),
    toolCallId: `${toolName}-1`,
    toolName,
    input: JSON.stringify(input),
  });
  const flight = taste === "early" ? "Monday to Lisbon" : "Tuesday to Lisbon";
  const replies = [
    call("flights", { to: "Lisbon" }),
    call("book", { flight }),
    { type: /** @type {const} */ ("text"), text: `You fly: ${flight}.` },
  ];
  return new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const spoken = prompt.filter(({ role }) => role === "assistant").length;
      console.log(`  model call, ${taste} ${spoken}`);
      const reply = replies[spoken] ?? replies[2];
      const count = { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 };
      return {
        content: reply ? [reply] : [],
        finishReason: { unified: spoken < 2 ? "tool-calls" : "stop", raw: undefined },
        usage: { inputTokens: count, outputTokens: { total: 5, text: 5, reasoning: 0 } },
        warnings: [],
      };
    },
  });
}

function play() {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-ai-sdk-"));
  for (const arg of ["--crash", "--resume"]) {
    console.log(`$ node trip.mjs ${arg}`);
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
