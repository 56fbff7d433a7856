import { describe, expect, it } from "vitest";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("the sessions on $name", (kind) => {
  const data = useData(kind);

  it("are listed newest first, by agent, by status, up to a limit", async () => {
    const sp = await data.open();
    for (let n = 0; n < 40; n++) {
      await sp.session(`s${n}`, { agent: n % 2 ? "odd" : "even" }).save(n, { status: n % 4 ? "running" : "completed" });
    }
    const ids = async (options: object): Promise<string[]> =>
      (await sp.sessions.list(options).all()).map(({ id }) => id);
    const all = Array.from({ length: 40 }, (_, n) => `s${39 - n}`);
    expect(await ids({})).toEqual(all);
    expect(await ids({ limit: 3 })).toEqual(["s39", "s38", "s37"]);
    expect(await ids({ limit: 0 })).toEqual([]);
    expect(await ids({ agent: "odd", limit: 2 })).toEqual(["s39", "s37"]);
    expect(await ids({ status: "completed", limit: 2 })).toEqual(["s36", "s32"]);
    expect(await ids({ agent: "odd", status: "completed" })).toEqual([]);
    expect(await ids({ agent: "nobody" })).toEqual([]);
  });

  it("are listed by the beginning of their ids, in the order of the ids, also in the scope of one agent", async () => {
    const sp = await data.open();
    for (const id of ["a/2", "a", "a/1/x", "b/1", "a/10", "a/1", "a2"])
      await sp.session(id, { agent: id.includes("1") ? "one" : "other" }).save({});
    await sp.session("a/1").fork({ seq: 0 }, { branch: "x" });
    const ids = async (from: typeof sp, options: object): Promise<string[]> =>
      (await from.sessions.list(options).all()).map(({ id }) => id);
    expect(await ids(sp, { prefix: "a/" })).toEqual(["a/1", "a/1/x", "a/10", "a/2"]);
    expect(await ids(sp, { prefix: "a", limit: 2 })).toEqual(["a", "a/1"]);
    expect(await ids(sp, { prefix: "a/", agent: "one" })).toEqual(["a/1", "a/1/x", "a/10"]);
    expect(await ids(sp, { prefix: "c" })).toEqual([]);
    const scoped = await data.open({ scope: { agent: "one" } });
    expect(await ids(scoped, { prefix: "a/" })).toEqual(["a/1", "a/1/x", "a/10"]);
    expect(() => sp.sessions.list({ prefix: "" })).toThrow(/prefix of session ids/);
  });

  it("are described without their states", async () => {
    let now = 1_000_000;
    const sp = await data.open({ now: () => now });
    const session = sp.session("s", { agent: "tester" });
    await session.save(1);
    now += 5000;
    const head = await session.save(2, { status: "failed", reason: "OOM" });
    const info = {
      id: "s",
      agent: "tester",
      createdAt: 1_000_000,
      updatedAt: 1_005_000,
      status: "failed",
      reason: "OOM",
      error: undefined,
      questions: [],
      wakeAt: undefined,
      checkpoints: 2,
    };
    expect(await sp.sessions.load("s")).toStrictEqual({ ...info, head });
    expect(await sp.sessions.list().all()).toStrictEqual([{ ...info, head }]);
    expect(await sp.sessions.load("t")).toBeUndefined();
  });

  it("are deleted with all their data and nothing else", async () => {
    const sp = await data.open();
    const [gone, stays] = [sp.session<unknown>("gone"), sp.session<unknown>("stays")];
    const { id } = await gone.save({ list: messages(100) }, { label: "l", id: "mine" });
    await gone.fork(id, { branch: "side", state: messages(50) });
    await gone.label(id, "later");
    await stays.save({ list: messages(100) }, { id: "mine" });
    expect(await sp.sessions.delete("gone")).toBe(true);
    expect(await sp.sessions.delete("gone")).toBe(false);
    expect(await sp.sessions.delete("never")).toBe(false);
    expect((await sp.sessions.list().all()).map((info) => info.id)).toEqual(["stays"]);
    expect((await stays.latest())?.state).toEqual({ list: messages(100) });
    const fresh = sp.session<unknown>("gone");
    expect(await fresh.latest()).toBeUndefined();
    expect(await fresh.load("mine")).toBeUndefined();
    expect(await fresh.load("gone#0")).toBeUndefined();
    expect(await fresh.load({ label: "l" })).toBeUndefined();
    expect(await fresh.load({ label: "later" })).toBeUndefined();
    expect(await fresh.branches().all()).toEqual([]);
    expect(await fresh.save("anew", { id: "mine" })).toMatchObject({ seq: 0, parentId: undefined, label: undefined });
    expect(await fresh.load({ label: "later" })).toBeUndefined();
    expect((await fresh.history({ allBranches: true }).all()).length).toBe(1);
    expect((await sp.session("gone", { branch: "side" }).history({ allBranches: true }).all()).length).toBe(1);
    expect(await sp.session("gone", { branch: "side" }).latest()).toBeUndefined();
  });

  it("may belong to another agent after they were deleted", async () => {
    const sp = await data.open();
    await sp.session("s", { agent: "one" }).save(1);
    await sp.sessions.delete("s");
    expect((await sp.session("s", { agent: "two" }).save(1)).agent).toBe("two");
  });

  it("reject all operations of handles from before their deletion", async () => {
    const sp = await data.open();
    const session = sp.session<unknown>("s");
    const unused = sp.session("s");
    const { id } = await session.save({ list: [1] });
    const side = await session.fork(id, { branch: "side" });
    await sp.sessions.delete("s");
    const fresh = sp.session("s");
    await fresh.save("fresh");
    for (const handle of [session, unused, side]) {
      const tries: (() => Promise<unknown>)[] = [
        () => handle.save(1),
        () => handle.save(1, { parent: id }),
        () => handle.append("/list", [1]),
        () => handle.update(() => 1),
        () => handle.latest(),
        () => handle.head(),
        () => handle.load(id),
        () => handle.load({ seq: 0 }),
        () => handle.history().all(),
        () => handle.branches().all(),
        () => handle.fork(id),
        () => handle.rewind({ seq: 0 }),
        () => handle.diff({ seq: 0 }, { seq: 0 }),
        () => handle.label({ seq: 0 }, "x"),
        () => handle.pin({ seq: 0 }),
        () => handle.clear(),
      ];
      for (const attempt of tries)
        await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "SESSION_DELETED" });
    }
    expect((await fresh.latest())?.state).toBe("fresh");
    expect((await fresh.history({ allBranches: true }).all()).length).toBe(1);
  });

  it("reject handles of another Savepoint that knew them, even after they are created again", async () => {
    const [one, two] = [await data.open(), await data.open({ cacheBytes: 1 })];
    const known = two.session<unknown>("s");
    const evicted = two.session<unknown>("t");
    for (const handle of [known, evicted]) await handle.save({ list: messages(20) });
    await two.session("u").save(1); // evicts the other sessions from memory
    await one.sessions.delete("s");
    await one.sessions.delete("t");
    await expect(known.save(1)).rejects.toMatchObject({ code: "SESSION_DELETED" });
    await expect(evicted.save(1)).rejects.toMatchObject({ code: "SESSION_DELETED" });
    await one.session("s").save("anew");
    await expect(known.save(1)).rejects.toMatchObject({ code: "SESSION_DELETED" });
    await expect(known.latest()).rejects.toMatchObject({ code: "SESSION_DELETED" });
    await expect(known.history().all()).rejects.toMatchObject({ code: "SESSION_DELETED" });
    await expect(known.clear()).rejects.toMatchObject({ code: "SESSION_DELETED" });
    expect((await two.session("s").latest())?.state).toBe("anew");
    expect(await two.sessions.load("t")).toBeUndefined();
  });

  it("differ from deleted ones under the same id, even if all visible fields are the same", async () => {
    const options = { now: () => 1_000_000 };
    const [one, two] = [await data.open(options), await data.open(options)];
    const first = one.session<{ list: unknown[] }>("s");
    await first.save({ list: messages(20) }, { id: "a" });
    await two.sessions.delete("s");
    const others = messages(20).map((each) => ({ ...each, content: each.content.replaceAll("m", "w") }));
    await two.session("s").save({ list: others }, { id: "a" });
    const again = one.session<{ list: unknown[] }>("s");
    expect((await again.latest())?.state.list).toEqual(others);
    await again.append("/list", [1]);
    expect((await two.session<{ list: unknown[] }>("s").latest())?.state.list).toEqual([...others, 1]);
    await expect(first.latest()).rejects.toMatchObject({ code: "SESSION_DELETED" });
  });

  it("are not harmed by deleting a session that does not exist", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    expect(await sp.sessions.delete("s")).toBe(false);
    await session.save(1);
    expect((await session.latest())?.state).toBe(1);
  });

  it("accept only ids, not internal keys of the store", async () => {
    const sp = await data.open();
    await sp.session("s").save(1);
    for (const id of ["s\tmain", "\ts", "", "s\t"]) {
      await expect(sp.sessions.load(id)).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(sp.sessions.delete(id)).rejects.toMatchObject({ code: "INVALID_ID" });
    }
    expect((await sp.session("s").latest())?.state).toBe(1);
  });
});

describe.each(STORES)("clearing a session on $name", (kind) => {
  const data = useData(kind);

  it("removes all checkpoints and branches, returns their number, and the session stays usable", async () => {
    const sp = await data.open();
    const session = sp.session<unknown>("s", { agent: "tester" });
    expect(await session.clear()).toBe(0);
    const { id } = await session.save({ list: messages(5) }, { id: "mine", label: "l" });
    await session.save({ list: messages(6) });
    const side = await session.fork(id, { branch: "side", state: 1 });
    await session.rewind(id);
    expect(await session.clear()).toBe(5);
    expect(await session.clear()).toBe(0);
    expect(await session.latest()).toBeUndefined();
    expect(await session.load("mine")).toBeUndefined();
    expect(await session.load({ label: "l" })).toBeUndefined();
    expect(await session.history({ allBranches: true }).all()).toEqual([]);
    expect((await session.branches().all()).map(({ name, head }) => [name, head])).toEqual([["main", undefined]]);
    expect(await sp.sessions.load("s")).toMatchObject({ agent: "tester", status: "open", head: undefined });
    await expect(side.save(1)).rejects.toMatchObject({ code: "BRANCH_NOT_FOUND" });
    await expect(session.append("/list", [1])).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(session.rewind(id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    const next = await session.save({ list: messages(7) }, { id: "mine" });
    expect(next).toMatchObject({ seq: 5, step: 0, parentId: undefined, agent: "tester", label: undefined });
    expect((await (await data.open()).session("s").latest())?.state).toEqual({ list: messages(7) });
    await session.fork("mine", { branch: "side" });
    expect((await session.branches().all()).length).toBe(2);
  });

  it("by one handle is a conflict for another that has read its checkpoints", async () => {
    const sp = await data.open();
    const [one, two, far] = [sp.session("s"), sp.session("s"), (await data.open()).session("s")];
    await one.save({ list: messages(20) });
    await two.latest();
    await far.latest();
    await one.clear();
    for (const handle of [two, far]) {
      await expect(handle.save(2)).rejects.toMatchObject({ code: "CONFLICT" });
      expect(await handle.latest()).toBeUndefined();
    }
    expect((await two.save(3)).seq).toBe(1);
    await expect(far.save(4)).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await far.latest())?.state).toBe(3);
    expect((await far.save(5)).seq).toBe(2);
  });

  it("by another Savepoint is noticed by a handle that was evicted from memory meanwhile", async () => {
    const [one, two] = [await data.open(), await data.open({ cacheBytes: 1 })];
    const evicted = two.session<unknown>("s");
    await evicted.save({ list: messages(20) });
    await two.session("t").save(1);
    await one.session("s").clear();
    await expect(evicted.save({ list: messages(21) })).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await evicted.latest()).toBeUndefined();
    await evicted.save({ list: messages(22) });
    await two.session("t").save(2);
    await one.session("s").clear();
    expect((await two.session("s").save({ list: messages(23) })).parentId).toBeUndefined();
  });

  it("frees its data", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const small = await sp.bytes();
    for (let n = 0; n < 30; n++)
      await session.save({ list: Array.from({ length: 50 }, (_, m) => message(n * 50 + m)) });
    const { id } = await session.save(1);
    await session.fork(id, { branch: "side", state: { list: messages(200) } });
    await sp.compact();
    const full = await sp.bytes();
    await session.clear();
    await sp.compact();
    expect(await sp.bytes()).toBeLessThan(small + (full - small) / 5);
    await session.save({ list: messages(10) });
    expect((await session.latest())?.state).toEqual({ list: messages(10) });
  });
});
