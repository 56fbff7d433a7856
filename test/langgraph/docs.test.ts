// The diffs for LangGraph in docs/langgraph.md and the README: LangGraph runs the code before and after each change.
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { readDiff } from "../docs/diffs.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The code that the reader already has: a graph that counts the visits of a thread, and one that counts those of a user. */
const THREAD_BUILDER = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ visits: Annotation({ reducer: (a, b) => a + b, default: () => 0 }) });
const builder = new StateGraph(State)
  .addNode("greet", () => ({ visits: 1 }))
  .addEdge(START, "greet")
  .addEdge("greet", END);
`;
const INVOKE = `
const { visits } = await graph.invoke({ visits: 0 }, { configurable: { thread_id: "ada" } });
console.log("visit " + visits);
`;
const USER_BUILDER = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ user: Annotation, reply: Annotation });
const builder = new StateGraph(State)
  .addNode("greet", async ({ user }, { store }) => {
    const visits = ((await store.get(["users", user], "visits"))?.value.count ?? 0) + 1;
    await store.put(["users", user], "visits", { count: visits });
    return { reply: "visit " + visits };
  })
  .addEdge(START, "greet")
  .addEdge("greet", END);
`;

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  const langchain = join(folder, "node_modules", "@langchain");
  mkdirSync(join(langchain, "langgraph-checkpoint-sqlite"), { recursive: true });
  symlinkSync(root, join(folder, "node_modules", "savepoint"));
  for (const name of ["core", "langgraph", "langgraph-checkpoint"]) {
    symlinkSync(join(root, "node_modules/@langchain", name), join(langchain, name));
  }
  // A substitute, because the driver of the real package has to be compiled.
  writeFileSync(
    join(langchain, "langgraph-checkpoint-sqlite", "index.js"),
    `const { MemorySaver } = require("@langchain/langgraph-checkpoint");
    exports.SqliteSaver = { fromConnString: () => new MemorySaver() };`,
  );
  return () => removeFolder(folder);
});

function run(name: string, code: string): string {
  writeFileSync(join(folder, name), code);
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, name)], { cwd: folder, encoding: "utf8" });
  return (stdout + stderr).trim();
}

describe.each(["docs/langgraph.md", "README.md"])("the diff for LangGraph's checkpointer in %s", (page) => {
  it("runs before and after the change, and after it, a second process resumes the thread of the first one", () => {
    const { before, after } = readDiff(page, "SavepointSaver");
    expect(run("before.mjs", THREAD_BUILDER + before + INVOKE)).toBe("visit 1");
    const runs = ["first", "second"].map((name) => run(`${name}.mjs`, THREAD_BUILDER + after + INVOKE));
    expect(runs).toEqual(["visit 1", "visit 2"]);
  });
});

it("the diff for LangGraph's memory runs before and after the change, and only after it, a second process finds the item", () => {
  const { before, after } = readDiff("docs/langgraph.md", "SavepointStore");
  const runs = (code: string): string[] => ["first", "second"].map((name) => run(`${name}.mjs`, USER_BUILDER + code));
  expect(runs(before)).toEqual(["visit 1", "visit 1"]);
  expect(runs(after)).toEqual(["visit 1", "visit 2"]);
});
