// A graph of 1,000 steps whose thread grows by a LangChain message of 1 kB a step: Savepoint beside LangGraph's own savers,
// with their channels as they are and with the `DeltaChannel` that they offer against growth, on SQLite and on PostgreSQL.
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  END,
  MemorySaver,
  MessagesAnnotation,
  MessagesDeltaValue,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { Savepoint } from "savepoint";
import { SavepointSaver } from "savepoint/langgraph";
import { inFolder, inTurns, median, sizeOf, timed } from "./lib/measure.mjs";
import { loadPostgresSaver, loadSqliteSaver } from "./lib/peers.mjs";
import { inSchema, sizeOfSchema, withPostgres } from "./lib/postgres-server.mjs";
import { bytes, ms, ratio, report } from "./lib/report.mjs";

/** @typedef {import("@langchain/langgraph-checkpoint").BaseCheckpointSaver} Saver */
/** @typedef {{ total: number; bytes: number; get: number; list: number; remove: number }} Result */
/** @typedef {{ saver: Saver; close: () => Promise<unknown> }} Opened */
/** @typedef {{ open: () => Promise<Opened>; bytes: () => Promise<number> }} Contender */
/** @typedef {import("./lib/postgres-server.mjs").Server} Server */

const BARE = "no checkpointer";
const MEMORY = "LangGraph MemorySaver";
const SQLITE = "LangGraph SqliteSaver";
const POSTGRES = "LangGraph PostgresSaver";
/** Whom each is compared with. */
const PEERS = {
  [BARE]: SQLITE,
  [MEMORY]: SQLITE,
  "Savepoint, process": SQLITE,
  "Savepoint, power": SQLITE,
  [SQLITE]: SQLITE,
  [`${SQLITE}, DeltaChannel`]: SQLITE,
  "Savepoint, PostgreSQL": POSTGRES,
  [POSTGRES]: POSTGRES,
  [`${POSTGRES}, DeltaChannel`]: POSTGRES,
};
const READS = 9;
const config = { configurable: { thread_id: "t" } };

/** @param {string[]} args steps, if not 1,000, and how often */
export default async function langgraph([steps = "1000", times = "3"]) {
  const count = Number(steps);
  const SqliteSaver = await loadSqliteSaver();
  const PostgresSaver = await loadPostgresSaver();
  const results = await withPostgres((server) => {
    const inFile =
      (/** @type {(folder: string) => Contender} */ contend, deltas = false) =>
      () =>
        inFolder((folder) => measure(contend(folder), count, deltas));
    const onServer =
      (/** @type {(url: string, schema: string) => Contender} */ contend, deltas = false) =>
      () =>
        inSchema(server, (url, schema) => measure(contend(url, schema), count, deltas));
    /** @type {Record<keyof typeof PEERS, () => Promise<Result>>} */
    const contenders = {
      [BARE]: () => inFolder(async () => runBare(count)),
      [MEMORY]: () => inFolder(async () => measure(inMemory(), count, false)),
      "Savepoint, process": inFile((folder) => savepoint(folder, "process")),
      "Savepoint, power": inFile((folder) => savepoint(folder, "power")),
      [SQLITE]: inFile((folder) => sqlite(SqliteSaver, folder)),
      [`${SQLITE}, DeltaChannel`]: inFile((folder) => sqlite(SqliteSaver, folder), true),
      "Savepoint, PostgreSQL": onServer((url, schema) => savepointAt(server, url, schema)),
      [POSTGRES]: onServer((_, schema) => postgres(PostgresSaver, server, schema)),
      [`${POSTGRES}, DeltaChannel`]: onServer((_, schema) => postgres(PostgresSaver, server, schema), true),
    };
    return inTurns(contenders, Number(times));
  });
  const versus = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    ratio(of(name, pick) / of(PEERS[/** @type {keyof typeof PEERS} */ (name)], pick));
  const of = (/** @type {string} */ name, /** @type {(result: Result) => number} */ pick) =>
    median((results[name] ?? []).map(pick));
  const added = (/** @type {string} */ name) => (of(name, (r) => r.total) - of(BARE, (r) => r.total)) / count;
  const tables = [
    {
      title: `A graph of ${count} steps, a LangChain message of 1 kB each`,
      head: [
        "",
        "the run",
        "added per step",
        "on disk",
        "bytes per step",
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
        name === BARE ? "–" : ms(added(name)),
        name === BARE || name === MEMORY ? "–" : bytes(of(name, (result) => result.bytes)),
        name === BARE || name === MEMORY ? "–" : bytes(of(name, (result) => result.bytes) / count),
        ...(name === BARE
          ? ["–", "–", "–", "–", "–", "–"]
          : [
              ms(of(name, (result) => result.get)),
              ms(of(name, (result) => result.list)),
              ms(of(name, (result) => result.remove)),
              versus(name, (result) => result.total),
              name === MEMORY ? "–" : versus(name, (result) => result.bytes),
              versus(name, (result) => result.get),
            ]),
      ]),
      notes: [
        "The run includes what LangGraph itself does, which is the same for all. The peer is SqliteSaver for what is in a file, and PostgresSaver for what is on PostgreSQL, with their channels as they are.",
      ],
    },
  ];
  const delta = `${SQLITE}, DeltaChannel`;
  report("langgraph", tables, {
    addedVsDelta: added("Savepoint, process") / added(delta),
    addedVsMemory: added("Savepoint, process") / added(MEMORY),
    listVsDelta: of("Savepoint, process", (r) => r.list) / of(delta, (r) => r.list),
    bytes: of("Savepoint, process", (r) => r.bytes) / count,
    ...Object.fromEntries(
      Object.keys(PEERS).flatMap((name) => (name === BARE ? [] : [[`added: ${name}`, added(name)]])),
    ),
  });
}

/** The graph without a checkpointer. @param {number} steps @returns {Promise<Result>} */
async function runBare(steps) {
  const graph = plainGraph(undefined, steps);
  const total = await timed(() =>
    graph.invoke({ messages: [new HumanMessage("begin")] }, { recursionLimit: steps + 10 }),
  );
  return { total, bytes: Number.NaN, get: Number.NaN, list: Number.NaN, remove: Number.NaN };
}

/** LangGraph's own saver, which keeps everything in memory. @returns {Contender} */
function inMemory() {
  const saver = new MemorySaver();
  return { open: async () => ({ saver, close: async () => {} }), bytes: async () => 0 };
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

/** @param {Saver | undefined} checkpointer @param {number} steps */
function plainGraph(checkpointer, steps) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", reply)
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.length > steps ? END : "agent"))
    .compile(checkpointer ? { checkpointer } : {});
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

/** @param {Server} server @param {string} url @param {string} schema @returns {Contender} */
function savepointAt(server, url, schema) {
  return { open: () => openSavepoint(url, "power"), bytes: () => sizeOfSchema(server, schema) };
}

/** @param {string} url @param {"process" | "power"} durability @returns {Promise<Opened>} */
async function openSavepoint(url, durability) {
  const sp = await Savepoint.open(url, { durability });
  return { saver: new SavepointSaver(sp), close: () => sp.close() };
}

/** @param {any} SqliteSaver @param {string} folder @returns {Contender} */
function sqlite(SqliteSaver, folder) {
  const open = async () => {
    const saver = SqliteSaver.fromConnString(join(folder, "graph.db"));
    return { saver, close: async () => saver.db.close() };
  };
  return { open, bytes: async () => sizeOf(folder) };
}

/** @param {any} PostgresSaver @param {Server} server @param {string} schema @returns {Contender} */
function postgres(PostgresSaver, server, schema) {
  const open = async () => {
    const saver = PostgresSaver.fromConnString(server.url, { schema });
    await saver.setup();
    return { saver, close: () => saver.end() };
  };
  return { open, bytes: () => sizeOfSchema(server, schema) };
}
