// What a save costs beside the least it could cost: one row in bare SQLite, one synced append to a file; and what finding
// the change costs beside turning the state into JSON.
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { Bench } from "tinybench";
import { ClassRegistry, encodeShadow, newShadow, openDatabase, reviseShadow } from "./lib/inside.mjs";
import { inFolder, inTurns, median } from "./lib/measure.mjs";
import { ratio, report } from "./lib/report.mjs";
import { message, messages, richMessage, seeded } from "./lib/states.mjs";

/** @typedef {{ mean: number; p50: number; p99: number }} Latency in milliseconds */
/** @typedef {Record<string, Latency[]>} Results */

const NORMAL = "SQLite INSERT, synchronous NORMAL";
const FULL = "SQLite INSERT, synchronous FULL";
/** A session begins with so many messages, and another one takes its place when it has twice as many. */
const LENGTH = 100;

/** @param {string[]} args milliseconds for each task in a round, rounds, and messages of the state to compare */
export default async function floors(args) {
  const [time = 1000, rounds = 5, count = 1000] = args.map(Number);
  const saved = await saving(time, rounds);
  report("floors", [saved.table, await finding(time, rounds, count)], saved.figures);
}

/** @param {number} time @param {number} rounds */
async function saving(time, rounds) {
  const results = await inTurns(
    {
      [NORMAL]: () => inFolder((folder) => insert(folder, time, "NORMAL")),
      "Savepoint append, process": () => inFolder((folder) => save(folder, time, "process", true)),
      "Savepoint save, process": () => inFolder((folder) => save(folder, time, "process", false)),
      [FULL]: () => inFolder((folder) => insert(folder, time, "FULL")),
      "append to a file, fdatasync": () => inFolder((folder) => appendToFile(folder, time)),
      "Savepoint append, power": () => inFolder((folder) => save(folder, time, "power", true)),
      "Savepoint save, power": () => inFolder((folder) => save(folder, time, "power", false)),
    },
    rounds,
  );
  const floorOf = (/** @type {string} */ name) => (name === NORMAL || name.endsWith("process") ? NORMAL : FULL);
  const versus = (/** @type {string} */ name) => middle(results, name, "mean") / middle(results, floorOf(name), "mean");
  const figures = {
    appendProcess: versus("Savepoint append, process"),
    appendPower: versus("Savepoint append, power"),
    saveProcess: versus("Savepoint save, process"),
    savePower: versus("Savepoint save, power"),
  };
  const table = {
    title: `1 kB made durable, on sessions of ${LENGTH} to ${2 * LENGTH} messages`,
    head: ["", "mean", "p50 (spread)", "p99", "floor", "p50 vs. floor", "mean vs. floor"],
    rows: Object.keys(results).map((name) => [
      name,
      ...latencies(results, name),
      floorOf(name) === NORMAL ? "NORMAL" : "FULL",
      ...ratios(results, name, floorOf(name)),
    ]),
    notes: [
      "Append and save are handed one new message of 1 kB. What the SQLite rows leave out is what a checkpoint is: its row, its id, the counters of its session and branch, its checksums.",
    ],
  };
  return { table, figures };
}

/** @param {number} time @param {number} rounds @param {number} count */
async function finding(time, rounds, count) {
  const random = seeded(1);
  const states = {
    flat: { messages: messages(random, count) },
    rich: { messages: Array.from({ length: count }, (_, index) => richMessage(random, index)) },
  };
  const results = await inTurns(
    Object.fromEntries(
      Object.entries(states).flatMap(([name, state]) => [
        [`${name}, JSON.stringify`, () => sample(time, () => JSON.stringify(state))],
        [`${name}, compare with the shadow`, () => compare(time, state)],
      ]),
    ),
    rounds,
  );
  return {
    title: `Finding that nothing changed in ${count} messages`,
    head: ["", "mean", "p50 (spread)", "p99", "p50 vs. JSON", "mean vs. JSON"],
    rows: Object.keys(results).map((name) => [
      name,
      ...latencies(results, name),
      ...ratios(results, name, `${name.slice(0, 4)}, JSON.stringify`),
    ]),
  };
}

/** @param {number} time @param {unknown} state */
function compare(time, state) {
  const registry = new ClassRegistry();
  let shadow = newShadow(state, registry);
  // Only what was encoded is known to be stored.
  encodeShadow(shadow, 0, 0);
  return sample(time, () => {
    shadow = reviseShadow(shadow, state, registry);
  });
}

/** @param {string} folder @param {number} time @param {"NORMAL" | "FULL"} synchronous */
async function insert(folder, time, synchronous) {
  const database = await openDatabase(join(folder, "bench.db"));
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
  database.exec("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB NOT NULL)");
  const statement = database.prepare("INSERT INTO item (body) VALUES (?)");
  const body = makeBody();
  // Without BEGIN, every statement is a transaction.
  const latency = await sample(time, () => {
    statement.run(body);
  });
  database.close();
  return latency;
}

/** @param {string} folder @param {number} time */
async function appendToFile(folder, time) {
  const file = openSync(join(folder, "bench.log"), "a");
  const body = makeBody();
  const latency = await sample(time, () => {
    writeSync(file, body);
    fdatasyncSync(file);
  });
  closeSync(file);
  return latency;
}

/** @param {string} folder @param {number} time @param {"process" | "power"} durability @param {boolean} append */
async function save(folder, time, durability, append) {
  const random = seeded(1);
  const sp = await Savepoint.open(`sqlite:${join(folder, "bench.db")}`, { durability });
  let session = sp.session("thread-0");
  let sessions = 0;
  /** @type {ReturnType<typeof message>[]} */
  let thread = [];
  // Not timed: a session that has become too long gives way to the next.
  const prepare = async () => {
    if (thread.length === 0 || thread.length >= 2 * LENGTH) {
      session = sp.session(`thread-${++sessions}`);
      thread = messages(random, LENGTH);
      await session.save({ messages: thread });
    }
    thread.push(message(random, thread.length));
  };
  const work = append ? () => session.append("/messages", [thread.at(-1)]) : () => session.save({ messages: thread });
  const latency = await sample(time, work, prepare);
  await sp.close();
  return latency;
}

/**
 * @param {number} time @param {() => unknown} work @param {() => Promise<void>} [prepare] runs before each, if the work is
 * asynchronous @returns {Promise<Latency>}
 */
async function sample(time, work, prepare) {
  const bench = new Bench({ time, warmupTime: time / 4, throws: true });
  bench.add("work", work, prepare ? { async: true, beforeEach: prepare } : { async: false });
  const [task] = await bench.run();
  const result = task?.result;
  if (result?.state !== "completed") throw new Error(`tinybench says ${result?.state}`);
  const { mean, p50, p99 } = result.latency;
  return { mean, p50, p99 };
}

const makeBody = () => Buffer.from(message(seeded(1), 0).content);

/** @param {Results} results @param {string} name @param {keyof Latency} key */
const middle = (results, name, key) => median((results[name] ?? []).map((latency) => latency[key]));

/** @param {Results} results @param {string} name */
function latencies(results, name) {
  const p50s = (results[name] ?? []).map(({ p50 }) => p50);
  return [
    us(middle(results, name, "mean")),
    `${us(middle(results, name, "p50"))} (${us(Math.min(...p50s))}–${us(Math.max(...p50s))})`,
    us(middle(results, name, "p99")),
  ];
}

/** @param {Results} results @param {string} name @param {string} floor */
function ratios(results, name, floor) {
  const versus = (/** @type {keyof Latency} */ key) => ratio(middle(results, name, key) / middle(results, floor, key));
  return [versus("p50"), versus("mean")];
}

/** @param {number} milliseconds */
const us = (milliseconds) => `${(milliseconds * 1000).toFixed(milliseconds < 0.01 ? 1 : 0)} µs`;
