// A graph whose process kills itself inside a node, once: node killed-graph.mjs <url> <log> <node>
import { appendFileSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { Savepoint } from "savepoint";
import { SavepointSaver } from "savepoint/langgraph";
import { until } from "../support/until.mjs";

const [url = "", log = "", kill = ""] = process.argv.slice(2);
/** @type {(before: string[], more: string[]) => string[]} */
const add = (before, more) => before.concat(more);
const State = Annotation.Root({ done: Annotation({ reducer: add, default: () => /** @type {string[]} */ ([]) }) });

/** @param {string} name */
const node = (name) => async () => {
  appendFileSync(log, `begin ${name}\n`);
  if (name === kill) {
    // LangGraph saves while the next nodes run: wait until the finished nodes beside it or before it are saved.
    const other = name === "slow" ? "quick" : "slow";
    await until(() => isSaved(other), `${other} to be saved`);
    process.kill(process.pid, "SIGKILL");
  }
  return { done: [name] };
};

const sp = await Savepoint.open(url);
const checkpointer = new SavepointSaver(sp);
const config = { configurable: { thread_id: "t" } };
/** Is the write of a node in the newest checkpoint, or pending beside it? @param {string} name */
const isSaved = async (name) => {
  const { checkpoint, pendingWrites = [] } = (await checkpointer.getTuple(config)) ?? {};
  const done = /** @type {string[]} */ (checkpoint?.channel_values["done"] ?? []);
  const pending = pendingWrites.flatMap(([, channel, value]) =>
    channel === "done" ? /** @type {string[]} */ (value) : [],
  );
  return [...done, ...pending].includes(name);
};
const graph = new StateGraph(State)
  .addNode("first", node("first"))
  .addNode("quick", node("quick"))
  .addNode("slow", node("slow"))
  .addNode("last", node("last"))
  .addEdge(START, "first")
  .addEdge("first", "quick")
  .addEdge("first", "slow")
  .addEdge(["quick", "slow"], "last")
  .addEdge("last", END)
  .compile({ checkpointer });
const begun = (await graph.getState(config)).config.configurable?.checkpoint_id !== undefined;
const result = await graph.invoke(begun ? null : { done: ["start"] }, config);
appendFileSync(log, `done ${JSON.stringify(result.done)}\n`);
await sp.close();
