// Serves a customer with the AI SDK when it is told to on standard input, and says on standard output how that ended.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { serveTwice } from "./shop.mjs";

for await (const line of createInterface(process.stdin)) {
  const [, ...args] = /** @type {[string, ...never[]]} */ (JSON.parse(line));
  try {
    writeSync(1, `${JSON.stringify({ done: await /** @type {Function} */ (serveTwice)(...args) })}\n`);
  } catch (error) {
    writeSync(1, `${JSON.stringify({ error: error instanceof Error ? error.stack : String(error) })}\n`);
  }
}
