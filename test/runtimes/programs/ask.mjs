// A tool with an unknown outcome is not repeated: a person decides. While a process runs a session, its lease is renewed.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { defineAgent, isSavepointError, Savepoint } from "savepoint";

const [url = "sqlite:./ask.db", mode = ""] = process.argv.slice(2);
const [PAYMENTS, GO_ON] = ["./payments.log", "./go-on"];

/** @param {() => boolean | Promise<boolean>} condition @param {string} what */
async function until(condition, what) {
  for (const end = Date.now() + 60_000; !(await condition()); await delay(20)) assert.ok(Date.now() < end, what);
}

const bank = defineAgent({
  name: "bank",
  initial: () => ({ receipt: "" }),
  async step(run) {
    const call = { id: "pay-1", name: "pay", arguments: { amount: 99 } };
    run.state.receipt = await run.tool(call, async () => {
      appendFileSync(PAYMENTS, "paid 99\n");
      if (mode === "die") process.kill(process.pid, "SIGKILL");
      return "receipt";
    });
    const answer = await run.ask("Ship it?");
    if (mode === "linger") await run.effect("linger", () => until(() => existsSync(GO_ON), "the parent's file"));
    return run.complete(`${run.state.receipt}, ${String(answer)}`);
  },
});

if (mode !== "") {
  // A thread that does not start, or ends, is reported here.
  const backgroundFailure = (/** @type {{ error: unknown }} */ { error }) => console.log(error);
  const sp = await Savepoint.open(url, { lease: "2s", on: { backgroundFailure } });
  const { status, output } = await sp.run(bank, { session: "transfer", input: {} });
  console.log(JSON.stringify({ status, output }));
  await sp.close();
} else {
  const program = fileURLToPath(import.meta.url);
  const work = (/** @type {string} */ how) => spawnSync(process.execPath, [program, url, how], { encoding: "utf8" });
  assert.equal(work("die").signal, "SIGKILL");
  assert.match(work("work").stdout, /"waiting"/);
  assert.match(work("work").stdout, /"waiting"/);
  const sp = await Savepoint.open(url);
  await sp.answer("transfer", { happened: true, result: "receipt seen at the bank" });
  assert.match(work("work").stdout, /"waiting"/);
  await sp.answer("transfer", "yes");

  const child = spawn(process.execPath, [program, url, "linger"], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  const closed = once(child, "close");
  await until(async () => (await sp.sessions.load("transfer"))?.status === "running", "the run");
  // Longer than the lease: the thread renews it.
  for (const end = Date.now() + 3000; Date.now() < end; await delay(100)) {
    const second = sp.run(bank, { session: "transfer", input: {} });
    await assert.rejects(second, (error) => isSavepointError(error, "ALREADY_RUNNING"));
  }
  writeFileSync(GO_ON, "");
  await closed;
  assert.equal(output.trim(), '{"status":"completed","output":"receipt seen at the bank, yes"}');
  assert.equal(readFileSync(PAYMENTS, "utf8"), "paid 99\n");
  await sp.close();
  console.log("ok");
}
