// What LangGraph's long-term memory costs: putting, reading and searching items, beside LangGraph's own store in memory.
import { InMemoryStore } from "@langchain/langgraph-checkpoint";
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { SavepointStore } from "savepoint/langgraph";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, report } from "./lib/report.mjs";

/** @typedef {import("savepoint").Durability} Durability */
/** @typedef {import("@langchain/langgraph-checkpoint").BaseStore} BaseStore */
/** @typedef {{ put: number, get: number, search: number, meaning: number, large: number, bytes: number }} Result */

const USERS = 100;
const DIMS = 384;
const value = (/** @type {number} */ n) => ({ n, text: `memory ${n}: ${"she likes night trains ".repeat(8)}` });
/** A vector that depends on the text. @param {string} text */
const embed = (text) =>
  Array.from({ length: DIMS }, (_, n) => ((text.length * 31 + n * 17 + Number(/\d+/.exec(text))) % 97) / 97);
const embeddings = {
  embedQuery: async (/** @type {string} */ text) => embed(text),
  embedDocuments: async (/** @type {string[]} */ texts) => texts.map(embed),
};
const index = { dims: DIMS, embeddings, fields: ["text"] };

/** @param {string[]} args items of users, items of a large namespace, rounds */
export default async function langgraphMemory(args) {
  const [items = 1000, large = 10_000, rounds = 3] = args.map(Number);
  const theirs = () => measure(items, large, new InMemoryStore({ index: /** @type {any} */ (index) }));
  /** @type {Record<string, () => Promise<Result>>} */
  const contenders = {
    InMemoryStore: async () => ({ ...(await theirs()), bytes: 0 }),
    "SavepointStore, process": () => inFolder((folder) => measureStore(items, large, folder, "process")),
    "SavepointStore, power": () => inFolder((folder) => measureStore(items, large, folder, "power")),
  };
  const results = await inTurns(contenders, rounds);
  const middle = (/** @type {string} */ name, /** @type {keyof Result} */ field) =>
    median((results[name] ?? []).map((result) => result[field]));
  const shown = (/** @type {number} */ size) => (size > 0 ? bytes(size) : "–");
  const tables = [
    {
      title: `LangGraph's long-term memory: ${items} items of ${USERS} users, and a namespace of ${large} items with vectors of ${DIMS} numbers`,
      head: ["", "put", "get", "search of a user", "put in the large one", "search by meaning", "bytes per item"],
      rows: Object.keys(contenders).map((name) => [
        name,
        ms(middle(name, "put")),
        ms(middle(name, "get")),
        ms(middle(name, "search")),
        ms(middle(name, "large")),
        ms(middle(name, "meaning")),
        shown(middle(name, "bytes")),
      ]),
      notes: [
        "InMemoryStore returns its own objects and forgets them at exit. An item has 0.2 kB of text; bytes include its history.",
      ],
    },
  ];
  report("langgraph-memory", tables, {
    put: middle("SavepointStore, process", "put"),
    power: middle("SavepointStore, power", "put"),
    get: middle("SavepointStore, process", "get"),
    large: middle("SavepointStore, process", "large"),
    meaning: middle("SavepointStore, process", "meaning"),
  });
}

/** @param {number} items @param {number} large @param {string} folder @param {Durability} durability */
async function measureStore(items, large, folder, durability) {
  const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { durability });
  const plain = await measure(items, 0, new SavepointStore(sp));
  await sp.close();
  const size = sizeOf(folder);
  const other = await Savepoint.open(`sqlite:${join(folder, "large.db")}`, { durability });
  const { large: each, meaning } = await measure(0, large, new SavepointStore(other, { index }));
  await other.close();
  return { ...plain, large: each, meaning, bytes: size / items };
}

/** @param {number} items @param {number} large @param {BaseStore} store @returns {Promise<Result>} */
async function measure(items, large, store) {
  const of = (/** @type {number} */ n) => ["users", `user-${n % USERS}`];
  /** @param {number} times @param {(n: number) => Promise<unknown>} work */
  const each = async (times, work) => {
    const spent = await timed(async () => {
      for (let n = 0; n < times; n++) await work(n);
    });
    return times === 0 ? 0 : spent / times;
  };
  const put = await each(items, (n) => store.put(of(n), `k${n}`, value(n), false));
  const get = await each(items, (n) => store.get(of(n), `k${n}`));
  const search = await each(Math.min(items, 200), (n) => store.search(of(n)));
  const all = Array.from({ length: large }, (_, n) => ({ namespace: ["docs"], key: `k${n}`, value: value(n) }));
  await store.batch(all);
  const some = large === 0 ? 0 : 20;
  const inLarge = await each(some, (n) => store.put(["docs"], `k${n * 7}`, value(n + 1)));
  const meaning = await each(some, (n) => store.search(["docs"], { query: `memory ${n}` }));
  return { put, get, search, large: inLarge, meaning, bytes: 0 };
}
