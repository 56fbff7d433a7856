// What savepoint/claude costs: appending a transcript entry by entry, and resuming it, beside the SDK's own store in memory and a file
// with one line for each entry. And a tool call that is recorded by hooks.
import { appendFileSync, closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { InMemorySessionStore } from "@anthropic-ai/claude-agent-sdk";
import { Savepoint } from "savepoint";
import { durableTools, SavepointSessionStore } from "savepoint/claude";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, report } from "./lib/report.mjs";

/** @typedef {import("savepoint").Durability} Durability */
/** @typedef {import("@anthropic-ai/claude-agent-sdk").SessionStore} SessionStore */
/** @typedef {{ each: number, load: number, bytes: number, call: number }} Result */

const KEY = { projectKey: "-home-ada-shop", sessionId: "7c1f0a52-0000-4000-8000-000000000001" };
const text = "abcdefgh ".repeat(111);
const entry = (/** @type {number} */ n) => ({
  type: "user",
  uuid: `7c1f0a52-0000-4000-8000-${String(n).padStart(12, "0")}`,
  timestamp: new Date(1e12 + n).toISOString(),
  message: { role: "user", content: text },
});

/** @param {string[]} args entries, rounds */
export default async function claude(args) {
  const [entries = 500, rounds = 5] = args.map(Number);
  /** @type {Record<string, () => Promise<Result>>} */
  const contenders = {
    "the SDK's store in memory": () => measure(entries, new InMemorySessionStore()),
    "a file, synced": () => inFolder((folder) => measureFile(entries, join(folder, "transcript.jsonl"))),
    "savepoint/claude, process": () => inFolder((folder) => measureStore(entries, folder, "process")),
    "savepoint/claude, power": () => inFolder((folder) => measureStore(entries, folder, "power")),
  };
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name, /** @type {keyof Result} */ field) =>
    median((results[name] ?? []).map((result) => result[field]));
  const shown = (/** @type {number} */ value, /** @type {(value: number) => string} */ format) =>
    value > 0 ? format(value) : "–";
  const tables = [
    {
      title: `A transcript of ${entries} entries of 1 kB, appended one after another`,
      head: ["", "each append", "bytes each", "load all", "tool call, two hooks"],
      rows: Object.keys(contenders).map((name) => [
        name,
        ms(middle(name, "each")),
        shown(middle(name, "bytes"), bytes),
        ms(middle(name, "load")),
        shown(middle(name, "call"), ms),
      ]),
      notes: ["The entry as JSON has about 1.1 kB. An append updates the summary of the session, too."],
    },
  ];
  report("claude", tables, {
    process: middle("savepoint/claude, process", "each"),
    power: middle("savepoint/claude, power", "each"),
    bytes: middle("savepoint/claude, process", "bytes"),
    hooks: middle("savepoint/claude, process", "call"),
  });
}

/** @param {number} entries @param {string} folder @param {Durability} durability */
async function measureStore(entries, folder, durability) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const measured = await measure(entries, new SavepointSessionStore(sp));
  await sp.close();
  const size = sizeOf(folder);
  return { ...measured, bytes: size / entries, call: await measureHooks(folder, durability) };
}

/** @param {string} folder @param {Durability} durability */
async function measureHooks(folder, durability) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "tools.db")}`, { durability });
  const tools = await durableTools(sp, { session: "tools" });
  const hook = (/** @type {keyof typeof tools.hooks} */ event, /** @type {object} */ input) =>
    tools.hooks[event][0]?.hooks[0]?.({ hook_event_name: event, ...input });
  const calls = 100;
  const spent = await timed(async () => {
    for (let n = 0; n < calls; n++) {
      const call = { tool_name: "charge", tool_input: { n }, tool_use_id: `t${n}` };
      await hook("PreToolUse", call);
      await hook("PostToolUse", { ...call, tool_response: text });
    }
  });
  await tools.complete();
  await sp.close();
  return spent / calls;
}

/** @param {number} entries @param {SessionStore} store @returns {Promise<Result>} */
async function measure(entries, store) {
  await store.append(KEY, [entry(0)]);
  const spent = await timed(async () => {
    for (let n = 1; n <= entries; n++) await store.append(KEY, [entry(n)]);
  });
  const load = await timed(() => store.load(KEY));
  return { each: spent / entries, load, bytes: 0, call: 0 };
}

/** @param {number} entries @param {string} path @returns {Promise<Result>} */
async function measureFile(entries, path) {
  appendFileSync(path, "");
  const file = openSync(path, "a");
  const spent = await timed(async () => {
    for (let n = 1; n <= entries; n++) {
      writeSync(file, `${JSON.stringify(entry(n))}\n`);
      fdatasyncSync(file);
    }
  });
  closeSync(file);
  const load = await timed(async () =>
    readFileSync(path, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  );
  return { each: spent / entries, load, bytes: readFileSync(path).length / entries, call: 0 };
}
