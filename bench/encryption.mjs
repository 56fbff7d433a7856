// Encryption at rest: a plain and an encrypted store side by side, on SQLite and PostgreSQL.
//
//   npm run bench encryption            in about a minute
//   npm run bench encryption 200 1      saves in a run, rounds
import { join } from "node:path";
import { defineAgent, Savepoint } from "savepoint";
import { inFolder, inTurns, median, sizeOf } from "./lib/measure.mjs";
import { inSchema, settle, sizeOfSchema, withPostgres } from "./lib/postgres-server.mjs";
import { bytes, ratio, report } from "./lib/report.mjs";
import { messages, seeded } from "./lib/states.mjs";

/** @typedef {{ wall: number; cpu: number }} Cost microseconds for each call */
/** @typedef {{ save: Cost; load: Cost; effect: Cost }} Costs */
/** @typedef {(work: (url: string, size: () => Promise<number>) => Promise<any>) => Promise<any>} InStore */
/** @typedef {Record<string, import("savepoint").OpenOptions>} Ways */

const key = new Uint8Array(32).fill(7);
/** @type {Ways} */
const WAYS = { plain: {}, encrypted: { encryption: { key } } };
/** Encrypted data does not compress: bytes are compared with those of a store that does not compress either. */
/** @type {Ways} */
const SIZES = { "plain, uncompressed": { compress: false }, plain: {}, encrypted: { encryption: { key } } };
/** A thread begins with so many messages of 1 kB. */
const LENGTH = 100;
const WARM_UP = 2;
const KINDS = /** @type {const} */ (["save", "load", "effect"]);
const CALLS = { save: "a save of 1 kB more", load: "a load of 100 messages", effect: "a recorded effect" };

/** @param {string[]} args saves in a run, rounds */
export default async function encryption(args) {
  const [saves = 2000, rounds = 5] = args.map(Number);
  /** @type {import("./lib/report.mjs").Table[]} */
  const tables = [];
  /** @type {Record<string, number>} */
  const figures = {};
  const measure = async (/** @type {string} */ kind, /** @type {InStore} */ inStore) => {
    const contenders = mapValues(WAYS, (options) => () => inStore((url) => costs(url, options, saves)));
    // The first rounds include the work of the compiler, so they are not counted.
    await inTurns(contenders, WARM_UP);
    /** @type {Record<string, Costs[]>} */
    const results = await inTurns(contenders, rounds);
    const cpu = mapValues(results, (each) => middle(each, "cpu"));
    const wall = mapValues(results, (each) => middle(each, "wall"));
    const rows = KINDS.map((call) => {
      const [plain, sealed] = [cpu["plain"]?.[call] ?? 0, cpu["encrypted"]?.[call] ?? 0];
      figures[`${kind}: ${call}`] = sealed - plain;
      const times = [wall["plain"]?.[call] ?? 0, wall["encrypted"]?.[call] ?? 0].map(microseconds);
      return [CALLS[call], ...times, microseconds(plain), microseconds(sealed), microseconds(sealed - plain)];
    });
    tables.push({
      title: `The cost of encryption on ${kind}, \`process\``,
      head: ["", "plain", "encrypted", "CPU, plain", "CPU, encrypted", "CPU, more"],
      rows,
      notes: [
        `CPU time is that of this process, all threads. It depends less on what else the machine does. The first ${WARM_UP} rounds are not counted.`,
      ],
    });
    const sizes = [];
    for (const length of [140, 1000]) {
      /** @type {number[]} */
      const found = [];
      for (const options of Object.values(SIZES)) {
        found.push(await inStore((url, size) => bytesPerMessage(url, options, size, { length, count: saves })));
      }
      const [floor = 0, , sealed = 0] = found;
      figures[`${kind}: bytes of messages of ${length}`] = sealed / floor;
      sizes.push([`${length} characters`, ...found.map(bytes), ratio(sealed / floor)]);
    }
    tables.push({
      title: `Bytes of a message on ${kind}, saved one by one and compacted`,
      head: ["", ...Object.keys(SIZES), "encrypted vs. uncompressed"],
      rows: sizes,
    });
  };
  await measure("SQLite", (work) =>
    inFolder((folder) => work(`sqlite:${join(folder, "bench.db")}`, async () => sizeOf(folder))),
  );
  await withPostgres((server) =>
    measure("PostgreSQL", async (work) => {
      await settle(server);
      return inSchema(server, (url, schema) => work(url, () => sizeOfSchema(server, schema)));
    }),
  );
  report("encryption", tables, figures);
}

/** @param {string} url @param {import("savepoint").OpenOptions} options @param {number} count @returns {Promise<Costs>} */
async function costs(url, options, count) {
  const random = seeded(1);
  const thread = messages(random, LENGTH);
  const added = messages(random, count);
  const all = /** @type {const} */ ({ ...options, durability: "process" });
  let sp = await Savepoint.open(url, all);
  /** @type {Cost} */
  let save = { wall: 0, cpu: 0 };
  for (let from = 0; from < count; from += LENGTH) {
    const session = sp.session(`thread-${from}`);
    await session.save({ messages: thread });
    const part = Math.min(LENGTH, count - from);
    const each = await perCall(part, (index) => session.append("/messages", [added[from + index]]));
    save = { wall: save.wall + (each.wall * part) / count, cpu: save.cpu + (each.cpu * part) / count };
  }
  const agent = defineAgent({
    name: "clerk",
    initial: () => ({ at: 0 }),
    async step(run) {
      for (let index = 0; index < count; index++) await run.effect(`effect ${index}`, () => added[index]?.content);
      return run.complete();
    },
  });
  const effect = scale(await perCall(1, () => sp.run(agent, { session: "run", input: {} })), 1 / count);
  await sp.close();
  sp = await Savepoint.open(url, all);
  const loads = Math.max(20, Math.floor(count / 10));
  const ids = (await sp.session("thread-0").history({ limit: loads }).all()).map(({ id }) => id);
  const load = await perCall(loads, (index) => sp.session("thread-0").load(ids[index % ids.length] ?? ""));
  await sp.close();
  return { save, load, effect };
}

/** @param {number} count @param {(index: number) => Promise<unknown>} call @returns {Promise<Cost>} */
async function perCall(count, call) {
  const [start, before] = [performance.now(), process.cpuUsage()];
  for (let index = 0; index < count; index++) await call(index);
  const { user, system } = process.cpuUsage(before);
  return { wall: ((performance.now() - start) * 1000) / count, cpu: (user + system) / count };
}

/** @param {Cost} cost @param {number} factor @returns {Cost} */
const scale = ({ wall, cpu }, factor) => ({ wall: wall * factor, cpu: cpu * factor });

/** @param {readonly Costs[]} runs @param {keyof Cost} of @returns {Record<keyof Costs, number>} */
function middle(runs, of) {
  const one = (/** @type {keyof Costs} */ call) => median(runs.map((run) => run[call][of]));
  return { save: one("save"), load: one("load"), effect: one("effect") };
}

/**
 * @param {string} url @param {import("savepoint").OpenOptions} options @param {() => Promise<number>} size
 * @param {{ length: number; count: number }} work
 */
async function bytesPerMessage(url, options, size, { length, count }) {
  const sp = await Savepoint.open(url, { ...options, durability: "process" });
  const added = messages(seeded(1), count, length);
  await sp.session("warm").save({ messages: [] });
  await sp.compact();
  const empty = await size();
  const session = sp.session("thread");
  await session.save({ messages: [] });
  for (const each of added) await session.append("/messages", [each]);
  await sp.compact();
  await sp.close();
  return ((await size()) - empty) / count;
}

/** @template T, R @param {Record<string, T>} all @param {(each: T) => R} change @returns {Record<string, R>} */
function mapValues(all, change) {
  return Object.fromEntries(Object.entries(all).map(([name, each]) => [name, change(each)]));
}

/** @param {number} value */
const microseconds = (value) => `${value.toFixed(1)} µs`;
