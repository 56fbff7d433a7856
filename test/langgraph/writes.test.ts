/** Pending writes: how they are stored together with the checkpoint that follows them, and what else can follow. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type CheckpointTuple, emptyCheckpoint, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { isSavepointError, Savepoint } from "../../src/index.js";
import type { Commit, Store } from "../../src/store.js";
import { openMemoryStore } from "../../src/store/memory/store.js";

const metadata = { source: "loop", step: 0, parents: {} } as const;
const start: RunnableConfig = { configurable: { thread_id: "t", checkpoint_ns: "" } };
const LONG = "text ".repeat(200);

let store: Store;
let commits: Commit[];
let sp: Savepoint;
beforeEach(async () => {
  commits = [];
  store = openMemoryStore();
  const commit = store.commit.bind(store);
  store.commit = (each) => {
    commits.push(each);
    return commit(each);
  };
  sp = await Savepoint.open(store);
});
afterEach(async () => {
  expect((await sp.verify({ deep: true })).problems).toEqual([]);
  await sp.close();
});

/** Puts a checkpoint with these messages. */
function put(saver: SavepointSaver, at: RunnableConfig, messages: readonly unknown[]): Promise<RunnableConfig> {
  const versions = { messages: messages.length };
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(1), channel_values: { messages }, channel_versions: versions };
  return saver.put(at, checkpoint, metadata, versions);
}

const message = (id: string, content = LONG): AIMessage => new AIMessage({ id, content: `${id} ${content}` });

async function tuples(saver: SavepointSaver | MemorySaver): Promise<CheckpointTuple[]> {
  const found: CheckpointTuple[] = [];
  for await (const tuple of saver.list({ configurable: { thread_id: "t" } })) found.push(tuple);
  return found;
}

/** How often a string is in the items of all commits. */
function timesStored(text: string): number {
  const items = commits.flatMap(({ items: batches = [] }) =>
    batches.flatMap((batch) => ("first" in batch ? batch.items : [])),
  );
  return items.filter(({ json }) => json.includes(text)).length;
}

function firstContent(messages: unknown): unknown {
  return (messages as BaseMessage[] | undefined)?.[0]?.content;
}

const fresh = (): SavepointSaver => new SavepointSaver(sp);

describe("pending writes", () => {
  test("the writes of a step and the checkpoint that follows are one commit", async () => {
    const saver = fresh();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("agent", ({ messages }) => ({ messages: [message(`m${messages.length}`)] }))
      .addEdge(START, "agent")
      .addConditionalEdges("agent", ({ messages }) => (messages.length > 10 ? END : "agent"))
      .compile({ checkpointer: saver });
    await graph.invoke({ messages: [new HumanMessage("begin")] }, start);
    // The input, what it leads to, and ten steps. Starting the session takes a few commits more.
    expect(commits.length).toBeLessThanOrEqual(16);
    for (let step = 1; step <= 10; step++) expect(timesStored(`m${step} ${LONG}`)).toBe(1);
    const all = await tuples(fresh());
    for (const [index, { pendingWrites = [] }] of all.slice(1, 11).entries()) {
      const written = pendingWrites.find(([, channel]) => channel === "messages")?.[2] as BaseMessage[];
      expect(written[0]).toBeInstanceOf(AIMessage);
      expect(written[0]?.content).toBe(`m${10 - index} ${LONG}`);
    }
  });

  test("equal writes of hundreds of tasks can be read after the checkpoint that follows them", async () => {
    const saver = fresh();
    const first = await put(saver, start, []);
    const result = Array.from({ length: 100 }, (_, at) => `${at} `.padEnd(160, "part of a result "));
    const tasks = Array.from({ length: 400 }, (_, task) =>
      saver.putWrites(first, [["results", structuredClone(result)]], `task ${task}`),
    );
    const versions = { results: 1 };
    const channels = { channel_values: { results: [result, structuredClone(result)] }, channel_versions: versions };
    await Promise.all([
      ...tasks,
      saver.put(first, { ...emptyCheckpoint(), id: uuid6(2), ...channels }, metadata, versions),
    ]);
    const before = await fresh().getTuple(first);
    const values = before?.pendingWrites?.map(([, , value]) => value) ?? [];
    expect(values.length).toBe(400);
    expect(values.every((value) => JSON.stringify(value) === JSON.stringify(result))).toBe(true);
  });

  test("tuples equal those of LangGraph's own saver, with parallel tasks and all durabilities", async () => {
    const State = Annotation.Root({
      ...MessagesAnnotation.spec,
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
      blob: Annotation<string>(),
    });
    for (const durability of ["async", "sync", "exit"] as const) {
      const results: unknown[] = [];
      for (const saver of [fresh(), new MemorySaver()]) {
        const thread = { configurable: { thread_id: `t-${durability}` }, durability };
        const node =
          (name: string, turns: number) =>
          async ({ messages }: typeof State.State) => {
            for (let turn = 0; turn < turns; turn++) await nextTurn();
            return {
              messages: [message(`${name}${messages.length}`, name === "c" ? LONG.repeat(20) : LONG)],
              count: 1,
              ...(name === "a" && { blob: LONG }),
            };
          };
        const graph = new StateGraph(State)
          .addNode("a", node("a", 0))
          .addNode("b", node("b", 20))
          .addNode("c", node("c", 3))
          .addEdge(START, "a")
          .addEdge(START, "b")
          .addEdge("a", "c")
          .addEdge("b", "c")
          .addConditionalEdges("c", ({ messages }) => (messages.length > 15 ? END : "a"))
          .compile({ checkpointer: saver });
        await graph.invoke({ messages: [new HumanMessage({ content: "begin", id: "h" })] }, thread);
        const history: unknown[] = [];
        for await (const { values, next, tasks } of graph.getStateHistory(thread)) {
          history.push({
            values,
            next,
            tasks: tasks.map(({ name, result }) => [name, result] as const).sort(([a], [b]) => (a < b ? -1 : 1)),
          });
        }
        results.push(JSON.parse(JSON.stringify(history)));
      }
      expect(results[0]).toEqual(results[1]);
    }
  });

  test("a long message is stored once", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    const long = message("b", LONG.repeat(50));
    const written = saver.putWrites(first, [["messages", [long]]], "task");
    const second = await put(saver, first, [message("a"), long]);
    await written;
    const bytes = commits
      .slice(-1)
      .flatMap(({ items: batches = [] }) => batches.flatMap((batch) => ("first" in batch ? batch.items : [])));
    expect(bytes.reduce((sum, { json }) => sum + json.length, 0)).toBeLessThan(LONG.length * 51);
    expect((await fresh().getTuple(first))?.pendingWrites).toEqual([["task", "messages", [long]]]);
    expect((await fresh().getTuple(second))?.checkpoint.channel_values["messages"]).toHaveLength(2);
  });

  test("checkpoints that are listed together share no objects", async () => {
    const saver = fresh();
    let at = await put(saver, start, [message("a")]);
    for (let step = 0; step < 3; step++)
      at = await put(saver, at, [message("a"), { deep: [{ step }] }, { same: [{}] }]);
    const list = async (): Promise<unknown[][]> =>
      (await tuples(fresh())).map(({ checkpoint }) => checkpoint.channel_values["messages"] as unknown[]);
    const expected = await list();
    const changed = await list();
    for (const messages of changed) {
      (messages[0] as AIMessage).additional_kwargs["added"] = true;
      (messages[2] as { same: unknown[] } | undefined)?.same.push(1);
    }
    for (const messages of changed.slice(0, 3)) expect(messages[2]).toEqual({ same: [{}, 1] });
    expect(await list()).toEqual(expected);
  });

  test("writes that no checkpoint follows are stored on their own", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    await saver.putWrites(first, [["messages", [message("b")]]], "task");
    expect((await fresh().getTuple(first))?.pendingWrites).toHaveLength(1);
  });

  test("writes may be passed before their checkpoint", async () => {
    const saver = fresh();
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(1) };
    const at = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: checkpoint.id } };
    const [written] = await Promise.allSettled([
      saver.putWrites(at, [["messages", "early"]], "task"),
      saver.put(start, checkpoint, metadata, {}),
    ]);
    expect(written.status).toBe("fulfilled");
    expect((await fresh().getTuple(at))?.pendingWrites).toEqual([["task", "messages", "early"]]);
    const missing = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "missing" } };
    await expect(saver.putWrites(missing, [["a", 1]], "task")).rejects.toSatisfy((error) =>
      isSavepointError(error, "CHECKPOINT_NOT_FOUND"),
    );
  });

  test("writes that arrive while the checkpoint that took earlier ones is being put are stored", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    const commit = store.commit.bind(store);
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    store.commit = async (each) => {
      await released;
      return commit(each);
    };
    const taken = saver.putWrites(first, [["messages", [message("b")]]], "task");
    const second = put(saver, first, [message("a"), message("b")]);
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    const later = saver.putWrites(first, [["messages", [message("c")]]], "later");
    await nextTurn();
    release();
    await Promise.all([taken, second, later]);
    expect((await fresh().getTuple(first))?.pendingWrites?.map(([task]) => task)).toEqual(["later", "task"]);
  });

  test("later writes of a task that has written before are merged, and the checkpoint that follows is saved", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    await saver.putWrites(first, [["messages", ["kept"]]], "task");
    const written = saver.putWrites(
      first,
      [
        ["messages", ["dropped"]],
        ["other", LONG],
      ],
      "task",
    );
    const other = saver.putWrites(first, [["messages", [message("b")]]], "other");
    const second = await put(saver, first, [message("a"), message("b")]);
    await Promise.all([written, other]);
    const { pendingWrites = [] } = (await fresh().getTuple(first)) ?? {};
    expect(pendingWrites.map(([task, channel]) => [task, channel])).toEqual([
      ["other", "messages"],
      ["task", "messages"],
      ["task", "other"],
    ]);
    expect(pendingWrites[1]?.[2]).toEqual(["kept"]);
    expect((await fresh().getTuple(second))?.checkpoint.channel_values["messages"]).toHaveLength(2);
  });

  test("writes are stored even if the checkpoint that follows is rejected", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    const written = saver.putWrites(first, [["messages", [message("b")]]], "task");
    await expect(put(saver, first, [message("a"), new Proxy({}, { ownKeys: () => ["x", "x"] })])).rejects.toThrow();
    const refused = put(
      saver,
      first,
      Array.from({ length: 2 }, () => 10n ** 200_000n),
    );
    await expect(refused).rejects.toSatisfy((error) => isSavepointError(error, "INVALID_STATE"));
    await written;
    expect((await fresh().getTuple(first))?.pendingWrites).toHaveLength(1);
  });

  test("writes to a checkpoint of which another process has saved a child are stored", async () => {
    const [mine, other] = [fresh(), new SavepointSaver(await Savepoint.open(store))];
    const first = await put(mine, start, [message("a")]);
    await other.getTuple(first);
    await put(other, first, [message("a"), message("x")]);
    const written = mine.putWrites(first, [["messages", [message("b")]]], "task");
    const second = await put(mine, first, [message("a"), message("b")]);
    await written;
    expect((await fresh().getTuple(first))?.pendingWrites).toHaveLength(1);
    expect((await fresh().getTuple(second))?.parentConfig).toEqual(first);
  });

  test("writes of several steps that refer to no message of the state are numbered one after another", async () => {
    const saver = fresh();
    let at = await put(saver, start, [message("a")]);
    const expected: string[] = [];
    for (let step = 0; step < 5; step++) {
      const own = `${step} ${LONG}`;
      const written = saver.putWrites(at, [["messages", [own, own, own]]], "task");
      const next = await put(saver, at, [message("a"), step]);
      await written;
      await saver.putWrites(at, [["messages", [`later ${own}`, own]]], "later");
      expected.unshift(own);
      at = next;
    }
    const all = await tuples(fresh());
    const written = all.slice(1).map(({ pendingWrites }) => pendingWrites?.[1]?.[2] as unknown);
    expect(written).toEqual(expected.map((own) => [own, own, own]));
  });

  test("a message that only pending writes still refer to is kept by garbage collection", async () => {
    const saver = fresh();
    const first = await put(saver, start, [message("a")]);
    await sp.session("t").pin({ seq: 0 });
    const written = saver.putWrites(first, [["messages", [message("b")]]], "task");
    const second = await put(saver, first, [message("a"), message("b")]);
    await written;
    expect(timesStored(`b ${LONG}`)).toBe(1);
    const third = await put(saver, second, [message("c")]);
    await put(saver, third, [message("d")]);
    await saver.prune({ threadId: "t", keepLast: 1 });
    await sp.compact();
    expect(await saver.getTuple(second)).toBeUndefined();
    const [write] = (await fresh().getTuple(first))?.pendingWrites ?? [];
    expect(firstContent(write?.[2])).toBe(`b ${LONG}`);
    // The bundle of such a thread is complete.
    const copy = await Savepoint.open("memory:");
    await copy.import(sp.export({ session: "t" }));
    const read = await new SavepointSaver(copy).getTuple(first);
    expect(firstContent(read?.pendingWrites?.[0]?.[2])).toBe(`b ${LONG}`);
    await copy.close();
  });

  test("messages that were changed since the last step are saved with their changes", async () => {
    const saver = fresh();
    const messages = [message("a"), message("b")];
    let at = await put(saver, start, messages);
    const expected = [messages.map(({ content }) => content)];
    for (let step = 0; step < 4; step++) {
      const changed = messages[step % 2] as AIMessage;
      changed.content = `changed ${step}`;
      at = await put(saver, at, [...messages, message(`new${step}`)]);
      expected.unshift([...messages.map(({ content }) => content), `new${step} ${LONG}`]);
    }
    const all = await tuples(fresh());
    const contents = all.map(({ checkpoint }) =>
      (checkpoint.channel_values["messages"] as BaseMessage[]).map(({ content }) => content),
    );
    expect(contents).toEqual(expected);
  });
});
