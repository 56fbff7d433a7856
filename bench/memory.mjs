// How much memory a process with an open store needs beside a process without one, and how many bytes repeated content costs.
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { inChild } from "./lib/child.mjs";
import { inFolder, inTurns, median, sizeOf } from "./lib/measure.mjs";
import { bytes, report } from "./lib/report.mjs";
import { message, messages, seeded, text } from "./lib/states.mjs";

/** @typedef {{ rss: number; heap: number; peak: number }} Result bytes over a process that has loaded the library */

const CASES = {
  "an idle open store": "idle",
  "1,000 open sessions of 100 kB, all saved": "sessions",
  "1,000 sessions of 100 kB, cacheBytes of 16 MB": "sessionsBounded",
  "a state of 100 MB, saved": "large",
  "the same, one message changed and saved again": "largeChanged",
};

/** @param {string[]} args rounds */
export default async function memory([rounds = "3"]) {
  const results = await inTurns(
    Object.fromEntries(
      Object.entries(CASES).map(([name, which]) => [
        name,
        () =>
          inFolder(
            async (folder) =>
              /** @type {Result} */ (inChild("memory-child.mjs", { which, folder }, { NODE_OPTIONS: "--expose-gc" })),
          ),
      ]),
    ),
    Number(rounds),
  );
  const of = (/** @type {string} */ name, /** @type {keyof Result} */ key) =>
    median((results[name] ?? []).map((r) => r[key]));
  const repeated = await repetition();
  report(
    "memory",
    [
      {
        title: "Memory over a process that has only loaded the library",
        head: ["", "RSS", "heap and buffers", "highest RSS"],
        rows: Object.keys(results).map((name) => [
          name,
          bytes(of(name, "rss")),
          bytes(of(name, "heap")),
          bytes(of(name, "peak")),
        ]),
        notes: [
          "RSS and heap after a garbage collection. The states of the caller are included: 100 MB in the last two rows.",
        ],
      },
      {
        title: "What repeated content adds to the file",
        head: ["", "bytes of the state as JSON", "bytes in the file"],
        rows: repeated.map(({ name, json, stored }) => [name, bytes(json), bytes(stored)]),
      },
    ],
    { repeated: (repeated[1]?.stored ?? Number.NaN) / (repeated[0]?.stored ?? Number.NaN) },
  );
}

/** Bytes of the file for a state with one large part, and for states in which it stands several times. */
async function repetition() {
  const part = { title: "report", sections: messages(seeded(1), 100) };
  const thread = messages(seeded(2), 20);
  const states = {
    "one subtree of 100 kB": { a: part },
    "the same subtree four times": {
      a: part,
      b: structuredClone(part),
      c: { d: structuredClone(part) },
      e: [structuredClone(part)],
    },
    "20 messages in one list": { messages: thread },
    "the same 20 messages in two lists": { messages: thread, log: structuredClone(thread) },
    "a list of one message, 500 times": { list: Array.from({ length: 500 }, () => message(seeded(3), 0)) },
    "one string of 50 kB in two places": { input: text(seeded(4), 50_000), prompt: { input: text(seeded(4), 50_000) } },
  };
  const rows = [];
  for (const [name, state] of Object.entries(states)) {
    const stored = await inFolder(async (folder) => {
      const sp = await Savepoint.open(`sqlite:${join(folder, "bench.db")}`, { compress: false });
      await sp.session("s").save(state);
      await sp.close();
      return sizeOf(folder);
    });
    rows.push({ name, json: JSON.stringify(state).length, stored });
  }
  return rows;
}
