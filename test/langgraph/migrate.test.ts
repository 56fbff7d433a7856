/** Migrating threads from LangGraph's own savers. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import { type MigrateProgress, SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { STORES, useData } from "../model/stores.js";
import { OWN_SAVERS, type OwnSaver } from "./own-savers.js";

const config = (thread_id: string, more: Record<string, unknown> = {}) => ({ configurable: { thread_id, ...more } });

function build(checkpointer: BaseCheckpointSaver) {
  const inner = new StateGraph(Annotation.Root({ ...MessagesAnnotation.spec }))
    .addNode("ask", () => ({ messages: [new AIMessage(interrupt<string, string>("go on?"))] }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", ({ messages }) => ({ messages: [new AIMessage(`reply ${messages.length}`)] }))
    .addNode("inner", inner)
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.length > 6 ? "inner" : END))
    .addEdge("inner", END)
    .compile({ checkpointer });
}

/** Two threads with turns, forks, and a subgraph that waits. */
async function fill(saver: BaseCheckpointSaver): Promise<void> {
  const graph = build(saver);
  for (let turn = 0; turn < 4; turn++) {
    await graph.invoke({ messages: [new HumanMessage(`turn ${turn}`)] }, config("long"));
  }
  await graph.invoke({ messages: [new HumanMessage("hello")] }, config("forked"));
  const base = (await graph.getState(config("forked"))).config;
  for (const text of ["A", "B"]) await graph.invoke({ messages: [new HumanMessage(text)] }, base);
}

async function all(saver: BaseCheckpointSaver, at: object): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { config: where, parentConfig = null, checkpoint, metadata, pendingWrites = [] } of saver.list(at)) {
    const sorted = [...pendingWrites].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    found.push({ where, parentConfig, checkpoint, metadata, pendingWrites: sorted });
  }
  return found;
}

describe.each(STORES)("migrating to $name", (kind) => {
  const data = useData(kind);

  test.each(Object.keys(OWN_SAVERS))("a %s is copied completely, and its graphs continue", async (name) => {
    const own = (await OWN_SAVERS[name]?.()) as OwnSaver;
    const source = own.saver;
    await fill(source);
    const saver = new SavepointSaver(await data.open());
    const told: MigrateProgress[] = [];
    const report = await saver.migrateFrom(source, { onProgress: (progress) => told.push(progress) });
    const total = (await all(source, {})).length;
    expect(report).toEqual({ threads: 2, copied: total, present: 0, verified: total });
    expect(told.at(-1)).toMatchObject({ threads: 2, ofThreads: 2, checkpoints: total });
    for (const thread of ["long", "forked"]) {
      expect(await all(saver, config(thread, { checkpoint_ns: "" }))).toEqual(
        await all(source, config(thread, { checkpoint_ns: "" })),
      );
    }
    const before = await build(source).getState(config("long"), { subgraphs: true });
    const after = await build(saver).getState(config("long"), { subgraphs: true });
    expect(after.values).toEqual(before.values);
    expect(after.next).toEqual(["inner"]);
    expect(await saver.migrateFrom(source)).toEqual({ threads: 2, copied: 0, present: total, verified: total });
    await own.end();
  });

  test("an interrupted migration continues, threads can be selected, and differences are reported", async () => {
    const source = new MemorySaver();
    await fill(source);
    const saver = new SavepointSaver(await data.open());
    const stop = (): never => {
      throw new Error("enough");
    };
    const once = ({ checkpoints }: MigrateProgress): void => (checkpoints === 3 ? stop() : undefined);
    await expect(saver.migrateFrom(source, { onProgress: once })).rejects.toThrow("enough");
    expect(await saver.migrateFrom(source, { threads: ["long"] })).toMatchObject({ threads: 1, present: 3 });
    const tuple = await source.getTuple(config("long"));
    await source.put(
      tuple?.parentConfig ?? {},
      { ...emptyCheckpoint(), id: tuple?.checkpoint.id ?? "", channel_values: { changed: true } },
      { source: "update", step: 9, parents: {} },
    );
    await expect(saver.migrateFrom(source)).rejects.toMatchObject({ code: "CONFLICT" });
  });

  test("a thread whose first checkpoints were pruned is copied without them", async () => {
    const source = new MemorySaver();
    await fill(source);
    const ids = (await all(source, config("long", { checkpoint_ns: "" }))) as {
      where: { configurable: { checkpoint_id: string } };
    }[];
    const checkpoints = source.storage["long"]?.[""] ?? {};
    for (const { where } of ids.slice(4)) delete checkpoints[where.configurable.checkpoint_id];
    const saver = new SavepointSaver(await data.open());
    await saver.migrateFrom(source, { threads: ["long"] });
    expect(await all(saver, config("long", { checkpoint_ns: "" }))).toEqual(
      await all(source, config("long", { checkpoint_ns: "" })),
    );
    await saver.copyThread("long", "copy");
    expect(
      ((await all(saver, config("copy", { checkpoint_ns: "" }))).at(-1) as { parentConfig: unknown }).parentConfig,
    ).not.toBeNull();
  });
});
