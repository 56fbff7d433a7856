// Serves a customer with the OpenAI Agents SDK on each request from standard input, and reports the result on standard output.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { serveTwice } from "./crew.mjs";

for await (const line of createInterface(process.stdin)) {
  const [, ...args] = /** @type {[string, ...never[]]} */ (JSON.parse(line));
  try {
    writeSync(1, `${JSON.stringify({ done: await /** @type {Function} */ (serveTwice)(...args) })}\n`);
  } catch (error) {
    writeSync(1, `${JSON.stringify({ error: error instanceof Error ? error.stack : String(error) })}\n`);
  }
}
