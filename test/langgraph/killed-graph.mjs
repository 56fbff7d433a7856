// A graph whose process kills itself inside a node, once: node killed-graph.mjs <url> <log> <node>
import { appendFileSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { Savepoint } from "savepoint";
import { SavepointSaver } from "savepoint/langgraph";

const [url = "", log = "", kill = ""] = process.argv.slice(2);
/** @type {(before: string[], more: string[]) => string[]} */
const add = (before, more) => before.concat(more);
const State = Annotation.Root({ done: Annotation({ reducer: add, default: () => /** @type {string[]} */ ([]) }) });

/** @param {string} name */
const node = (name) => async () => {
  appendFileSync(log, `begin ${name}\n`);
  if (name === kill) {
    // What is beside it gets done meanwhile, and saved.
    await new Promise((resolve) => setTimeout(resolve, 300));
    process.kill(process.pid, "SIGKILL");
  }
  return { done: [name] };
};

const sp = await Savepoint.open(url);
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
  .compile({ checkpointer: new SavepointSaver(sp) });
const config = { configurable: { thread_id: "t" } };
const begun = (await graph.getState(config)).config.configurable?.checkpoint_id !== undefined;
const result = await graph.invoke(begun ? null : { done: ["start"] }, config);
appendFileSync(log, `done ${JSON.stringify(result.done)}\n`);
await sp.close();
