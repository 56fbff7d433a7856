// The loop of before.mjs, made durable. The body of the loop is `step`, its variables are `run.state`, and models and tools
// are called through `run`. The program kills both loops in the middle once and starts them again.
//
//   node examples/plain-loop/after.mjs
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineAgent, Savepoint } from "savepoint";
import { books, model } from "./world.mjs";

/** @import { Message } from "savepoint" */

const travel = defineAgent({
  name: "travel",
  initial: (/** @type {string} */ task) => ({ messages: /** @type {Message[]} */ ([{ role: "user", content: task }]) }),
  async step(run) {
    const { messages } = run.state;
    const reply = await run.llm(() => model(messages));
    messages.push(reply);
    for (const call of reply.toolCalls ?? []) {
      const result = await run.tool(call, () => books[call.name]?.());
      messages.push({ role: "tool", toolCallId: call.id, content: String(result) });
    }
    if (!reply.toolCalls?.length) return run.complete(reply.content);
  },
});

if (process.env["STORE"]) {
  const sp = await Savepoint.open(process.env["STORE"]);
  const result = await sp.run(travel, { session: "trip", input: "Book me a trip to Lisbon." });
  console.log(`${result.status}: ${result.output ?? result.question?.text ?? result.reason}`);
  await sp.close();
} else {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-plain-loop-"));
  const work = (/** @type {string} */ file, /** @type {NodeJS.ProcessEnv} */ env) => {
    const path = fileURLToPath(new URL(file, import.meta.url));
    return spawnSync(process.execPath, [path], { env: { ...process.env, ...env }, stdio: "inherit" });
  };
  console.log("the plain loop, killed after it booked the flight:");
  work("before.mjs", { DIE: "1" });
  console.log("started again, it starts from the beginning and books a second flight:");
  work("before.mjs", {});

  const STORE = `sqlite:${join(folder, "agents.db")}`;
  console.log("\nthe durable loop, killed at the same point:");
  work("after.mjs", { STORE, DIE: "1" });
  console.log("started again, it resumes with the interrupted model call; there is one flight:");
  process.exitCode = work("after.mjs", { STORE }).status ?? 1;
  rmSync(folder, { recursive: true, force: true });
}
