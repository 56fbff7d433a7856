/** Real graphs on every store that outlives the process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  MessagesDeltaValue,
  Send,
  START,
  StateGraph,
  StateSchema,
  type StateSnapshot,
} from "@langchain/langgraph";
import type { BaseCheckpointSaver, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const thread = (id: string, more: Record<string, unknown> = {}): { configurable: Record<string, unknown> } => ({
  configurable: { thread_id: id, ...more },
});

/** Answers every message. */
function chat(checkpointer: SavepointSaver) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", ({ messages }) => ({
      messages: [new AIMessage({ content: `reply to <${textOf(messages.at(-1))}>`, id: `ai-${messages.length}` })],
    }))
    .addEdge(START, "agent")
    .addEdge("agent", END)
    .compile({ checkpointer });
}

const say = (content: string): { messages: BaseMessage[] } => ({ messages: [new HumanMessage(content)] });
const textOf = (message: BaseMessage | undefined): string => (message?.content ?? "") as string;
const textsOf = ({ values }: StateSnapshot): string[] =>
  (values as { messages: BaseMessage[] }).messages.map((message) => textOf(message));

/** The content of a thread in a saver, without what differs between executions. */
async function summary(saver: BaseCheckpointSaver): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { config, checkpoint, metadata, pendingWrites = [], parentConfig } of saver.list(thread("t"))) {
    const namespace = config.configurable?.["checkpoint_ns"] as string;
    const { source, step } = metadata as CheckpointMetadata;
    const writes = pendingWrites.map(([, channel, value]) => JSON.stringify([channel, value])).sort();
    const values = JSON.stringify(checkpoint.channel_values);
    found.push([namespace, source, step, parentConfig !== undefined, values, writes]);
  }
  return found.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

describe.each(DURABLE_STORES)("graphs on $name", (kind) => {
  const store = useStore(kind);
  /** A saver as another process would open it. */
  const saver = async (): Promise<SavepointSaver> => new SavepointSaver(await store.open());

  test("a thread continues in another process, and its messages keep their classes", async () => {
    await chat(await saver()).invoke(say("one"), thread("t"));
    const graph = chat(await saver());
    await graph.invoke(say("two"), thread("t"));
    const state = await graph.getState(thread("t"));
    expect(textsOf(state)).toEqual(["one", "reply to <one>", "two", "reply to <two>"]);
    const [human, ai] = (state.values as { messages: BaseMessage[] }).messages;
    expect(Object.getPrototypeOf(human)).toBe(HumanMessage.prototype);
    expect(Object.getPrototypeOf(ai)).toBe(AIMessage.prototype);
  });

  test("a checkpoint that is forked twice has two branches, and each is read as it was written", async () => {
    const graph = chat(await saver());
    await graph.invoke(say("hello"), thread("t"));
    const base = (await graph.getState(thread("t"))).config;
    await graph.invoke(say("A"), base);
    const headA = (await graph.getState(thread("t"))).config;
    await graph.invoke(say("B"), base);
    const headB = (await graph.getState(thread("t"))).config;
    for (const fresh of [graph, chat(await saver())]) {
      expect(textsOf(await fresh.getState(headA)).slice(2)).toEqual(["A", "reply to <A>"]);
      expect(textsOf(await fresh.getState(headB)).slice(2)).toEqual(["B", "reply to <B>"]);
      expect(textsOf(await fresh.getState(base))).toHaveLength(2);
      // The newest is the last one written.
      expect((await fresh.getState(thread("t"))).config).toEqual(headB);
    }
    await graph.invoke(say("A2"), headA);
    expect(textsOf(await graph.getState(thread("t"))).slice(2)).toEqual(["A", "reply to <A>", "A2", "reply to <A2>"]);
    const history: StateSnapshot[] = [];
    for await (const each of graph.getStateHistory(thread("t"))) history.push(each);
    expect(history).toHaveLength(12);
    const ids = history.map(({ config }) => config.configurable?.["checkpoint_id"] as string);
    expect(ids).toEqual([...ids].sort().reverse());
  });

  test("a copy of a checkpoint and an update of an old one keep the values of the original", async () => {
    const graph = chat(await saver());
    await graph.invoke(say("hello"), thread("t"));
    await graph.invoke(say("again"), thread("t"));
    const history: StateSnapshot[] = [];
    for await (const each of graph.getStateHistory(thread("t"))) history.push(each);
    const middle = history[2] as StateSnapshot;
    const copy = await graph.updateState(middle.config, null, "__copy__");
    expect((await graph.getState(copy)).values).toEqual(middle.values);
    const updated = await graph.updateState(middle.config, say("instead"), "agent");
    expect(textsOf(await graph.getState(updated))).toEqual([...textsOf(middle), "instead"]);
    expect(textsOf(await graph.getState(thread("t")))).toEqual([...textsOf(middle), "instead"]);
  });

  test("an interrupted graph waits, and resumes in another process with the answer", async () => {
    const State = Annotation.Root({ amount: Annotation<number>, approved: Annotation<string> });
    let asked = 0;
    const build = (checkpointer: SavepointSaver) =>
      new StateGraph(State)
        .addNode("approve", ({ amount }) => {
          asked++;
          return { approved: interrupt<{ amount: number }, string>({ amount }) };
        })
        .addEdge(START, "approve")
        .addEdge("approve", END)
        .compile({ checkpointer });
    await build(await saver()).invoke({ amount: 5 }, thread("t"));
    const graph = build(await saver());
    const waiting = await graph.getState(thread("t"));
    expect(waiting.next).toEqual(["approve"]);
    expect(waiting.tasks[0]?.interrupts[0]?.value).toEqual({ amount: 5 });
    const done = await graph.invoke(new Command({ resume: "yes" }), thread("t"));
    expect(done).toEqual({ amount: 5, approved: "yes" });
    expect(asked).toBe(2);
    expect((await graph.getState(thread("t"))).next).toEqual([]);
  });

  test("subgraphs have their own namespaces, even while they are interrupted", async () => {
    const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
    const build = (checkpointer: SavepointSaver) => {
      const inner = new StateGraph(State)
        .addNode("ask", () => ({ log: [`inner ${interrupt<string, string>("go on?")}`] }))
        .addEdge(START, "ask")
        .addEdge("ask", END)
        .compile();
      return new StateGraph(State)
        .addNode("before", () => ({ log: ["before"] }))
        .addNode("inner", inner)
        .addEdge(START, "before")
        .addEdge("before", "inner")
        .addEdge("inner", END)
        .compile({ checkpointer });
    };
    const first = await saver();
    await build(first).invoke({ log: ["start"] }, thread("t"));
    const namespaces = new Set<string>();
    for await (const { config } of first.list(thread("t"))) {
      namespaces.add(config.configurable?.["checkpoint_ns"] as string);
    }
    expect([...namespaces].sort()).toEqual(["", expect.stringMatching(/^inner:/)]);
    const second = await saver();
    const graph = build(second);
    const state = await graph.getState(thread("t"), { subgraphs: true });
    expect(state.tasks.map((task) => (task.state as StateSnapshot).next)).toEqual([["ask"]]);
    const done = await graph.invoke(new Command({ resume: "yes" }), thread("t"));
    expect(done.log).toEqual(["start", "before", "start", "before", "inner yes"]);
    const roots = [];
    for await (const { config } of second.list(thread("t", { checkpoint_ns: "" }))) roots.push(config);
    expect(roots.every(({ configurable }) => configurable?.["checkpoint_ns"] === "")).toBe(true);
    // Each namespace is a branch of the thread's session.
    const branches = await (await store.open()).session("t").branches().all();
    expect(branches.map(({ name }) => name.split(":")[0] ?? "").sort()).toEqual(["/inner", "main"]);
  });

  test.each(["sync", "async", "exit"] as const)(
    "nested and parallel graphs give the same checkpoints as in memory, with durability %s",
    async (durability) => {
      const State = Annotation.Root({
        log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
      });
      const build = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(State)
          .addNode("fan", () => ({ log: ["fan"] }))
          .addNode("each", (sent: unknown) => ({ log: [`each ${String((sent as { n: number }).n)}`] }))
          .addNode(
            "inner",
            new StateGraph(State)
              .addNode("deep", () => ({ log: ["deep"] }))
              .addEdge(START, "deep")
              .compile({ checkpointer: true }),
          )
          .addEdge(START, "fan")
          .addConditionalEdges("fan", () => [1, 2, 3].map((n) => new Send("each", { n })))
          .addEdge("each", "inner")
          .addEdge("inner", END)
          .compile({ checkpointer });
      const [ours, theirs] = [await saver(), new MemorySaver()];
      for (const checkpointer of [ours, theirs]) {
        const graph = build(checkpointer);
        for (let turn = 0; turn < 3; turn++) {
          await graph.invoke({ log: [`turn ${turn}`] }, { ...thread("t"), durability });
        }
      }
      const expected = await build(theirs).getState(thread("t"), { subgraphs: true });
      const found = await build(await saver()).getState(thread("t"), { subgraphs: true });
      expect(found.values).toEqual(expected.values);
      expect(found.metadata).toEqual({ ...expected.metadata, parents: {} });
      expect(await summary(ours)).toEqual(await summary(theirs));
      for (const checkpointer of [ours, theirs]) {
        await checkpointer.deleteThread("t");
        await build(checkpointer).invoke({ log: ["again"] }, { ...thread("t"), durability });
      }
      expect(await summary(ours)).toEqual(await summary(theirs));
    },
  );

  test.each(["async", "exit"] as const)(
    "delta channels are reassembled, and pruning keeps the changes they need, with durability %s",
    async (durability) => {
      const build = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
          .addNode("agent", ({ messages }) => ({ messages: [new AIMessage(`reply ${messages.length}`)] }))
          .addEdge(START, "agent")
          .addEdge("agent", END)
          .compile({ checkpointer });
      const graph = build(await saver());
      for (let turn = 0; turn < 5; turn++) await graph.invoke(say(`turn ${turn}`), { ...thread("t"), durability });
      const second = await saver();
      const fresh = build(second);
      const state = await fresh.getState(thread("t"));
      expect(textsOf(state)).toHaveLength(10);
      expect(textsOf(state).slice(-2)).toEqual(["turn 4", "reply 9"]);
      expect((await second.prune({ threadId: "t", keepLast: 1 })).removed).toBe(0);
      // At the end, LangGraph writes all changes to the checkpoint where the execution began, those of all branches together.
      if (durability === "exit") return;
      const base = state.config;
      for (const text of ["A", "B"]) await fresh.invoke(say(text), { ...base, durability });
      expect(textsOf(await build(await saver()).getState(thread("t"))).slice(-2)).toEqual(["B", "reply 11"]);
    },
  );

  test("after a process is killed inside a node, the thread resumes without repeating completed work", async () => {
    const folder = await makeFolder();
    const log = join(folder, "log");
    const program = fileURLToPath(new URL("./killed-graph.mjs", import.meta.url));
    const run = async (kill: string): Promise<NodeJS.Signals | null> => {
      const child = spawn(process.execPath, [program, store.url, log, kill], {
        stdio: ["ignore", "inherit", "inherit"],
      });
      const [, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
      return signal;
    };
    expect(await run("slow")).toBe("SIGKILL");
    expect(await run("last")).toBe("SIGKILL");
    expect(await run("never")).toBeNull();
    const lines = readFileSync(log, "utf8").trim().split("\n");
    // The node beside the killed one had finished, and its write was pending; the killed ones were started again.
    expect(lines.filter((line) => line === "begin first")).toHaveLength(1);
    expect(lines.filter((line) => line === "begin quick")).toHaveLength(1);
    expect(lines.filter((line) => line === "begin slow")).toHaveLength(2);
    expect(lines.filter((line) => line === "begin last")).toHaveLength(2);
    expect(lines.at(-1)).toBe('done ["start","first","quick","slow","last"]');
    await removeFolder(folder);
  });

  test("binary pending writes are restored byte for byte", async () => {
    const bytes = new Uint8Array(3000).map((_, index) => (index * 7) % 256);
    const State = Annotation.Root({ image: Annotation<Uint8Array>, other: Annotation<string> });
    let fail = true;
    const build = (checkpointer: SavepointSaver) =>
      new StateGraph(State)
        .addNode("draw", () => ({ image: bytes }))
        .addNode("fails", () => {
          if (fail) throw new Error("not yet");
          return { other: "done" };
        })
        .addEdge(START, "draw")
        .addEdge(START, "fails")
        .compile({ checkpointer });
    await expect(build(await saver()).invoke({ other: "" }, thread("t"))).rejects.toThrow("not yet");
    const second = await saver();
    const pending = (await second.getTuple(thread("t")))?.pendingWrites ?? [];
    expect(pending.find(([, channel]) => channel === "image")?.[2]).toEqual(bytes);
    fail = false;
    const done = await build(second).invoke(null, thread("t"));
    expect(done).toEqual({ image: bytes, other: "done" });
  });
});
