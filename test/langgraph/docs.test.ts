// The diff for the long-term memory on docs/langgraph.md, run with LangGraph before and after.
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, it } from "vitest";
import { readDiff } from "../docs/diffs.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** What the reader has already: a graph that counts the visits of a user. */
const BUILDER = `
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
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "savepoint"));
  symlinkSync(join(root, "node_modules/@langchain"), join(folder, "node_modules", "@langchain"));
  return () => removeFolder(folder);
});

it("the diff for LangGraph's memory runs before and after, and only the program after it remembers", () => {
  const { before, after } = readDiff("docs/langgraph.md", "SavepointStore");
  const run = (name: string): string => {
    const { stdout, stderr } = spawnSync(process.execPath, [join(folder, name)], { cwd: folder, encoding: "utf8" });
    return (stdout + stderr).trim();
  };
  writeFileSync(join(folder, "before.mjs"), BUILDER + before);
  writeFileSync(join(folder, "after.mjs"), BUILDER + after);
  expect([run("before.mjs"), run("before.mjs")]).toEqual(["visit 1", "visit 1"]);
  expect([run("after.mjs"), run("after.mjs")]).toEqual(["visit 1", "visit 2"]);
});
