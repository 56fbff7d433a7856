// Stands in for Claude Code, so that the example and tests run offline: it speaks the protocol of the SDK, keeps a transcript, calls
// hooks, and executes one tool, `Bash`. Its model is scripted: it makes the calls in SCRIPT, one after another, and repeats a call
// whose result is missing in the transcript.
//
//   SCRIPT='["echo one"]' node scripted-claude.mjs        the SDK starts it, as `pathToClaudeCodeExecutable`
import { execSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** @typedef {{ type: string, uuid?: string, message?: any }} Entry */

const args = process.argv.slice(2);
const option = (/** @type {string} */ name) => {
  const at = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  return at < 0 ? undefined : (args[at]?.split("=")[1] ?? args[at + 1]);
};
/** @type {string[]} */
const script = JSON.parse(process.env["SCRIPT"] ?? "[]");
const sessionId = option("--resume") ?? option("--session-id") ?? randomUUID();
const projects = join(process.env["CLAUDE_CONFIG_DIR"] ?? join(homedir(), ".claude"), "projects");
const file = findTranscript() ?? join(projects, process.cwd().replaceAll(/[^a-zA-Z0-9]/g, "-"), `${sessionId}.jsonl`);
mkdirSync(join(file, ".."), { recursive: true });
/** @type {Entry[]} */
const transcript = existsSync(file)
  ? readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
  : [];

/** Hooks by event, and questions to the SDK by their ids. @type {Record<string, { hookCallbackIds: string[] }[]>} */
let hooks = {};
/** @type {Map<string, (response: any) => void>} */
const waiting = new Map();

const write = (/** @type {object} */ message) => process.stdout.write(`${JSON.stringify(message)}\n`);
/** @type {Promise<void>} */
let turns = Promise.resolve();
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const message = JSON.parse(line);
  if (message.type === "control_response") waiting.get(message.response.request_id)?.(message.response);
  if (message.type === "control_request") answer(message);
  if (message.type === "user") turns = turns.then(() => takeTurn(message.message));
});
// The SDK closes the input after the last prompt. While a hook is called, it does so only by dying.
lines.on("close", () => (waiting.size > 0 ? process.exit(1) : void turns.then(() => process.exit(0))));
process.stdout.on("error", () => process.exit(1));

/** @param {{ request_id: string, request: { subtype: string, hooks?: typeof hooks } }} message */
function answer({ request_id, request }) {
  if (request.subtype === "initialize") hooks = request.hooks ?? {};
  const response = request.subtype === "initialize" ? { commands: [], models: [], account: {}, agents: [] } : {};
  write({ type: "control_response", response: { subtype: "success", request_id, response } });
}

/** @param {{ role: "user", content: unknown }} prompt */
async function takeTurn(prompt) {
  write({
    type: "system",
    subtype: "init",
    session_id: sessionId,
    uuid: randomUUID(),
    tools: ["Bash"],
    cwd: process.cwd(),
  });
  const calls = transcript.filter(({ type }) => type === "assistant").flatMap(({ message }) => callsIn(message));
  // Claude Code does the same: the model must get a result for each of its calls.
  for (const { id } of calls) if (!resultOf(id)) record("user", resultMessage(id, MISSING, true));
  record("user", prompt);
  let text = "";
  for (const command of script) {
    let result = doneResult(command);
    while (result === undefined) {
      result = await call(command);
      if (result === STOPPED) return end("");
    }
    text = result;
  }
  record("assistant", { role: "assistant", content: [{ type: "text", text }] });
  end(text);
}

const MISSING =
  "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown.]";
const INTERRUPTED = "[Request interrupted by user for tool use]";
const STOPPED = "stopped by a hook";

/** Calls `Bash`, and returns its result. @param {string} command */
async function call(command) {
  const tool_use_id = `toolu_${randomUUID()}`;
  const tool = { tool_name: "Bash", tool_input: { command }, tool_use_id };
  record("assistant", {
    role: "assistant",
    content: [{ type: "tool_use", id: tool_use_id, name: "Bash", input: { command } }],
  });
  const before = await callHooks("PreToolUse", tool);
  const denied = before?.hookSpecificOutput?.permissionDecision === "deny";
  /** @type {string} */
  let content = before?.hookSpecificOutput?.permissionDecisionReason ?? "";
  let failed = denied;
  if (!denied) {
    try {
      content = execSync(command, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
      await callHooks("PostToolUse", { ...tool, tool_response: content });
    } catch (error) {
      content = String(/** @type {{ stderr?: string }} */ (error).stderr).trim();
      failed = true;
      await callHooks("PostToolUseFailure", { ...tool, error: content });
    }
  }
  await callHooks("PostToolBatch", { tool_calls: [tool] });
  // For the tests: the process dies when the result is recorded, and before the model has got it.
  if (process.env["DIE_AFTER"] === command) process.kill(process.ppid, "SIGKILL");
  const stopped = before?.continue === false;
  record("user", resultMessage(tool_use_id, stopped ? INTERRUPTED : content, failed));
  return stopped ? STOPPED : content;
}

/** The result of the last call of a command that has one. @param {string} command @returns {string | undefined} */
function doneResult(command) {
  const calls = transcript.flatMap(({ message }) => callsIn(message)).filter(({ input }) => input.command === command);
  const results = calls
    .map(({ id }) => resultOf(id))
    .filter((result) => result && result.content !== MISSING && result.content !== INTERRUPTED);
  return results.at(-1)?.content;
}

/** @param {any} message @returns {{ id: string, input: { command: string } }[]} */
function callsIn(message) {
  return Array.isArray(message?.content)
    ? message.content.filter((/** @type {any} */ part) => part.type === "tool_use")
    : [];
}

/** @param {string} id @returns {{ content: string } | undefined} */
function resultOf(id) {
  const parts = transcript.flatMap(({ message }) => (Array.isArray(message?.content) ? message.content : []));
  return parts.find(({ type, tool_use_id }) => type === "tool_result" && tool_use_id === id);
}

/** @param {string} id @param {string} content @param {boolean} isError */
function resultMessage(id, content, isError) {
  return { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error: isError }] };
}

/** Calls the hooks of an event. Returns the last answer. @param {string} event @param {object} input @returns {Promise<any>} */
async function callHooks(event, input) {
  const common = { hook_event_name: event, session_id: sessionId, transcript_path: file, cwd: process.cwd() };
  let output;
  for (const callback_id of (hooks[event] ?? []).flatMap(({ hookCallbackIds }) => hookCallbackIds)) {
    const request_id = randomUUID();
    const answered = new Promise((resolve) => waiting.set(request_id, resolve));
    const request = { subtype: "hook_callback", callback_id, input: { ...common, ...input } };
    write({ type: "control_request", request_id, request });
    output = (await answered).response;
    waiting.delete(request_id);
  }
  return output;
}

/** Adds a line to the transcript, and sends it to the SDK. @param {"user" | "assistant"} type @param {any} message */
function record(type, message) {
  const parentUuid = transcript.at(-1)?.uuid ?? null;
  const base = { sessionId, cwd: process.cwd(), version: "2.1.0", isSidechain: false, userType: "external" };
  const entry = { type, uuid: randomUUID(), parentUuid, ...base, timestamp: new Date().toISOString(), message };
  transcript.push(entry);
  appendFileSync(file, `${JSON.stringify(entry)}\n`);
  write({ type: "transcript_mirror", filePath: file, entries: [entry] });
  write({ type, message, session_id: sessionId, uuid: entry.uuid, parent_tool_use_id: null });
}

/** @param {string} result */
function end(result) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const counts = { duration_ms: 1, duration_api_ms: 1, num_turns: 1, total_cost_usd: 0, usage, permission_denials: [] };
  write({
    type: "result",
    subtype: "success",
    is_error: false,
    result,
    session_id: sessionId,
    uuid: randomUUID(),
    ...counts,
  });
}

function findTranscript() {
  const folders = existsSync(projects) ? readdirSync(projects) : [];
  return folders.map((folder) => join(projects, folder, `${sessionId}.jsonl`)).find((path) => existsSync(path));
}
