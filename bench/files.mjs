// What a save costs on plain files beside SQLite and beside the least it could cost, a synced append; and what loading costs.
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { inFolder, inTurns, median, quantile, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";
import { message, messages, seeded } from "./lib/states.mjs";

const FLOOR = "append to a file, fdatasync";
const STORES = {
  SQLite: (/** @type {string} */ folder) => `sqlite:${join(folder, "s.db")}`,
  "plain files": (/** @type {string} */ folder) => `file:${join(folder, "s")}`,
};

/** @param {string[]} args saves, rounds, and messages of the thread that is loaded */
export default async function files(args) {
  const [count = 1500, rounds = 5, length = 1000] = args.map(Number);
  report("files", [await saving(count, rounds), await loading(rounds, length)]);
}

/** @param {number} count @param {number} rounds */
async function saving(count, rounds) {
  /** @type {Record<string, () => Promise<number[]>>} */
  const contenders = { [FLOOR]: () => inFolder((folder) => append(folder, count)) };
  for (const durability of /** @type {const} */ (["power", "process"])) {
    for (const [name, url] of Object.entries(STORES)) {
      contenders[`${name}, ${durability}`] = () => inFolder((folder) => save(url(folder), count, durability));
    }
  }
  const results = await inTurns(contenders, rounds);
  const p50 = (/** @type {string} */ name) => median((results[name] ?? []).map((times) => quantile(times, 0.5)));
  return {
    title: `A save of one more message of 1 kB, on sessions of 100 to 200 messages (${count} saves × ${rounds})`,
    head: ["", "p50", "p99", "p50 vs. floor", "p50 vs. SQLite"],
    rows: Object.keys(results).map((name) => [
      name,
      ms(p50(name)),
      ms(median((results[name] ?? []).map((times) => quantile(times, 0.99)))),
      ratio(p50(name) / p50(FLOOR)),
      name === FLOOR ? "–" : ratio(p50(name) / p50(name.replace("plain files", "SQLite"))),
    ]),
  };
}

/** @param {number} rounds @param {number} length */
async function loading(rounds, length) {
  const results = await inTurns(
    Object.fromEntries(
      Object.entries(STORES).map(([name, url]) => [name, () => inFolder((folder) => load(url(folder), length))]),
    ),
    rounds,
  );
  const of = (/** @type {string} */ name, /** @type {"load" | "open" | "bytes"} */ what) =>
    median((results[name] ?? []).map((each) => each[what]));
  return {
    title: `A thread of ${length} messages of 1 kB, saved one by one, then compacted`,
    head: ["", "open", "latest(), verified", "bytes on disk"],
    rows: Object.keys(results).map((name) => [
      name,
      ms(of(name, "open")),
      ms(of(name, "load")),
      bytes(of(name, "bytes")),
    ]),
  };
}

/** @param {string} folder @param {number} count */
async function append(folder, count) {
  const random = seeded(1);
  const file = openSync(join(folder, "log"), "a");
  const times = [];
  for (let n = 0; n < count; n++) {
    const line = JSON.stringify(message(random, n));
    times.push(await timed(() => (writeSync(file, line), fdatasyncSync(file))));
  }
  closeSync(file);
  return times;
}

/** @param {string} url @param {number} count @param {"power" | "process"} durability */
async function save(url, count, durability) {
  const random = seeded(1);
  const sp = await Savepoint.open(url, { durability });
  const times = [];
  for (let n = 0; n < count;) {
    const session = sp.session(`s-${n}`);
    const state = { messages: messages(random, 100) };
    await session.save(state);
    for (let step = 0; step < 100 && n < count; step++, n++) {
      state.messages.push(message(random, 100 + step));
      times.push(await timed(() => session.save(state)));
    }
  }
  await sp.close();
  return times;
}

/** @param {string} url @param {number} length */
async function load(url, length) {
  const random = seeded(1);
  const writer = await Savepoint.open(url, { durability: "process" });
  const state = { messages: /** @type {unknown[]} */ ([]) };
  for (let n = 0; n < length; n++) {
    state.messages.push(message(random, n));
    await writer.session("s").save(state);
  }
  await writer.compact();
  const size = await writer.bytes();
  await writer.close();
  /** @type {Savepoint | undefined} */
  let sp;
  const open = await timed(async () => (sp = await Savepoint.open(url)));
  const times = [];
  for (let n = 0; n < 20; n++) times.push(await timed(() => sp?.session("s").latest()));
  await sp?.close();
  return { open, load: median(times), bytes: size };
}
