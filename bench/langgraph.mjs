// A graph of 1,000 steps whose thread grows by a LangChain message of 1 kB a step: Savepoint beside LangGraph's own savers,
// with their channels as they are and with the `DeltaChannel` that they offer against growth. With `DATABASE_URL`, an empty
// PostgreSQL database, also on PostgreSQL; its tables stay there.
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, MessagesDeltaValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { Savepoint } from "savepoint";
import { SavepointSaver } from "savepoint/langgraph";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";

/** @typedef {import("@langchain/langgraph-checkpoint").BaseCheckpointSaver} Saver */
/** @typedef {{ total: number; bytes: number; get: number; list: number; remove: number }} Result */
/** @typedef {{ saver: Saver; close: () => Promise<unknown> }} Opened */
/** @typedef {{ open: () => Promise<Opened>; bytes: () => Promise<number> }} Contender */

const PEER = "LangGraph SqliteSaver";
const READS = 9;
const config = { configurable: { thread_id: "t" } };

/** @param {string[]} args steps, if not 1,000, and how often */
export default async function langgraph([steps = "1000", times = "3"]) {
  const count = Number(steps);
  const run =
    (/** @type {(folder: string) => Contender} */ contend, deltas = false) =>
    () =>
      inFolder((folder) => measure(contend(folder), count, deltas));
  const database = process.env["DATABASE_URL"];
  const results = await inTurns(
    {
      "Savepoint, process": run((folder) => savepoint(folder, "process")),
      "Savepoint, power": run((folder) => savepoint(folder, "power")),
      [PEER]: run(sqlite),
      [`${PEER}, DeltaChannel`]: run(sqlite, true),
      ...(database !== undefined && {
        "Savepoint, PostgreSQL": run(() => savepointAt(database)),
        "LangGraph PostgresSaver": run(() => postgres(database)),
        "LangGraph PostgresSaver, DeltaChannel": run(() => postgres(database), true),
      }),
    },
    Number(times),
  );
  const of = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    median((results[name] ?? []).map(pick));
  report("langgraph", [
    {
      title: `A graph of ${count} steps, a LangChain message of 1 kB each`,
      head: [
        "",
        "the run",
        "on disk",
        "getTuple",
        "list of 10",
        "deleteThread",
        "time vs. peer",
        "bytes vs. peer",
        "getTuple vs. peer",
      ],
      rows: Object.keys(results).map((name) => [
        name,
        ms(of(name, (result) => result.total)),
        bytes(of(name, (result) => result.bytes)),
        ms(of(name, (result) => result.get)),
        ms(of(name, (result) => result.list)),
        ms(of(name, (result) => result.remove)),
        ratio(of(name, (result) => result.total) / of(PEER, (result) => result.total)),
        ratio(of(name, (result) => result.bytes) / of(PEER, (result) => result.bytes)),
        ratio(of(name, (result) => result.get) / of(PEER, (result) => result.get)),
      ]),
      notes: ["The run includes what LangGraph itself does, which is the same for all."],
    },
  ]);
}

/** @param {Contender} contender @param {number} steps @param {boolean} deltas @returns {Promise<Result>} */
async function measure({ open, bytes: size }, steps, deltas) {
  const { saver, close } = await open();
  const graph = deltas ? deltaGraph(saver, steps) : plainGraph(saver, steps);
  const total = await timed(() =>
    graph.invoke({ messages: [new HumanMessage("begin")] }, { ...config, recursionLimit: steps + 10 }),
  );
  const gets = [];
  for (let read = 0; read < READS; read++) gets.push(await timed(() => graph.getState(config)));
  const list = await timed(async () => {
    let count = 0;
    for await (const tuple of saver.list(config, { limit: 10 })) count += tuple.checkpoint.v > 0 ? 1 : 0;
    if (count !== 10) throw new Error(`${count} checkpoints were listed`);
  });
  await close();
  const stored = await size();
  const again = await open();
  const remove = await timed(() => again.saver.deleteThread("t"));
  await again.close();
  return { total, bytes: stored, get: median(gets), list, remove };
}

/** @param {{ messages: { length: number } }} state */
const reply = ({ messages: { length } }) => ({
  messages: [new AIMessage({ content: `${length} ${"text ".repeat(200)}`, id: `message-${length}` })],
});

/** @param {Saver} checkpointer @param {number} steps */
function plainGraph(checkpointer, steps) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", reply)
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.length > steps ? END : "agent"))
    .compile({ checkpointer });
}

/** @param {Saver} checkpointer @param {number} steps */
function deltaGraph(checkpointer, steps) {
  return new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
    .addNode("agent", reply)
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.length > steps ? END : "agent"))
    .compile({ checkpointer });
}

/** @param {string} folder @param {"process" | "power"} durability @returns {Contender} */
function savepoint(folder, durability) {
  return {
    open: () => openSavepoint(`sqlite:${join(folder, "graph.db")}`, durability),
    bytes: async () => sizeOf(folder),
  };
}

/** @param {string} url @returns {Contender} */
function savepointAt(url) {
  const size = async () => {
    const sp = await Savepoint.open(url);
    const found = await sp.bytes();
    await sp.close();
    return found;
  };
  return { open: () => openSavepoint(url, "power"), bytes: size };
}

/** @param {string} url @param {"process" | "power"} durability @returns {Promise<Opened>} */
async function openSavepoint(url, durability) {
  const sp = await Savepoint.open(url, { durability });
  return { saver: new SavepointSaver(sp), close: () => sp.close() };
}

/** @param {string} folder @returns {Contender} */
function sqlite(folder) {
  const open = async () => {
    const saver = SqliteSaver.fromConnString(join(folder, "graph.db"));
    return { saver, close: async () => saver.db.close() };
  };
  return { open, bytes: async () => sizeOf(folder) };
}

/** @param {string} url @returns {Contender} */
function postgres(url) {
  const open = async () => {
    const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
    const saver = PostgresSaver.fromConnString(url);
    await saver.setup();
    return { saver, close: () => saver.end() };
  };
  const tables = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"];
  const sizes = tables.map((table) => `pg_total_relation_size('${table}')`).join(" + ");
  return { open, bytes: async () => Number(await query(url, `SELECT ${sizes} AS value`)) };
}

/** @param {string} url @param {string} sql @returns {Promise<unknown>} */
async function query(url, sql) {
  // It has no types of its own.
  const driver = "pg";
  const { default: pg } = await import(driver);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows[0].value;
}
