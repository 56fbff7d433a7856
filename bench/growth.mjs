// One conversation that grows by a 1 kB message a step, saved at every step: Savepoint beside LangGraph's SQLite saver
// and a JSON file per step, in turns, on the same states. Cold: each in a new process. Warm: all in this one.
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { inChild } from "./lib/child.mjs";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { loadSqliteSaver } from "./lib/peers.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";

/** @typedef {{ id: string; role: string; content: string }} Message */
/** @typedef {{ total: number; at: number[]; bytes: number; load: number; history: number }} Result */

const PEER = "LangGraph SqliteSaver";
export const MARKS = [10, 100, 1000, 3000, 10_000];
const READS = 15;

/** Each runs in a folder of its own. @type {Record<string, (folder: string, steps: number) => Promise<Result>>} */
export const CONTENDERS = {
  "Savepoint, process": (folder, steps) => savepoint(folder, steps, "process"),
  "Savepoint, power": (folder, steps) => savepoint(folder, steps, "power"),
  "Savepoint append, process": (folder, steps) => appending(folder, steps, "process"),
  [PEER]: async (folder, steps) => langGraph(await loadSqliteSaver(), folder, steps),
  "a JSON file per step, fsynced": jsonFiles,
};

/** @param {string[]} args steps, if not 1,000 (cold and warm) and 3,000 */
export default async function growth(args) {
  // Installs the peers, if they are not.
  await loadSqliteSaver();
  const [short = 1000, long = 3000] = args.map(Number);
  const cold = await compare(short, true, 5);
  const warm = await compare(short, false, 5);
  const late = await compare(long, false, 2);
  const far = args.length === 0 ? [await alone(10_000)] : [];
  report("growth", [cold.table, warm.table, late.table, ...far], {
    coldTime: cold.versus("Savepoint, process", (r) => r.total),
    coldAppendTime: cold.versus("Savepoint append, process", (r) => r.total),
    coldBytes: cold.versus("Savepoint, process", (r) => r.bytes),
    coldSaveAt1000: cold.versus("Savepoint, process", (r) => r.at[2] ?? Number.NaN),
    warmTime: warm.versus("Savepoint, process", (r) => r.total),
    warmSaveAt1000: warm.versus("Savepoint, process", (r) => r.at[2] ?? Number.NaN),
    lateSave: late.of("Savepoint, process", (r) => (r.at[3] ?? Number.NaN) / (r.at[0] ?? Number.NaN)),
    ...cold.drawn,
  });
}

/** @param {number} steps @param {boolean} isCold @param {number} rounds */
async function compare(steps, isCold, rounds) {
  const results = await inTurns(
    Object.fromEntries(
      Object.entries(CONTENDERS).map(([name, run]) => [
        name,
        () =>
          inFolder(async (folder) =>
            isCold ? /** @type {Result} */ (inChild("growth-child.mjs", { name, folder, steps })) : run(folder, steps),
          ),
      ]),
    ),
    rounds,
  );
  const marks = MARKS.filter((mark) => mark <= steps);
  const of = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    median((results[name] ?? []).map(pick));
  const versus = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    of(name, pick) / of(PEER, pick);
  const table = {
    title: `${steps} steps of 1 kB, the whole state passed at each, ${isCold ? "in a new process each" : "warm"}`,
    head: [
      "",
      "total (spread)",
      ...marks.map((mark) => `save at ${mark}`),
      "on disk",
      "load latest",
      "history of 10",
      "time vs. peer",
      "bytes vs. peer",
      "load vs. peer",
    ],
    rows: Object.keys(results).map((name) => {
      const totals = (results[name] ?? []).map((result) => result.total);
      return [
        name,
        `${ms(of(name, (r) => r.total))} (${Math.min(...totals).toFixed(0)}–${Math.max(...totals).toFixed(0)})`,
        ...marks.map((_, index) => ms(of(name, (r) => r.at[index] ?? 0))),
        bytes(of(name, (r) => r.bytes)),
        ms(of(name, (r) => r.load)),
        name.includes("JSON") ? "–" : ms(of(name, (r) => r.history)),
        ratio(versus(name, (r) => r.total)),
        ratio(versus(name, (r) => r.bytes)),
        ratio(versus(name, (r) => r.load)),
      ];
    }),
    notes: [
      "SqliteSaver runs with `synchronous = NORMAL`, as Savepoint does with `process`; `power` waits for the disk at every save.",
    ],
  };
  /** @type {Record<string, number>} */
  const drawn = {};
  for (const name of Object.keys(results)) {
    drawn[`total: ${name}`] = of(name, (r) => r.total);
    drawn[`bytes: ${name}`] = of(name, (r) => r.bytes);
  }
  return { table, of, versus, drawn };
}

/** Savepoint alone: is a save late in a long session as cheap as an early one? @param {number} steps */
async function alone(steps) {
  const marks = MARKS.filter((mark) => mark <= steps);
  const results = await inTurns(
    {
      "append, process": () => inFolder((folder) => appending(folder, steps, "process")),
      "save, process": () => inFolder((folder) => savepoint(folder, steps, "process")),
    },
    3,
  );
  return {
    title: `Savepoint alone to ${steps} steps`,
    head: ["", "total", ...marks.map((mark) => `save at ${mark}`), `at ${steps} vs. at 10`, "on disk"],
    rows: Object.entries(results).map(([name, runs]) => {
      const at = marks.map((_, index) => median(runs.map((run) => run.at[index] ?? 0)));
      const last = at.at(-1) ?? Number.NaN;
      return [
        name,
        ms(median(runs.map((run) => run.total))),
        ...at.map(ms),
        ratio(last / (at[0] ?? Number.NaN)),
        bytes(median(runs.map((run) => run.bytes))),
      ];
    }),
  };
}

/** @param {string} folder @param {number} steps @param {"process" | "power"} durability @returns {Promise<Result>} */
async function savepoint(folder, steps, durability) {
  const url = `sqlite:${join(folder, "bench.db")}`;
  const sp = await Savepoint.open(url, { durability });
  const session = sp.session("thread");
  const timing = await grow(steps, (messages) => session.save({ messages }));
  await sp.close();
  return { ...timing, bytes: sizeOf(folder), ...(await readSavepoint(url)) };
}

/** @param {string} folder @param {number} steps @param {"process" | "power"} durability @returns {Promise<Result>} */
async function appending(folder, steps, durability) {
  const url = `sqlite:${join(folder, "bench.db")}`;
  const sp = await Savepoint.open(url, { durability });
  const session = sp.session("thread");
  await session.save({ messages: [makeMessage(-1)] });
  const timing = await grow(steps, (messages) => session.append("/messages", [messages.at(-1)]));
  await sp.close();
  return { ...timing, bytes: sizeOf(folder), ...(await readSavepoint(url)) };
}

/** Reads from the store every time: nothing is kept between two loads by id. @param {string} url */
export async function readSavepoint(url) {
  const sp = await Savepoint.open(url);
  const session = sp.session("thread");
  const { id } = /** @type {{ id: string }} */ (await session.head());
  const [load, history] = [[], []].map(() => /** @type {number[]} */ ([]));
  for (let n = 0; n < READS; n++) {
    load?.push(await timed(() => session.load(id)));
    history?.push(await timed(() => session.history({ limit: 10 }).all()));
  }
  await sp.close();
  return { load: median(load ?? []), history: median(history ?? []) };
}

/** @param {any} SqliteSaver @param {string} folder @param {number} steps @returns {Promise<Result>} */
async function langGraph(SqliteSaver, folder, steps) {
  const saver = SqliteSaver.fromConnString(join(folder, "bench.db"));
  const timing = await grow(steps, langGraphThread(saver));
  const read = await readLangGraph(saver);
  saver.db.close();
  return { ...timing, bytes: sizeOf(folder), ...read };
}

const THREAD = { configurable: { thread_id: "thread", checkpoint_ns: "" } };

/** Puts one checkpoint after another, as LangGraph does. @param {any} saver */
export function langGraphThread(saver) {
  let config = THREAD;
  return async (/** @type {Message[]} */ messages, /** @type {number} */ step) => {
    const id = `1ef00000-0000-6000-8000-${String(step).padStart(12, "0")}`;
    const versions = { messages: step + 1 };
    const ts = new Date().toISOString();
    const checkpoint = { v: 4, id, ts, channel_values: { messages }, channel_versions: versions, versions_seen: {} };
    config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, versions);
  };
}

/** @param {any} saver @param {number} [lists] how often its history is listed */
export async function readLangGraph(saver, lists = 5) {
  const [load, history] = [[], []].map(() => /** @type {number[]} */ ([]));
  for (let n = 0; n < READS; n++) {
    load?.push(await timed(() => saver.getTuple(THREAD)));
    const list = async () => {
      for await (const _ of saver.list(THREAD, { limit: 10 }));
    };
    if (n < lists) history?.push(await timed(list));
  }
  return { load: median(load ?? []), history: median(history ?? []) };
}

/** @param {string} folder @param {number} steps @returns {Promise<Result>} */
async function jsonFiles(folder, steps) {
  const timing = await grow(steps, (messages, step) => {
    const file = openSync(join(folder, `${step}.json`), "w");
    writeSync(file, JSON.stringify({ messages }));
    fsyncSync(file);
    closeSync(file);
  });
  const load = [];
  for (let n = 0; n < READS; n++) {
    load.push(await timed(() => JSON.parse(readFileSync(join(folder, `${steps - 1}.json`), "utf8"))));
  }
  return { ...timing, bytes: sizeOf(folder), load: median(load), history: 0 };
}

/**
 * Saves a growing list step by step: the time of all, and the median around each mark.
 * @param {number} steps @param {(messages: Message[], step: number) => unknown} save @param {(step: number) => Message} [make]
 */
export async function grow(steps, save, make = makeMessage) {
  /** @type {Message[]} */
  const messages = [];
  /** @type {number[]} */
  const times = [];
  for (let step = 0; step < steps; step++) {
    messages.push(make(step));
    times.push(await timed(() => save(messages, step)));
  }
  // Around the mark and wide enough that packing, which comes every 64 steps, is in it where it can be.
  const at = MARKS.filter((mark) => mark <= steps).map((mark) => {
    const width = Math.min(mark - 1, 64);
    return median(times.slice(mark - width, mark));
  });
  return { total: times.reduce((sum, time) => sum + time, 0), at };
}

/** @param {number} step @returns {Message} */
export function makeMessage(step) {
  return { id: `m${step}`, role: step % 2 ? "assistant" : "user", content: `${step} `.padEnd(1000, "abcdefgh ") };
}
