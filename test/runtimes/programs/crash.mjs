// A process is killed in the middle of its work, several times. No recorded effect is executed again.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineAgent, Savepoint } from "savepoint";

const [url = "sqlite:./crash.db", mode = ""] = process.argv.slice(2);
const LOG = "./effects.log";
const TOOLS = 4;

const clerk = defineAgent({
  name: "clerk",
  initial: () => ({ results: /** @type {string[]} */ ([]) }),
  async step(run) {
    const n = run.state.results.length;
    if (n === TOOLS) return run.complete("done");
    await run.llm(async () => {
      appendFileSync(LOG, `llm ${n}\n`);
      return { role: "assistant", content: "" };
    });
    const call = { id: `call-${n}`, name: "file", arguments: { n } };
    const file = async (/** @type {{ idempotencyKey: string }} */ { idempotencyKey }) => {
      if (process.env["DIE_AT"] === `before:${n}`) process.kill(process.pid, "SIGKILL");
      appendFileSync(LOG, `tool ${n} ${idempotencyKey}\n`);
      if (process.env["DIE_AT"] === `after:${n}`) process.kill(process.pid, "SIGKILL");
      return `filed ${n}`;
    };
    run.state.results.push(await run.tool(call, file, { onUnknown: "retry" }));
  },
});

if (mode === "work") {
  const sp = await Savepoint.open(url);
  const { status, output } = await sp.run(clerk, { session: "job", input: {} });
  console.log(JSON.stringify({ status, output }));
  await sp.close();
} else {
  const work = (/** @type {string} */ die) =>
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), url, "work"], {
      env: { ...process.env, DIE_AT: die },
      encoding: "utf8",
    });
  for (const die of ["before:0", "after:2", "before:3"]) assert.equal(work(die).signal, "SIGKILL");
  for (let again = 0; again < 2; again++) {
    const { stdout, stderr } = work("");
    assert.equal(stdout.trim(), '{"status":"completed","output":"done"}', stderr);
  }
  const lines = readFileSync(LOG, "utf8").trim().split("\n");
  for (let n = 0; n < TOOLS; n++) {
    assert.equal(lines.filter((line) => line === `llm ${n}`).length, 1);
    const calls = lines.filter((line) => line.startsWith(`tool ${n} `));
    // Tool 2 was killed between its effect and the record of it: its policy repeats it, with the same key.
    assert.equal(calls.length, n === 2 ? 2 : 1);
    assert.equal(new Set(calls).size, 1);
  }
  const sp = await Savepoint.open(url);
  assert.deepEqual(await sp.recover([clerk]), []);
  await sp.close();
  console.log("ok");
}
