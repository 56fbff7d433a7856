// An agent that needs a person's approval. It asks a question, and its process ends. Another process answers, possibly days
// later, and resumes the run.
//
//   node examples/approval/approval.mjs                    runs everything in a temporary folder
//   node examples/approval/approval.mjs "refund 12"        asks; uses the .savepoint folder of the current folder
//   node examples/approval/approval.mjs --answer yes       answers, and resumes the run
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineAgent, Savepoint } from "savepoint";

const SESSION = "approval";

const clerk = defineAgent({
  name: "clerk",
  initial: (/** @type {string} */ request) => ({ request }),
  async step(run) {
    const { request } = run.state;
    const plan = await run.llm(() => {
      console.log("  model call: what to do?");
      return { role: "assistant", content: `pay ${request.replace("refund ", "")} euros back` };
    });
    /** @type {string} */
    const answer = await run.ask({ text: `May I ${plan.content}?`, data: { request } });
    if (answer !== "yes") return run.fail(`not approved: the answer was ${JSON.stringify(answer)}`);
    const receipt = await run.tool({ id: "refund-1", name: "refund", arguments: { request } }, () => {
      console.log("  MONEY sent");
      return "receipt 4711";
    });
    return run.complete(receipt);
  },
});

/** Starts a request; without one, resumes the runs whose question was answered. @param {string} [request] */
async function work(request) {
  const sp = await Savepoint.open();
  const handles = await (request === undefined
    ? sp.recover([clerk])
    : [await sp.start(clerk, { session: SESSION, input: request })]);
  for (const handle of handles) {
    const { status, output, reason, question } = await handle.result();
    console.log(`  ${status}: ${question?.text ?? reason ?? String(output)}`);
  }
  await sp.close();
}

/** @param {string} value */
async function answer(value) {
  const sp = await Savepoint.open();
  await sp.answer(SESSION, value);
  await sp.close();
  await work();
}

function play() {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-approval-"));
  for (const args of [["refund 12"], ["--answer", "yes"]]) {
    console.log(`$ node approval.mjs ${args.map((arg) => (arg.includes(" ") ? `"${arg}"` : arg)).join(" ")}`);
    const env = { ...process.env, SAVEPOINT_URL: `sqlite:${join(folder, "agents.db")}` };
    const { status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), ...args], {
      env,
      stdio: "inherit",
    });
    if (status !== 0) process.exitCode = 1;
    console.log("  (the process has ended)");
  }
  rmSync(folder, { recursive: true, force: true });
}

const [first, second] = process.argv.slice(2);
if (first === undefined) play();
else if (first !== "--answer") await work(first);
else await answer(second ?? "no");
