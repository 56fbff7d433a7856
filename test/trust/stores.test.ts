/** A store that somebody else made, with fitting checksums: what is invalid in it is reported like damage. */
import { describe, expect, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { openMemoryStore, type Store } from "../../src/store/index.js";
import { isFull } from "../support/runs.js";

const quiet = { on: { damage: () => {} } };

/** A store with sessions, an agent and conversations. */
async function fillStore(): Promise<Store> {
  const store = openMemoryStore();
  const sp = await Savepoint.open(store);
  const session = sp.session("s", { agent: "a" });
  for (let n = 0; n < 3; n++) {
    await session.save({ n, messages: Array.from({ length: n + 1 }, (_, i) => ({ text: `${i} `.repeat(100) })) });
  }
  await session.label({ seq: 2 }, "third");
  await session.annotate({ seq: 1 }, "note", () => ({ x: 1 }));
  await session.fork({ seq: 1 }, { branch: "other" });
  await sp.agents.save({ id: "a", name: "A", state: { list: ["x".repeat(200)] } });
  await sp.conversations.create({ id: "c", agent: "a", title: "T", messages: [message.user("hi")] });
  await sp.checkpoints.create({ agent: "a" });
  await sp.retention.set({ session: "s" }, { keepLast: 100 });
  await sp.close();
  return store;
}

/** Everything that reads. Returns the errors that are not errors of Savepoint. */
async function readAll(sp: Savepoint): Promise<string[]> {
  const session = sp.session("s");
  const attempts: Record<string, () => Promise<unknown>> = {
    sessions: () => sp.sessions.list().all(),
    latest: () => session.latest(),
    load: () => session.load({ seq: 0 }),
    partial: () => session.load({ seq: 1 }, { partial: true }),
    history: () => session.history({ limit: 50 }).all(),
    everything: () => session.history({ allBranches: true, limit: 50 }).all(),
    branches: () => session.branches().all(),
    diff: () => session.diff({ seq: 0 }, { seq: 2 }),
    annotations: () => session.annotations(0, 3),
    journal: () => sp.journal("s").all(),
    agents: () => sp.agents.list().all(),
    agent: () => sp.agents.load("a"),
    conversations: () => sp.conversations.list().all(),
    conversation: () => sp.conversations.load("c"),
    checkpoints: () => sp.checkpoints.list().all(),
    search: () => sp.search("hi"),
    stats: () => sp.stats(),
    verify: () => sp.verify({ deep: true }),
    export: () => sp.export().bytes(),
    prune: () => sp.prune({ session: "s", keepLast: 1, dryRun: true }),
    compact: () => sp.compact(),
    save: () => session.save({ n: 9 }),
    newSession: () => sp.session("new").save(1),
  };
  const foreign: string[] = [];
  for (const [name, attempt] of Object.entries(attempts)) {
    await attempt().catch((error: unknown) => {
      if (!isSavepointError(error)) foreign.push(`${name}: ${String(error)}`);
    });
  }
  return foreign;
}

/** Every record of a store: its key, value and refs. */
async function recordsOf(store: Store): Promise<{ key: string; value: string; refs: string }[]> {
  const records = await store.list({ from: "", to: "\u{10ffff}" }, { limit: 10_000 });
  return records.flatMap((record) => ("value" in record ? [record] : []));
}

describe("a store with a record that no version writes", () => {
  const FORGED = ["null", "[]", "{}", '"x"', "1e999", "-1", "x", "", "[null,null,null]", "deep"];

  it.each(isFull ? FORGED : ["{}", "[null,null,null]", "deep"])(
    "%s in the place of any record causes no errors but those of Savepoint",
    async (name) => {
      const value = name === "deep" ? "[".repeat(9000) + "]".repeat(9000) : name;
      const wrong: string[] = [];
      for (const { key, refs } of await recordsOf(await fillStore())) {
        const store = await fillStore();
        await store.commit({ puts: [{ key, value, refs }] });
        const sp = await Savepoint.open(store, quiet).catch((error: unknown) => {
          if (!isSavepointError(error)) wrong.push(`${JSON.stringify(key)}: open: ${String(error)}`);
        });
        if (!sp) continue;
        wrong.push(...(await readAll(sp)).map((why) => `${JSON.stringify(key)}: ${why}`));
        await sp.close();
      }
      expect([...new Set(wrong)]).toEqual([]);
    },
  );

  it("reports a parent that is newer than its child, and a history comes to its end", async () => {
    const store = await fillStore();
    const rows = (await recordsOf(store)).filter(({ key }) => key.startsWith("z"));
    for (const { key, value, refs } of rows) {
      await store.commit({ puts: [{ key, refs, value: value.replace(/^\{/, '{"p":[-2,1],') }] });
    }
    const sp = await Savepoint.open(store, quiet);
    expect((await sp.session("s").history({ limit: 100 }).all()).length).toBeLessThan(4);
    expect((await sp.verify()).ok).toBe(false);
  });

  it("reports a range of items that do not exist, in verify too", async () => {
    const store = await fillStore();
    for (const { key, value, refs } of await recordsOf(store)) {
      if (key.startsWith("z") && refs !== "") await store.commit({ puts: [{ key, value, refs: "0+500000000" }] });
    }
    const sp = await Savepoint.open(store, quiet);
    await expect(sp.session("s").load({ seq: 0 })).rejects.toMatchObject({ code: "DAMAGED" });
    await expect(sp.session("s").load({ seq: 0 }, { partial: true })).rejects.toMatchObject({ code: "DAMAGED" });
    expect((await sp.verify()).ok).toBe(false);
    expect((await sp.verify({ deep: true })).ok).toBe(false);
    expect(await readAll(sp)).toEqual([]);
  });

  it("keeps new sessions apart when the counter is beyond safe integers", async () => {
    const store = await fillStore();
    await store.commit({ puts: [{ key: "#", value: "18014398509481984" }] });
    const sp = await Savepoint.open(store, quiet);
    await expect(sp.session("new").save(1)).rejects.toMatchObject({ code: "DAMAGED" });
    expect((await sp.session("s").latest())?.state).toMatchObject({ n: 2 });
  });
});

describe("a store whose counter of numbers", () => {
  it.each(["0", "1", undefined])("is %s gives new sessions and conversations unused numbers", async (value) => {
    const store = openMemoryStore();
    const before = await Savepoint.open(store);
    const ids = Array.from({ length: 20 }, (_, n) => `victim-${n}`);
    for (const id of ids) for (const state of [{ id }, { id, second: true }]) await before.session(id).save(state);
    await store.commit(value === undefined ? { deletes: ["#"] } : { puts: [{ key: "#", value }] });
    const sp = await Savepoint.open(store, quiet);
    expect((await sp.verify()).ok).toBe(false);
    for (let n = 0; n < 40; n++) await sp.session(`new-${n}`).save({ evil: n });
    for (const id of ids) expect((await sp.session(id).load({ seq: 0 }))?.state).toEqual({ id });
    expect((await sp.verify()).ok).toBe(true);
  });
});

describe("a store without its counter of numbers", () => {
  it("imports a bundle without touching an existing session", async () => {
    const source = await Savepoint.open("memory:");
    for (let n = 0; n < 3; n++) await source.session(`x${n}`).save({ evil: n });
    const store = openMemoryStore();
    const before = await Savepoint.open(store);
    const ids = ["mine0", "mine1", "mine2"];
    for (const id of ids) for (const state of [{ id }, { id, second: true }]) await before.session(id).save(state);
    await store.commit({ deletes: ["#"] });
    const sp = await Savepoint.open(store, quiet);
    for (let n = 0; n < 3; n++) await sp.import(source.export({ session: `x${n}` }));
    for (const id of ids) expect((await sp.session(id).load({ seq: 0 }))?.state).toEqual({ id });
    expect((await sp.sessions.list().all()).length).toBe(6);
  });

  it("does not give the number of a removed conversation to a new one", async () => {
    const store = openMemoryStore();
    const before = await Savepoint.open(store);
    await before.agents.save({ id: "bot", name: "Bot", state: {} });
    for (const id of ["c0", "c1"]) {
      await before.conversations.create({ id, agent: "bot", messages: [message.user(id)] });
    }
    await before.checkpoints.create({ agent: "bot" });
    await before.conversations.delete("c1");
    await store.commit({ deletes: ["#"] });
    const sp = await Savepoint.open(store, quiet);
    await sp.conversations.create({ id: "new", agent: "bot", messages: [message.user("new")] });
    await sp.conversations.append("new", [message.user("more")]);
    expect((await sp.conversations.load("new"))?.messages).toEqual([message.user("new"), message.user("more")]);
  });
});

describe("legitimate data at the limits", () => {
  it("with a bigint of too many digits is rejected when it is saved, and not when it is read", async () => {
    const sp = await Savepoint.open("memory:");
    await sp.session("s").save({ v: 10n ** 99_000n });
    await expect(sp.session("s").save({ v: 10n ** 100_001n })).rejects.toMatchObject({ code: "INVALID_STATE" });
    expect((await sp.session("s").latest())?.state).toEqual({ v: 10n ** 99_000n });
  });

  it("that lost half of a long list is loaded in part", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store, quiet);
    const list = Array.from({ length: 40_000 }, (_, n) => ({ n, text: "x".repeat(40) }));
    await sp.session("s").save({ list });
    const [tape = ""] = await store.tapes({ from: "", to: "\u{10ffff}" });
    await store.retain(tape, [{ start: 20_000, count: 40_000 }], { below: 20_000 });
    const again = await Savepoint.open(store, quiet);
    const loaded = await again.session("s").load({ seq: 0 }, { partial: true });
    expect(loaded?.state).toMatchObject({ list: expect.arrayContaining([list[30_000]]) as unknown });
  });
});

describe("a state with invalid content", () => {
  const TAGS = [
    '{"$":5}',
    '{"$":["map",5,-1]}',
    '{"$":["date",{}]}',
    '{"$":["url","no url"]}',
    '{"$":["bigint","x"]}',
    '{"$":["object",[1,2]]}',
    '{"$":["array",7]}',
    '{"$":["object",7]}',
    '{"$":["set",7]}',
    '{"$":["array",0,99]}',
    '{"$":["blob",0]}',
    '{"$":["class","toString",1]}',
    '{"$":["bytes",1]}',
    '{"v":{"\\u0024":["set",7]}}',
    '{"v":{"\\u0024":["bigint","x"]}}',
    "not json",
  ];

  it.each(TAGS)("%s is an error of Savepoint", async (json) => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store, quiet);
    await sp.session("s").save({ n: 1 });
    for (const { key, value, refs } of await recordsOf(store)) {
      const changed = value.replace('{"n":1}', json);
      if (changed !== value) await store.commit({ puts: [{ key, value: changed, refs }] });
    }
    const again = await Savepoint.open(store, quiet);
    await expect(again.session("s").latest()).rejects.toSatisfy((error) => isSavepointError(error));
    expect(await readAll(again)).toEqual([]);
  });
});
