/**
 * The program that `bundles.ts` makes one file of. It runs a step that blocks the event loop until a file exists, and writes
 * so much that the WAL of a SQLite store is checkpointed. It prints "blocked", and then a report as JSON.
 */
import { existsSync, writeSync } from "node:fs";
import { defineAgent, Savepoint } from "savepoint";

const [, , url = "", enough = "", saves = "0"] = process.argv;
/** @type {string[]} */
const failures = [];
/** How many checkpoints the thread for the WAL has answered. */
let checkpoints = 0;
process.on("worker", (worker) => {
  worker.on("message", (message) => {
    if (typeof message === "object" && Object.keys(message).length === 0) checkpoints++;
  });
});

const agent = defineAgent({
  name: "blocking",
  initial: () => ({}),
  async step(run) {
    writeSync(1, "blocked\n");
    while (!existsSync(enough));
    return run.complete("done");
  },
});

const on = {
  backgroundFailure: (/** @type {{ message: string, error: unknown }} */ { message, error }) =>
    failures.push(`${message}: ${String(error)}`),
};
// Without an `await` at the top, which CommonJS does not have.
void main();

async function main() {
  const sp = await Savepoint.open(url, { lease: 1000, durability: "process", on });
  const { status } = await sp.run(agent, { session: "s", input: {} });
  const session = sp.session("big");
  let saved = 0;
  for (; saved < Number(saves) && checkpoints === 0; saved++)
    await session.save({ text: String(saved).repeat(50_000) });
  await sp.close();
  console.log(JSON.stringify({ status, failures, checkpoints, saved }));
}
