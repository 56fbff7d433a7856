// Claude Agent SDK: transcripts in a Savepoint store, and tools that are not repeated. The process is killed in the middle of a
// payment, and another one resumes the session. A scripted program stands in for Claude Code, so that this runs offline.
//
//   node examples/claude/refunds.mjs            runs everything in a temporary folder
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { getSessionMessages, listSessions, query } from "@anthropic-ai/claude-agent-sdk";
import { Savepoint } from "savepoint";
import { durableTools, SavepointSessionStore } from "savepoint/claude";

const SESSION = "7c1f0a52-0000-4000-8000-000000000001";
/** The calls of the scripted model: it looks up an order and refunds it. */
const SCRIPT = ["echo order 88: 30 EUR", "sh refund.sh"];

async function work() {
  const sp = await Savepoint.open("sqlite:./agents.db");
  const sessionStore = new SavepointSessionStore(sp);
  const key = { projectKey: process.cwd().replaceAll(/[^a-zA-Z0-9]/g, "-"), sessionId: SESSION };
  const transcript = await sessionStore.load(key);
  console.log(transcript ? `  resumes with ${transcript.length} lines` : "  starts");

  const tools = await durableTools(sp, { session: "refund-88", turn: "message-1", transcript });
  const options = {
    sessionStore,
    sessionStoreFlush: /** @type {const} */ ("eager"),
    hooks: tools.hooks,
    ...(transcript ? { resume: SESSION } : { sessionId: SESSION }),
    // The program that stands in for Claude Code. Leave these three lines out.
    pathToClaudeCodeExecutable: fileURLToPath(new URL("scripted-claude.mjs", import.meta.url)),
    executable: /** @type {const} */ ("node"),
    env: { ...process.env, SCRIPT: JSON.stringify(SCRIPT), SDK: String(process.pid) },
  };
  let reply = "";
  for await (const message of query({ prompt: "Refund order 88.", options })) {
    if (message.type === "result" && message.subtype === "success") reply = message.result;
  }
  const waiting = (await sp.sessions.load("refund-88"))?.questions ?? [];
  if (waiting.length === 0) {
    await tools.complete(reply);
    console.log(`  ${reply}`);
    const [info] = await listSessions({ dir: process.cwd(), sessionStore });
    const messages = await getSessionMessages(SESSION, { dir: process.cwd(), sessionStore });
    console.log(`  listed as ${JSON.stringify(info?.summary)}, ${messages.length} messages`);
    const [hit] = await sp.search("refunded");
    console.log(`  found ${JSON.stringify(hit?.snippet)} in ${hit?.id.split("/").at(-1)}`);
  }
  for (const { id, text } of waiting) {
    console.log(`  a person answers: ${text.split("?")[0]}? It did.`);
    await sp.answer("refund-88", { happened: true, result: "refunded 30 EUR" }, { question: id });
  }
  await sp.close();
}

function play() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "savepoint-claude-")));
  writeFileSync(
    join(folder, "refund.sh"),
    `echo 30 EUR >> refunds.log; if [ -e crash ]; then rm crash; kill -9 $SDK; fi; echo refunded 30 EUR`,
  );
  writeFileSync(join(folder, "crash"), "");
  for (const run of ["dies in the refund", "reports the unknown outcome", "resumes"]) {
    console.log(`$ node refunds.mjs work   # ${run}`);
    const env = { ...process.env, CLAUDE_CONFIG_DIR: join(folder, "config") };
    const { stdout, stderr, signal } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), "work"], {
      cwd: folder,
      env,
    });
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    if (signal) console.log(`  ${signal}`);
  }
  const log = join(folder, "refunds.log");
  console.log(`refunded ${existsSync(log) ? readFileSync(log, "utf8").trim().split("\n").length : 0} times`);
  rmSync(folder, { recursive: true, force: true });
}

if (process.argv[2] === undefined) play();
else await work();
