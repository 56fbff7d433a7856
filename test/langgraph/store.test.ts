// SavepointStore: what it promises beyond the answers of LangGraph's InMemoryStore, which store-random.test.ts compares.
import { SyntheticEmbeddings } from "@langchain/core/utils/testing";
import { type IndexConfig, InMemoryStore, InvalidNamespaceError } from "@langchain/langgraph-checkpoint";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { isSavepointError } from "../../src/index.js";
import { SavepointSaver, SavepointStore, type StoreIndexOptions } from "../../src/integrations/langgraph/index.js";
import { tapeName } from "../../src/records/index.js";
import { runs } from "../support/runs.js";
import { until } from "../support/until.mjs";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const ADA = ["users", "ada"];

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  const error = await errorOf(work);
  return isSavepointError(error) ? error.code : undefined;
}

/** A vector of two numbers: how often `a` and `b` occur. */
const countLetters = (text: string): number[] => ["a", "b"].map((letter) => text.split(letter).length - 1);
const embeddings = {
  calls: [] as string[][],
  embedQuery: async (text: string) => countLetters(text),
  async embedDocuments(texts: string[]) {
    this.calls.push(texts);
    return texts.map(countLetters);
  },
};
const index: StoreIndexOptions = { dims: 2, embeddings, fields: ["text", "chapters[*].text"] };

describe.each(DURABLE_STORES)("a LangGraph memory on $name", (kind) => {
  const lab = useStore(kind);

  it("keeps every item when two processes put, delete and read at the same time", async () => {
    const stores = [new SavepointStore(await lab.open()), new SavepointStore(await lab.open())] as const;
    const work = Array.from({ length: 60 }, async (_, n) => {
      const store = stores[n % 2] as SavepointStore;
      await store.put(n % 3 === 0 ? ADA : ["users", "bob"], `k${n}`, { n });
      if (n % 5 === 0) await store.delete(ADA, `k${n}`);
      if (n % 7 === 0) await store.search(["users"], { limit: 100 });
    });
    await Promise.all(work);
    const found = await new SavepointStore(await lab.open()).search(["users"], { limit: 100 });
    const expected = Array.from({ length: 60 }, (_, n) => n).filter((n) => n % 3 !== 0 || n % 5 !== 0);
    expect(found.map(({ value }) => value["n"] as number).sort((a, b) => a - b)).toEqual(expected);
  });

  it("writes only the item that is put, whatever the size of its namespace", async () => {
    const sp = await lab.open();
    const store = new SavepointStore(sp);
    const all = Array.from({ length: 3000 }, (_, n) => ({
      namespace: ADA,
      key: `k${n}`,
      value: { n, text: "x".repeat(100) },
    }));
    await store.batch(all);
    const before = await store.session(ADA).history().all();
    expect(before).toHaveLength(1); // a batch is one commit
    for (let n = 0; n < 5; n++) await store.put(ADA, `k${n * 500}`, { n, text: "y".repeat(100) });
    await store.delete(ADA, "k7");
    const [...changes] = (await store.session(ADA).history().all()).slice(0, 6);
    expect(Math.max(...changes.map(({ storedBytes }) => storedBytes))).toBeLessThan(1000);
    // Another process reads it, and writes its own change.
    const other = new SavepointStore(await lab.open());
    expect(await other.search(ADA, { filter: { n: 2999 } })).toHaveLength(1);
    await other.put(ADA, "k1", { n: -1 });
    expect((await store.get(ADA, "k1"))?.value).toEqual({ n: -1 });
  });

  it("keeps the order of the calls, and saves puts that wait in one checkpoint", async () => {
    const store = new SavepointStore(await lab.open());
    await Promise.all(Array.from({ length: 50 }, (_, n) => store.put(ADA, "counter", { n })));
    expect((await store.get(ADA, "counter"))?.value).toEqual({ n: 49 });
    expect((await store.session(ADA).history().all()).length).toBeLessThan(10);
  });

  it("expires items, and extends the lifetime of those that are read", async () => {
    let time = 1_000_000;
    const now = (): number => time;
    const store = new SavepointStore(await lab.open(), { ttl: "1h", now });
    const [minute, hour] = [60_000, 3_600_000];
    await store.put(ADA, "read", { a: 1 });
    await store.put(ADA, "found", { a: 2 });
    await store.put(ADA, "unread", { a: 3 });
    await store.put(ADA, "short", { a: 4 }, undefined, { ttl: "10m" });
    await store.put(["orgs"], "plan", { tier: "gold" });
    time += 50 * minute;
    expect(await store.get(ADA, "short")).toBeNull();
    expect(await store.get(ADA, "read")).toMatchObject({ value: { a: 1 }, updatedAt: new Date(1_000_000) });
    expect(await store.search(ADA, { filter: { a: 2 } })).toHaveLength(1);
    expect(await store.get(ADA, "unread", { refreshTtl: false })).not.toBeNull();
    const other = new SavepointStore(await lab.open(), { now, refreshTtl: false });
    const checkpoints = (await store.session(ADA).history().all()).length;
    time += 2 * minute; // less than a tenth of the lifetime: a read writes nothing
    expect(await store.get(ADA, "read")).not.toBeNull();
    expect(await store.session(ADA).history().all()).toHaveLength(checkpoints);
    time += 8 * minute;
    for (const reader of [store, other]) {
      const keys = (await reader.search([], { refreshTtl: false })).map(({ key }) => key);
      expect(keys).toEqual(["read", "found"]);
      expect(await reader.listNamespaces()).toEqual([ADA]);
    }
    // The write removes what has expired in its namespace, deleteExpired() the rest.
    await store.put(ADA, "new", { a: 5 });
    const latest = await store.session(ADA).latest();
    expect(latest?.state.pages.flat().map(({ key }) => key)).toEqual(["read", "found", "new"]);
    expect(await other.deleteExpired()).toBe(1);
    expect(await other.deleteExpired()).toBe(0);
    time += 2 * hour;
    expect(await other.deleteExpired()).toBe(3);
    expect(await store.search([])).toEqual([]);
    expect(await store.listNamespaces()).toEqual([]);
  });

  it("has semantic search, with several vectors per item, also in a process that never embedded the items", async () => {
    const writer = new SavepointStore(await lab.open(), { index });
    embeddings.calls = [];
    await writer.batch([
      { namespace: ["docs"], key: "both", value: { text: "aaab", chapters: [{ text: "bbb" }, { text: "aab" }] } },
      { namespace: ["docs"], key: "a", value: { text: "aaa" } },
      { namespace: ["docs"], key: "none", value: { text: "aaa" }, index: false },
      { namespace: ["docs"], key: "title", value: { title: "bbb" }, index: ["title"] },
    ]);
    expect(embeddings.calls).toEqual([["aaab", "bbb", "aab", "aaa"]]); // one call, without the repeated texts
    const reader = new SavepointStore(await lab.open({ readOnly: true }), { index });
    const found = await reader.search(["docs"], { query: "b" });
    expect(found.map(({ key, score }) => [key, score])).toEqual([
      ["both", 1],
      ["title", 1],
      ["a", 0],
      ["none", undefined],
    ]);
    expect((await reader.search(["docs"], { query: "b", limit: 2, offset: 2 })).map(({ key }) => key)).toEqual([
      "a",
      "none",
    ]);
    // A vector is replaced and deleted with its item.
    await writer.put(["docs"], "both", { text: "aaa" });
    expect((await writer.search(["docs"], { query: "b", limit: 1 }))[0]?.key).toBe("title");
    // Vectors of a model with other dimensions are not compared.
    const other = {
      embedQuery: async () => [1, 2, 3],
      embedDocuments: async (texts: string[]) => texts.map(() => [1, 2, 3]),
    };
    const mixed = new SavepointStore(await lab.open(), { index: { ...index, dims: 3, embeddings: other } });
    await mixed.put(["docs"], "new", { text: "?" });
    const [first, ...others] = await mixed.search(["docs"], { query: "?" });
    expect([first?.key, others.every(({ score }) => score === undefined)]).toEqual(["new", true]);
  });

  it("is found by the search of the store, has a history, and is rewound", async () => {
    const sp = await lab.open();
    const store = new SavepointStore(sp);
    await store.put(ADA, "food", { likes: "dried figs" });
    await store.put(ADA, "travel", { likes: "night trains" });
    expect(await sp.search("dried figs", { agent: "memory" })).toMatchObject([
      { source: "session", id: "memory/users/ada", path: "/pages/0/0", messageId: "food", role: undefined },
    ]);
    expect(await sp.search("dried figs", { role: "user" })).toEqual([]);
    await store.delete(ADA, "food");
    expect(await sp.search("dried figs")).toEqual([]);
    await store.session(ADA).rewind({ seq: 1 });
    expect((await store.get(ADA, "food"))?.value).toEqual({ likes: "dried figs" });
    await store.put(ADA, "food", { likes: "rice" });
    expect(await store.search(["users"])).toHaveLength(2);
    // Erasing a user's memory is erasing one session.
    await sp.erase({ session: store.session(ADA).id });
    expect(await store.search([])).toEqual([]);
    await store.put(ADA, "food", { likes: "figs again" });
    expect(await new SavepointStore(await lab.open()).get(ADA, "food")).toMatchObject({
      value: { likes: "figs again" },
    });
  });

  it("continues from the newest intact checkpoint, and fails with DAMAGED if there is none", async () => {
    const store = new SavepointStore(await lab.open());
    const long = (text: string): object => ({ text: text.repeat(1000) });
    await store.put(ADA, "a", long("a"));
    await store.put(ADA, "b", long("b"));
    await store.put(["orgs"], "a", long("a"));
    await lab.damage({ kind: "item", tape: tapeName(0, 0), item: 1 }, "flip");
    const other = new SavepointStore(await lab.open());
    expect((await other.search(ADA)).map(({ key }) => key)).toEqual(["a"]);
    expect(lab.damages.length).toBeGreaterThan(0);
    await other.put(ADA, "c", { n: 1 });
    expect((await other.search(ADA)).map(({ key }) => key)).toEqual(["a", "c"]);
    await lab.damage({ kind: "item", tape: tapeName(1, 0), item: 0 }, "flip");
    const late = new SavepointStore(await lab.open());
    expect(await codeOf(late.get(["orgs"], "a"))).toBe("DAMAGED");
    expect(await codeOf(late.put(["orgs"], "d", { n: 1 }))).toBe("DAMAGED");
    expect(await codeOf(late.search([]))).toBe("DAMAGED");
    expect(await late.search(["users"])).toHaveLength(2);
  });

  it("loses no acknowledged put when its process is killed", async () => {
    const program = fileURLToPath(new URL("./store-writer.mjs", import.meta.url));
    for (let round = 0; round < runs(5, 1); round++) {
      const children = ["x", "y"].map((name) => {
        const child = spawn(process.execPath, [program, lab.url, `${name}${round}`], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        let output = "";
        child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
        return { child, acknowledged: () => output.split("\n").slice(0, -1) };
      });
      onTestFinished(() => children.forEach(({ child }) => child.kill("SIGKILL")));
      for (const { child, acknowledged } of children) {
        const few = Math.random() * 15;
        await until(() => acknowledged().length > few, "some puts");
        child.kill("SIGKILL");
      }
      for (const { child } of children) if (child.signalCode === null) await once(child, "close");
      const sp = await lab.open();
      const store = new SavepointStore(sp);
      for (const line of children.flatMap(({ acknowledged }) => acknowledged())) {
        const { namespace, key, n } = JSON.parse(line) as { namespace: string[]; key: string; n: number };
        expect((await store.get(namespace, key))?.value["n"], line).toBe(n);
      }
      await sp.close();
    }
  });
});

describe("SavepointStore", () => {
  const lab = useStore(DURABLE_STORES[0] as (typeof DURABLE_STORES)[0]);

  it("is the store of a graph, beside the checkpointer", async () => {
    const sp = await lab.open();
    const State = Annotation.Root({ reply: Annotation<string> });
    const graph = new StateGraph(State)
      .addNode("remember", async (_state, config) => {
        const seen = await config.store?.get(ADA, "visits");
        const visits = ((seen?.value["count"] as number | undefined) ?? 0) + 1;
        await config.store?.put(ADA, "visits", { count: visits });
        return { reply: `visit ${visits}` };
      })
      .addEdge(START, "remember")
      .addEdge("remember", END)
      .compile({ checkpointer: new SavepointSaver(sp), store: new SavepointStore(sp) });
    const replies: string[] = [];
    for (const thread_id of ["t1", "t2"]) {
      replies.push((await graph.invoke({ reply: "" }, { configurable: { thread_id } })).reply);
    }
    expect(replies).toEqual(["visit 1", "visit 2"]);
    // A memory is no thread.
    expect((await new SavepointSaver(sp).listThreads().all()).map(({ threadId }) => threadId).sort()).toEqual([
      "t1",
      "t2",
    ]);
  });

  it("rejects invalid namespaces, keys, values and options like LangGraph, or with what to pass", async () => {
    const sp = await lab.open();
    const [ours, theirs] = [new SavepointStore(sp), new InMemoryStore()];
    for (const invalid of [[], ["a.b"], [""], ["langgraph"], ["a", 1 as never]]) {
      for (const store of [ours, theirs])
        expect(await errorOf(store.put(invalid, "k", {}))).toBeInstanceOf(InvalidNamespaceError);
      expect(await ours.get(invalid, "k")).toBeNull();
    }
    for (const value of ["text", 1, undefined, [1], new Date(), new Map()])
      expect(await codeOf(ours.put(ADA, "k", value as never))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(ours.put(ADA, 1 as never, {}))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(ours.put(ADA, "k", {}, "text" as never))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(ours.put(ADA, "k", {}, undefined, { ttl: "soon" as never }))).toBe("INVALID_ARGUMENT");
    for (const options of [{ limit: -1 }, { offset: 0.5 }])
      expect(await codeOf(ours.search([], options))).toBe("INVALID_ARGUMENT");
    expect(
      await codeOf(ours.batch([{ matchConditions: [{ matchType: "infix", path: [] }], limit: 1, offset: 0 } as never])),
    ).toBe("INVALID_ARGUMENT");
    expect(() => new SavepointStore({} as never)).toThrow(/open Savepoint/);
    const config: IndexConfig = { dims: 4, embeddings: new SyntheticEmbeddings({ vectorSize: 4 }) };
    expect(() => new SavepointStore(sp, { index: config })).not.toThrow();
    expect(() => new SavepointStore(sp, { index: { dims: 0, embeddings } })).toThrow(/dims/);
    expect(() => new SavepointStore(sp, { index: { dims: 2, embeddings: {} as never } })).toThrow(/embedQuery/);
    const wrong = { ...index, dims: 3 };
    expect(await codeOf(new SavepointStore(sp, { index: wrong }).put(ADA, "k", { text: "a" }))).toBe(
      "INVALID_ARGUMENT",
    );
    expect(await ours.search([])).toEqual([]);
  });

  it("rejects a namespace that is too long for the id of a session, without an unhandled rejection", async () => {
    const store = new SavepointStore(await lab.open());
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const long = ["x".repeat(2000)];
      expect(await codeOf(store.put(long, "k", {}))).toBe("INVALID_ID");
      expect(await codeOf(store.search(long))).toBe("INVALID_ID");
      expect(await codeOf(store.listNamespaces({ prefix: long }))).toBe("INVALID_ID");
      // Node reports them after all microtasks.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
    }
  });

  it("rejects a value that cannot be stored, and saves the puts that waited with it", async () => {
    const store = new SavepointStore(await lab.open());
    await store.put(ADA, "first", { n: 0 });
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    const branching: Record<string, unknown> = {};
    branching["children"] = [{ parent: branching }, { parent: branching }];
    const results = await Promise.allSettled([
      store.put(ADA, "good", { n: 1 }),
      store.put(ADA, "function", { call: () => 1 }),
      store.put(ADA, "cyclic", cyclic),
      store.put(ADA, "branching", branching),
      store.put(ADA, "better", { n: 2 }),
    ]);
    const rejected = Array.from({ length: 3 }, () => "rejected");
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", ...rejected, "fulfilled"]);
    expect(results[1]).toMatchObject({
      reason: { code: "INVALID_STATE", message: expect.stringContaining("/value/call") as unknown },
    });
    expect((await store.search(ADA)).map(({ key }) => key)).toEqual(["first", "good", "better"]);
  });

  it("stores a copy, returns copies, and preserves what JSON cannot represent", async () => {
    const store = new SavepointStore(await lab.open());
    const value = {
      at: new Date(0),
      bytes: new Uint8Array([1, 2]),
      big: 10n,
      missing: undefined,
      zero: -0,
      list: [{ a: 1 }],
    };
    const saved = store.put(ADA, "k", value);
    value.list[0] = { a: 2 };
    await saved;
    for (let time = 0; time < 2; time++) {
      const item = await store.get(ADA, "k");
      expect(item?.value).toEqual({ ...value, list: [{ a: 1 }] });
      (item?.value["list"] as unknown[] | undefined)?.push("changed");
      item?.namespace.push("changed");
    }
  });

  it("reports what another program has saved in the session of a namespace with DAMAGED", async () => {
    const sp = await lab.open();
    const store = new SavepointStore(sp);
    const { id } = store.session(ADA);
    const item = { key: "k", value: {}, createdAt: 1, updatedAt: 1 };
    const state = { namespace: ADA, createdAt: 1, pages: [] };
    for (const foreign of [
      "text",
      { ...state, namespace: ["users", "bob"] },
      { ...state, pages: [item] },
      { ...state, pages: { 0: [item] } },
      { ...state, pages: [[{ ...item, key: 1 }]] },
      { ...state, pages: [[{ ...item, value: "text" }]] },
      { ...state, pages: [[{ ...item, createdAt: Number.NaN }]] },
      { ...state, pages: [[{ ...item, expiresAt: 5 }]] },
      { ...state, pages: [[{ ...item, vectors: { text: [1, 2] } }]] },
      { ...state, pages: [[item], [item]] },
    ]) {
      await sp.session(id, { agent: "memory" }).save(foreign);
      expect(await codeOf(store.get(ADA, "k"))).toBe("DAMAGED");
      expect(await codeOf(store.search([]))).toBe("DAMAGED");
      expect(await codeOf(store.listNamespaces())).toBe("DAMAGED");
      expect(await codeOf(store.put(ADA, "k", {}))).toBe("DAMAGED");
    }
    // Its state counts, not the metadata of the program.
    const mine = { ...state, pages: [[{ ...item, vectors: { text: "not base64!", nan: "AADAfwAAwH8=" } }]] };
    await sp.session(id, { agent: "memory" }).save(mine, { metadata: { memory: "?" } });
    const semantic = new SavepointStore(sp, { index });
    expect(await semantic.search([], { query: "a" })).toMatchObject([{ key: "k", score: 0 }]);
    expect(await store.listNamespaces()).toEqual([ADA]);
  });

  it("separates the items of different agents, and works in the scope of one agent", async () => {
    const sp = await lab.open();
    const [ada, bob] = ["ada", "bob"].map((agent) => new SavepointStore(sp, { agent })) as [
      SavepointStore,
      SavepointStore,
    ];
    await ada.put(["notes"], "k", { of: "ada" });
    await bob.put(["notes"], "k", { of: "bob" });
    await bob.put(["notes", "deep"], "k", { of: "bob" });
    expect((await ada.search([])).map(({ value }) => value)).toEqual([{ of: "ada" }]);
    const scoped = new SavepointStore(await lab.open({ scope: { agent: "bob" } }), { agent: "bob" });
    expect(await scoped.search(["notes"])).toHaveLength(2);
    await scoped.put(["notes", "more"], "k", { of: "bob" });
    expect(await bob.listNamespaces()).toEqual([["notes"], ["notes", "deep"], ["notes", "more"]]);
    expect(
      await new SavepointStore(await lab.open({ scope: { agent: "bob" } }), { agent: "ada" })
        .search([])
        .catch(() => []),
    ).toEqual([]);
  });
});
