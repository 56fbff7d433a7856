// Executes the jobs that arrive on standard input, one JSON line each, and prints the outcome of each on standard output.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { playScenario } from "./scenario.mjs";
import { workForever } from "./forever.mjs";

const jobs = { playScenario, workForever };

for await (const line of createInterface(process.stdin)) {
  const [name, ...args] = /** @type {[keyof typeof jobs, ...never[]]} */ (JSON.parse(line));
  const job = /** @type {(...args: unknown[]) => Promise<unknown>} */ (jobs[name]);
  try {
    writeSync(1, `${JSON.stringify({ done: await job(...args) })}\n`);
  } catch (error) {
    writeSync(1, `${JSON.stringify({ error: error instanceof Error ? error.stack : String(error) })}\n`);
  }
}
