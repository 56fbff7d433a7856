// A scripted model: it writes a function with a bug and a test, runs the test, and fixes the bug. It takes a moment for each
// reply, as a real model does, so that there is time to kill the agent.
import { setTimeout as pause } from "node:timers/promises";
import { type Message, message } from "savepoint";

const TEST = `import assert from "node:assert/strict";
import { sum } from "./sum.mjs";

assert.equal(sum(2, 3), 5);
console.log("sum works");
`;
const write = (path: string, content: string) => ({ name: "write_file", arguments: { path, content } });
const test = { name: "run_command", arguments: { command: "node sum.test.mjs" } };

const SCRIPT = [
  { content: "I write the test first.", call: write("sum.test.mjs", TEST) },
  { content: "Now the function.", call: write("sum.mjs", "export const sum = (a, b) => a - b;\n") },
  { content: "I run the test.", call: test },
  {
    content: "The test fails. I look at the function again.",
    call: { name: "read_file", arguments: { path: "sum.mjs" } },
  },
  { content: "It subtracts. I fix it.", call: write("sum.mjs", "export const sum = (a, b) => a + b;\n") },
  { content: "I run the test again.", call: test },
  { content: "The function sum() is in sum.mjs, and its test passes." },
];

export async function callScriptedModel(messages: readonly Message[], signal: AbortSignal): Promise<Message> {
  await pause(Number(process.env["MODEL_MS"] ?? 500), undefined, { signal });
  if (messages.at(-1)?.content.includes("did not allow")) return message.assistant("Then I do not run the test.");
  const number = messages.filter(({ role }) => role === "assistant").length;
  const { content, call } = SCRIPT[number] ?? { content: "There is nothing left to do." };
  return message.assistant(content, call ? [{ id: `call-${number}`, ...call }] : []);
}
