/** What the command line shows of threads. */
import { Annotation, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { linesOf } from "../cli/command.js";
import { createPlace } from "../cli/place.js";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const T = { configurable: { thread_id: "t" } };

/** One node, two in parallel, two sends to the same node, and a node that asks. */
function fan(checkpointer: SavepointSaver) {
  const sends = (): Send[] => [new Send("sent", {}), new Send("sent", {})];
  return new StateGraph(State)
    .addNode("agent", () => ({ log: ["a"] }))
    .addNode("left", () => ({ log: ["l"] }))
    .addNode("right", () => ({ log: ["r"] }))
    .addNode("sent", () => ({ log: ["s"] }))
    .addNode("asks", () => ({ log: [String(interrupt("Refund order 88?"))] }))
    .addEdge(START, "agent")
    .addEdge("agent", "left")
    .addEdge("agent", "right")
    .addConditionalEdges("left", sends, ["sent"])
    .addEdge("sent", "asks")
    .addEdge("asks", END)
    .compile({ checkpointer });
}

test("log names the nodes that ran before each checkpoint of a thread, also if they ran before", async (context) => {
  const place = createPlace(context);
  const names = ["", "", "agent", "left, right", "sent", "asks"];
  await place.leave(async (sp) => {
    const saver = new SavepointSaver(sp);
    for (const answer of ["yes", "no"]) {
      await fan(saver).invoke({ log: [] }, T);
      // Another saver has no parent in its cache.
      await fan(new SavepointSaver(sp)).invoke(new Command({ resume: answer }), T);
    }
    await saver.copyThread("t", "copy");
  });
  for (const id of ["t", "copy"]) {
    const infos = await place.jsonl<{ metadata: { nodes?: string[] } }>(["log", id, "--oldest"]);
    expect(infos.map(({ metadata }) => (metadata.nodes ?? []).join(", "))).toEqual([...names, ...names]);
  }
  const [, newest, ...older] = linesOf(await place.text(["log", "t"]));
  expect(newest).toMatch(/#11 {2}step 11 {2}completed .*\(main\) {2}asks$/);
  expect(older[0]).toMatch(/open .*ago {2}sent$/);
  expect(older.at(-1)).toMatch(/ago {2}input$/);
});

test("status, answer and journal name the graph for a thread that waits or has failed", async (context) => {
  const place = createPlace(context);
  const failing = new StateGraph(State).addNode("broken", () => Promise.reject(new Error("no stock")));
  await place.leave(async (sp) => {
    const checkpointer = new SavepointSaver(sp);
    await fan(checkpointer).invoke({ log: [] }, T);
    const graph = failing.addEdge(START, "broken").compile({ checkpointer });
    await expect(graph.invoke({ log: [] }, { configurable: { thread_id: "failed" } })).rejects.toThrow("no stock");
  });
  const command = "graph.invoke(new Command({ resume: answer }), config)";
  const summary = await place.on(["status"]);
  expect(summary.stdout).toMatch(/Waiting for an answer\n +t +langgraph +Refund order 88\?/);
  expect(summary.stderr).toContain(`To answer a LangGraph thread: ${command}`);
  expect((await place.on(["status", "t"])).stderr).toBe(`To answer: ${command}\n`);
  expect((await place.fail(["answer", "t", "--text", "yes"], 2)).message).toContain(command);
  const hint = "To resume, invoke the graph again: graph.invoke(null, config)\n";
  expect((await place.on(["status", "failed"])).stderr).toBe(hint);
  expect((await place.on(["journal", "t"])).stderr).toContain(
    "this is a LangGraph thread. To list its nodes: savepoint log t",
  );
});

test("doctor and answer name the graph, not an answer of their own, for a thread that waits", async (context) => {
  const place = createPlace(context);
  await place.leave((sp) => fan(new SavepointSaver(sp)).invoke({ log: [] }, T));
  const findings = await place.json<{ check: string; detail: string; advice?: string }[]>(["doctor"]);
  const [waiting] = findings.filter(({ check }) => check === "waiting");
  expect(waiting).toMatchObject({ detail: "t", advice: expect.stringContaining("new Command({ resume") as string });
  expect(waiting?.advice).not.toContain("savepoint answer");
  const refused = await place.fail(["answer", "t"], 2);
  expect(refused.message).toContain("graph.invoke(new Command({ resume: answer }), config)");
});
