/** What a thread survives (deletion, two writers, damage), and the operations on threads. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Checkpoint, emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import { SavepointSaver, type SavepointSaverOptions } from "../../src/integrations/langgraph/index.js";
import { annotationKey, branchKey, rowKey, tapeName } from "../../src/records/index.js";
import { isSavepointError, type Savepoint } from "../../src/index.js";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const metadata = { source: "loop", step: 0, parents: {} } as const;
const config = (thread_id: string, more: Record<string, unknown> = {}): RunnableConfig => ({
  configurable: { thread_id, ...more },
});

function checkpoint(values: Record<string, unknown> = {}, id = uuid6(1)): Checkpoint {
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, 1]));
  return { ...emptyCheckpoint(), id, channel_values: values, channel_versions: versions };
}

/** Puts a checkpoint with these values. */
async function put(saver: SavepointSaver, at: RunnableConfig, values: Record<string, unknown> = {}, id?: string) {
  const made = checkpoint(values, id);
  return saver.put(at, made, metadata, made.channel_versions);
}

async function code(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (isSavepointError(error)) return error.code;
    throw error;
  }
}

async function ids(saver: SavepointSaver, at: object = {}, options = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const { checkpoint: each } of saver.list(at, options)) found.push(each.id);
  return found;
}

describe.each(DURABLE_STORES)("threads on $name", (kind) => {
  const store = useStore(kind);
  const open = async (options?: SavepointSaverOptions): Promise<SavepointSaver> =>
    new SavepointSaver(await store.open(), options);

  describe("deleting", () => {
    test("after a deletion, late puts and writes of every process are rejected, and the id can be used again", async () => {
      const [mine, other] = [await open(), await open()];
      const first = await put(mine, config("t"), { a: 1 });
      const second = await put(mine, first, { a: 2 });
      await mine.putWrites(second, [["a", 3]], "task");
      await other.deleteThread("t");
      for (const saver of [mine, other, await open()]) {
        expect(await code(put(saver, second, { a: 3 }))).toBe("CHECKPOINT_NOT_FOUND");
        expect(await code(saver.putWrites(second, [["a", 4]], "task"))).toBe("CHECKPOINT_NOT_FOUND");
        expect(await saver.getTuple(config("t"))).toBeUndefined();
      }
      const again = await put(mine, config("t"), { a: "new" });
      expect((await other.getTuple(config("t")))?.checkpoint.channel_values).toEqual({ a: "new" });
      // Late writes to the deleted thread are still rejected; the new thread continues.
      expect(await code(put(mine, second, { a: 3 }))).toBe("CHECKPOINT_NOT_FOUND");
      await put(other, again, { a: "newer" });
      expect(await ids(mine, config("t"))).toHaveLength(2);
    });

    test("a subgraph of a running graph does not recreate its deleted thread", async () => {
      const [mine, other] = [await open(), await open()];
      const root = await put(mine, config("t"), { a: 1 });
      const inner = config("t", { checkpoint_ns: "inner:1" });
      await put(mine, inner, { b: 1 });
      await other.deleteThread("t");
      const parents = { "": (root.configurable as { checkpoint_id: string }).checkpoint_id };
      const late = mine.put(inner, checkpoint({ b: 2 }), { ...metadata, parents }, { b: 1 });
      expect(await code(late)).toBe("SESSION_DELETED");
      expect(await mine.listThreads().all()).toEqual([]);
    });

    test("deleting a thread deletes all its namespaces, and no other threads or sessions of other agents", async () => {
      const sp = await store.open();
      const [saver, others] = [new SavepointSaver(sp), new SavepointSaver(sp, { agent: "another" })];
      await put(saver, config("t"));
      await put(saver, config("t", { checkpoint_ns: "x" }));
      await put(saver, config("u"));
      await put(others, config("v"));
      await sp.session("w").save({ a: 1 });
      for (const id of ["t", "v", "w", "none"]) await saver.deleteThread(id);
      expect(await ids(saver)).toHaveLength(1);
      expect(await ids(others)).toHaveLength(1);
      expect(await saver.getTuple(config("v"))).toBeUndefined();
      expect(await code(put(saver, config("v")))).toBe("AGENT_MISMATCH");
      expect((await sp.session("w").latest())?.state).toEqual({ a: 1 });
    });
  });

  describe("two writers", () => {
    test('two writers from one checkpoint are both kept, unless onConcurrentWrite is "reject"', async () => {
      for (const onConcurrentWrite of ["branch", "reject"] as const) {
        const thread = config(onConcurrentWrite);
        const savers = [await open({ onConcurrentWrite }), await open({ onConcurrentWrite })];
        const base = await put(savers[0] as SavepointSaver, thread, { a: 0 });
        const ends = await Promise.all(savers.map((saver, index) => code(put(saver, base, { a: index + 1 }))));
        const expected = onConcurrentWrite === "branch" ? [] : ["CONFLICT"];
        expect(ends.filter((end) => end !== undefined)).toEqual(expected);
        expect(await ids(savers[0] as SavepointSaver, thread)).toHaveLength(3 - expected.length);
      }
    });

    test('writers in different processes can take turns, even if onConcurrentWrite is "reject"', async () => {
      for (const onConcurrentWrite of ["branch", "reject"] as const) {
        const savers = [await open({ onConcurrentWrite }), await open({ onConcurrentWrite })] as const;
        for (let turn = 0; turn < 6; turn++) {
          const graph = chat(savers[turn % 2 === 0 ? 0 : 1]);
          await graph.invoke({ messages: [new HumanMessage(`turn ${turn}`)] }, config(onConcurrentWrite));
        }
        const state = await chat(savers[0]).getState(config(onConcurrentWrite));
        expect((state.values as { messages: unknown[] }).messages).toHaveLength(12);
        expect(await ids(savers[1], config(onConcurrentWrite))).toHaveLength(18);
        expect(await (await store.open()).session(onConcurrentWrite).branches().all()).toHaveLength(1);
      }
    });

    test("a fork is accepted if the config asks for it", async () => {
      const saver = await open({ onConcurrentWrite: "reject" });
      const base = await put(saver, config("t"), { a: 0 });
      await put(saver, base, { a: 1 });
      expect(await code(put(saver, base, { a: 2 }))).toBe("CONFLICT");
      expect(await code(put(saver, config("t"), { a: 2 }))).toBe("CONFLICT");
      const fork = { configurable: { ...base.configurable, fork: true } };
      const branch = await put(saver, fork, { a: 2 });
      await put(saver, branch, { a: 3 });
      expect((await saver.getTuple(config("t")))?.checkpoint.channel_values).toEqual({ a: 3 });
      const graph = chat(saver);
      await graph.invoke({ messages: [new HumanMessage("one")] }, config("g"));
      const then = (await graph.getState(config("g"))).config;
      await graph.invoke({ messages: [new HumanMessage("two")] }, config("g"));
      await expect(graph.invoke({ messages: [new HumanMessage("three")] }, then)).rejects.toMatchObject({
        code: "CONFLICT",
      });
      const forked = { configurable: { ...then.configurable, fork: true } };
      expect((await graph.invoke({ messages: [new HumanMessage("three")] }, forked)).messages).toHaveLength(4);
    });
  });

  describe("damage", () => {
    test("a damaged newest checkpoint is skipped, and the graph continues from the one before", async () => {
      const saver = await open();
      let at = await put(saver, config("t"), { messages: texts(20) });
      for (let count = 21; count < 24; count++) at = await put(saver, at, { messages: texts(count) });
      await store.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
      for (const onConcurrentWrite of ["reject", "branch"] as const) {
        const fresh = await open({ onConcurrentWrite });
        const tuple = await fresh.getTuple(config("t"));
        expect(tuple?.checkpoint.channel_values["messages"]).toEqual(texts(onConcurrentWrite === "reject" ? 22 : 23));
        await put(fresh, tuple?.config ?? {}, { messages: texts(23) });
      }
      expect(store.damages.length).toBeGreaterThan(0);
      expect(await code((await open()).getTuple(at))).toBe("DAMAGED");
      // The others are still listed.
      expect(await ids(await open(), config("t"))).toHaveLength(5);
    });

    test.each(["flip", "truncate"] as const)(
      "of every record of a thread (%s) is reported as DAMAGED, never as an empty thread",
      async (how) => {
        const saver = await open();
        const at = await put(saver, config("t"), { a: 1 });
        await saver.putWrites(at, [["a", "x".repeat(100)]], "task");
        await store.damage({ kind: "record", key: annotationKey(0, 0, "savepoint:writes/task") }, how);
        expect(await code((await open()).getTuple(config("t")))).toBe("DAMAGED");
        await store.damage({ kind: "record", key: rowKey(0, 0) }, how);
        await store.damage({ kind: "record", key: branchKey("t", "main") }, how);
        const fresh = await open();
        expect(await code(fresh.getTuple(config("t")))).toBe("DAMAGED");
        expect(await code(put(fresh, config("t"), { a: 2 }))).toBe("DAMAGED");
        // It can be deleted and started again.
        await fresh.deleteThread("t");
        await put(fresh, config("t"), { a: 3 });
        expect((await fresh.getTuple(config("t")))?.checkpoint.channel_values).toEqual({ a: 3 });
      },
    );
  });

  describe("putting", () => {
    test("putting a checkpoint again replaces it, and keeps its children and its pending writes", async () => {
      const saver = await open();
      const first = await put(saver, config("t"), { a: 1 }, "id-1");
      await saver.putWrites(first, [["a", 2]], "task");
      const second = await put(saver, first, { a: 2 }, "id-2");
      const changed = { ...checkpoint({ a: 5, b: [1] }, "id-1"), ts: "later" };
      await saver.put(config("t"), changed, { ...metadata, step: 7 }, { a: 2, b: 1 });
      for (const each of [saver, await open()]) {
        const tuple = await each.getTuple(first);
        expect(tuple).toMatchObject({ checkpoint: changed, metadata: { step: 7 }, pendingWrites: [["task", "a", 2]] });
        expect((await each.getTuple(second))?.parentConfig).toEqual(first);
        expect(await ids(each, config("t"))).toEqual(["id-2", "id-1"]);
        expect(await ids(each, config("t"), { filter: { step: 7 } })).toEqual(["id-1"]);
      }
      // The newest, as its own parent, as LangGraph does when an execution ends where it began.
      await saver.put(second, { ...checkpoint({ a: 9 }, "id-2") }, metadata, { a: 3 });
      expect(await saver.getTuple(second)).toMatchObject({
        checkpoint: { channel_values: { a: 9 } },
        parentConfig: first,
      });
    });

    test("only new channel values are read from the checkpoint; the others are inherited from the parent", async () => {
      const saver = await open();
      const first = await put(saver, config("t"), { kept: { deep: 1 }, changed: 1 });
      const next = checkpoint({ kept: { deep: "another" }, changed: 2 });
      next.channel_versions = { kept: 1, changed: 2 };
      for (const each of [saver, await open()]) {
        const id = uuid6(1);
        const at = await each.put(first, { ...next, id }, metadata, { changed: 2 });
        expect((await each.getTuple(at))?.checkpoint.channel_values).toEqual({ kept: { deep: 1 }, changed: 2 });
      }
    });

    test("a late checkpoint is listed by its id and does not become the newest", async () => {
      const saver = await open();
      const at = (id: string | undefined, ns = "") => config("t", { checkpoint_ns: ns, checkpoint_id: id });
      await put(saver, at(undefined), { a: 1 }, "05");
      await put(saver, at("05"), { a: 2 }, "07");
      await put(saver, at("05"), { a: 3 }, "06");
      await put(saver, at(undefined), { a: 4 }, "01");
      await put(saver, at("07"), { a: 5 }, "09");
      await put(saver, at("06"), { a: 6 }, "08");
      for (const each of [saver, await open()]) {
        expect(await ids(each, config("t"))).toEqual(["09", "08", "07", "06", "05", "01"]);
        expect(await ids(each, config("t"), { before: at("08"), limit: 3 })).toEqual(["07", "06", "05"]);
        expect((await each.getTuple(config("t")))?.checkpoint.id).toBe("09");
        expect((await each.getTuple(at("08")))?.parentConfig).toEqual(at("06"));
      }
    });

    test("invalid arguments are rejected with specific error codes", async () => {
      const sp = await store.open();
      const saver = new SavepointSaver(sp);
      const at = await put(saver, config("t"));
      const bad: [() => Promise<unknown>, string][] = [
        [() => put(saver, {}), "INVALID_ARGUMENT"],
        [() => put(saver, config("")), "INVALID_ARGUMENT"],
        [() => put(saver, config("a\u0000b")), "INVALID_ID"],
        [() => put(saver, config("t", { checkpoint_ns: 5 })), "INVALID_ARGUMENT"],
        [() => put(saver, config("t", { checkpoint_id: {} })), "INVALID_ARGUMENT"],
        [() => put(saver, config("t"), {}, ""), "INVALID_ARGUMENT"],
        [() => put(saver, config("t", { checkpoint_id: "none" })), "CHECKPOINT_NOT_FOUND"],
        [() => saver.putWrites(config("t"), [["a", 1]], "task"), "INVALID_ARGUMENT"],
        [() => saver.putWrites(at, [["a", 1]], ""), "INVALID_ARGUMENT"],
        [() => saver.deleteThread(""), "INVALID_ARGUMENT"],
        [() => ids(saver, config("t"), { limit: -1 }), "INVALID_ARGUMENT"],
        [() => saver.copyThread("none", "x"), "SESSION_NOT_FOUND"],
        [() => saver.copyThread("t", "t"), "CONFLICT"],
      ];
      for (const [index, [work, expected]] of bad.entries())
        expect([index, await code(work())]).toEqual([index, expected]);
      expect(() => new SavepointSaver({} as Savepoint)).toThrow("open Savepoint");
      expect(() => new SavepointSaver(sp, { onConcurrentWrite: "x" as "branch" })).toThrow("onConcurrentWrite");
      expect((await put(saver, { configurable: { thread_id: 5 } })).configurable?.["thread_id"]).toBe("5");
    });
  });

  describe("keeping and pruning", () => {
    test("threads are listed, searched, copied and pruned", async () => {
      const sp = await store.open();
      const saver = new SavepointSaver(sp);
      const graph = chat(saver);
      for (const [thread, text] of [
        ["a", "apples and pears"],
        ["b", "nothing"],
      ] as const) {
        for (let turn = 0; turn < 3; turn++) {
          await graph.invoke({ messages: [new HumanMessage(`${text} ${turn}`)] }, config(thread));
        }
      }
      await sp.session("other").save({ messages: [] });
      const threads = await saver.listThreads().all();
      expect(threads.map(({ threadId }) => threadId)).toEqual(["b", "a"]);
      expect(threads[0]?.metadata).toMatchObject({ source: "loop", step: 7 });
      expect(await saver.listThreads({ limit: 1 }).all()).toHaveLength(1);
      expect(await saver.listThreads({ filter: { step: 8 } }).all()).toEqual([]);
      const hits = await saver.searchThreads("PEARS 1");
      expect(hits).toMatchObject([{ threadId: "a", role: "user" }]);
      expect(await saver.copyThread("a", "copy")).toBe(9);
      expect(await ids(saver, config("copy"))).toEqual(await ids(saver, config("a")));
      for (const id of await ids(saver, config("a"))) {
        const [original, copy] = [
          await saver.getTuple(config("a", { checkpoint_id: id })),
          await saver.getTuple(config("copy", { checkpoint_id: id })),
        ];
        expect({ ...copy, config: 0, parentConfig: 0 }).toEqual({ ...original, config: 0, parentConfig: 0 });
      }
      await saver.prune({ threadId: "a", keepLast: 2 });
      expect(await ids(saver, config("a"))).toHaveLength(2);
      expect((await graph.getState(config("a"))).values).toEqual((await graph.getState(config("copy"))).values);
      await saver.prune({ keepLast: 1 });
      expect(await ids(saver)).toHaveLength(3);
      await graph.invoke({ messages: [new HumanMessage("on")] }, config("a"));
      expect((await sp.verify({ deep: true })).ok).toBe(true);
    });

    test("a thread expires after its ttl", async () => {
      let now = 1_000_000;
      const sp = await store.open({ now: () => now });
      const saver = new SavepointSaver(sp, { ttl: "1h", now: () => now });
      const first = await put(saver, config("t"), { a: 1 });
      await put(saver, config("u"), { a: 1 });
      now += 3_000_000;
      await put(saver, first, { a: 2 });
      now += 1_000_000;
      expect((await saver.listThreads().all()).map(({ threadId }) => threadId)).toEqual(["t"]);
      expect(await saver.getTuple(config("u"))).toBeUndefined();
      expect(await ids(saver, config("u"))).toEqual([]);
      expect(await ids(saver)).toHaveLength(2);
      // Its id starts a new thread.
      await put(saver, config("u"), { b: 1 });
      expect((await saver.getTuple(config("u")))?.checkpoint.channel_values).toEqual({ b: 1 });
      now += 3_700_000;
      expect(await saver.deleteExpired()).toBe(2);
      expect((await sp.stats()).sessions).toBe(0);
      await put(saver, config("v"));
      now += 3_700_000;
      await put(saver, config("w"));
      expect((await sp.stats()).sessions).toBe(1);
    });

    test("fromConnString opens the store at a URL when it is first needed", async () => {
      const saver = SavepointSaver.fromConnString(store.url, { durability: "process", onConcurrentWrite: "reject" });
      await saver.setup();
      const at = await put(saver, config("t"), { a: 1 });
      await saver.close();
      expect(await code(put(saver, at, { a: 2 }))).toBe("CLOSED");
      expect(await ids(await open())).toHaveLength(1);
      expect(await code(SavepointSaver.fromConnString("nosuch:x").setup())).toBe("INVALID_URL");
      expect(JSON.stringify(saver)).toBe('"[SavepointSaver]"');
    });
  });
});

function texts(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index} ${"text ".repeat(20)}`);
}

function chat(checkpointer: SavepointSaver) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", ({ messages }) => ({ messages: [new AIMessage(`reply ${messages.length}`)] }))
    .addEdge(START, "agent")
    .addEdge("agent", END)
    .compile({ checkpointer });
}
