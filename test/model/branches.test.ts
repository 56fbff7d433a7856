import { describe, expect, it } from "vitest";
import { applyChanges } from "../../src/index.js";
import { openMemoryStore, type Store } from "../../src/store.js";
import { Savepoint } from "../../src/index.js";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("history on $name", (kind) => {
  const data = useData(kind);

  it("lists the line that led to the head, newest or oldest first, up to a limit", async () => {
    const session = (await data.open()).session("s");
    const ids: string[] = [];
    for (let n = 0; n < 300; n++) ids.push((await session.save(n)).id);
    const list = async (options: Parameters<typeof session.history>[0]): Promise<string[]> =>
      (await session.history(options).all()).map(({ id }) => id);
    expect(await list({})).toEqual([...ids].reverse());
    expect(await list({ order: "oldest" })).toEqual(ids);
    expect(await list({ limit: 70 })).toEqual([...ids].reverse().slice(0, 70));
    expect(await list({ limit: 3, order: "oldest" })).toEqual(ids.slice(0, 3));
    expect(await list({ limit: 0 })).toEqual([]);
    const parents = (await session.history({ order: "oldest" }).all()).map(({ parentId }) => parentId);
    expect(parents).toEqual([undefined, ...ids.slice(0, -1)]);
    const seen: string[] = [];
    for await (const { id } of session.history()) if (seen.push(id) === 2) break;
    expect(seen).toEqual([...ids].reverse().slice(0, 2));
  });

  it("lists all branches in the order in which they were saved", async () => {
    const session = (await data.open()).session("s");
    const a = await session.save("a");
    const b = await session.save("b");
    const side = await session.fork(a.id, { branch: "side" });
    const c = await side.save("c");
    const d = await session.save("d");
    const ids = async (options: object): Promise<string[]> =>
      (await session.history(options).all()).map(({ id }) => id);
    expect(await ids({ allBranches: true })).toEqual([d, c, b, a].map(({ id }) => id));
    expect(await ids({ allBranches: true, order: "oldest", limit: 3 })).toEqual([a, b, c].map(({ id }) => id));
    expect(await ids({})).toEqual([d, b, a].map(({ id }) => id));
    expect((await side.history().all()).map(({ id }) => id)).toEqual([c, a].map(({ id }) => id));
    expect((await session.history({ allBranches: true }).all()).map(({ parentId }) => parentId)).toEqual([
      b.id,
      a.id,
      a.id,
      undefined,
    ]);
  });
});

describe("listing", () => {
  it("never reads states", async () => {
    const reads: string[] = [];
    const store = new Proxy(openMemoryStore(), {
      get(target, name) {
        if (name === "items" || name === "blob") reads.push(name);
        const member = Reflect.get(target, name) as unknown;
        return typeof member === "function" ? (member.bind(target) as unknown) : member;
      },
    }) satisfies Store;
    await using sp = await Savepoint.open(store);
    const session = sp.session("s");
    const first = await session.save({ messages: messages(50), bytes: new Uint8Array(5000) });
    await session.append("/messages", [message(1)]);
    await session.fork(first.id, { branch: "side" });
    await using other = await Savepoint.open(store);
    reads.length = 0;
    const again = other.session("s");
    expect((await again.history({ allBranches: true }).all()).length).toBe(2);
    await again.history({ order: "oldest" }).all();
    await again.branches().all();
    await again.head();
    await other.sessions.list().all();
    await other.sessions.load("s");
    await again.label(first.id, "x");
    await again.pin(first.id);
    expect(reads).toEqual([]);
    await again.latest();
    expect(reads).toContain("items");
  });
});

describe.each(STORES)("forks on $name", (kind) => {
  const data = useData(kind);

  it("start at any checkpoint and leave the branch they came from alone", async () => {
    const session = (await data.open()).session<{ list: unknown[] }>("s", { agent: "tester" });
    const a = await session.save({ list: messages(10) });
    const b = await session.save({ list: messages(11) });
    const side = await session.fork(a.id, { branch: "side" });
    expect([side.branch, side.agent]).toEqual(["side", "tester"]);
    expect(await side.head()).toEqual(a); // one record, no checkpoint
    const c = await side.save({ list: messages(12) });
    expect(c).toMatchObject({ branch: "side", parentId: a.id, seq: 2, step: 1 });
    expect((await side.latest())?.state.list).toEqual(messages(12));
    expect((await session.latest())?.id).toBe(b.id);
    const again = (await data.open()).session<{ list: unknown[] }>("s", { branch: "side" });
    await again.append("/list", [message(99)]);
    expect((await again.latest())?.state.list).toEqual([...messages(12), message(99)]);
    expect((await session.latest())?.state.list).toEqual(messages(11));
  });

  it("may start with a state of their own", async () => {
    const session = (await data.open()).session<{ list: unknown[]; city: string }>("s");
    const a = await session.save({ list: messages(10), city: "Lisbon" });
    const side = await session.fork(a.id, {
      branch: "side",
      state: { list: messages(10), city: "Porto" },
      label: "what if",
      id: "fork",
    });
    expect(await side.latest()).toMatchObject({
      id: "fork",
      parentId: a.id,
      branch: "side",
      label: "what if",
      step: 1,
      state: { city: "Porto", list: messages(10) },
    });
    expect((await side.save({ list: [], city: "Faro" })).parentId).toBe("fork");
    const empty = await session.fork(a.id, { branch: "empty", state: undefined as never });
    expect((await empty.head())?.id).toBe(a.id);
  });

  it("may be unnamed, forked again, and found by their heads", async () => {
    const session = (await data.open()).session("s");
    const a = await session.save("a");
    const one = await session.fork({ seq: 0 });
    const two = await one.fork("s#0", { state: "two" });
    expect(one.branch).not.toBe(two.branch);
    expect(one.branch).toMatch(/^~/);
    const three = await two.fork((await two.head())?.id ?? "", { branch: "three" });
    await three.save("three");
    const branches = await session.branches().all();
    expect(branches.map(({ name }) => name).sort()).toEqual(["main", "three", one.branch, two.branch].sort());
    expect(branches.find(({ name }) => name === "main")?.head?.id).toBe(a.id);
    expect(branches.find(({ name }) => name === one.branch)?.head?.id).toBe(a.id);
    expect(branches.find(({ name }) => name === two.branch)?.head).toMatchObject({
      branch: two.branch,
      parentId: a.id,
    });
    expect((await three.history().all()).map(({ branch }) => branch)).toEqual(["three", two.branch, "main"]);
    const same = (await data.open()).session("s", { branch: one.branch });
    expect((await same.save("more")).branch).toBe(one.branch);
  });

  it("are rejected if the name is taken or the checkpoint is unknown", async () => {
    const session = (await data.open()).session("s");
    await expect(session.fork("nothing")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    const { id } = await session.save(1);
    await session.fork(id, { branch: "side" });
    for (const options of [{ branch: "side" }, { branch: "main" }, { branch: "side", state: 2 }]) {
      await expect(session.fork(id, options)).rejects.toMatchObject({ code: "BRANCH_EXISTS" });
    }
    for (const ref of ["no", { seq: 1 }, { step: 3 }, { label: "x" }]) {
      await expect(session.fork(ref)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    }
    for (const branch of ["", "~1", "a\tb", "\u0000", "\ud800", "x".repeat(1025)]) {
      await expect(session.fork(id, { branch })).rejects.toMatchObject({ code: "INVALID_ID" });
    }
    expect((await session.branches().all()).length).toBe(2);
  });

  it("that fail leave nothing behind", async () => {
    const session = (await data.open()).session<unknown>("s");
    const { id } = await session.save({ list: messages(5) });
    await session.save(1, { id: "taken" });
    await expect(session.fork(id, { state: { bad: () => 1 } })).rejects.toMatchObject({ code: "INVALID_STATE" });
    await expect(session.fork(id, { state: 2, metadata: { bad: () => 1 } })).rejects.toMatchObject({
      code: "INVALID_STATE",
    });
    await expect(session.fork(id, { state: 2, label: "\t" })).rejects.toMatchObject({ code: "INVALID_ID" });
    await expect(session.fork(id, { state: 2, id: "taken" })).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await session.branches().all()).length).toBe(1);
    const fork = await session.fork(id);
    await fork.save(3);
    expect((await fork.history().all()).length).toBe(2);
  });

  it("that are made at once are all created", async () => {
    const [one, two] = [await data.open(), await data.open()];
    const { id } = await one.session("s").save({ list: messages(5) });
    const forks = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 ? one : two).session("s").fork(id, n % 3 ? { state: { n } } : { branch: `b${n}` }),
      ),
    );
    expect(new Set(forks.map(({ branch }) => branch)).size).toBe(20);
    expect((await one.session("s").branches().all()).length).toBe(21);
    const saved = await Promise.all(forks.map((fork, n) => fork.save({ list: messages(5), n })));
    expect(new Set(saved.map(({ seq }) => seq)).size).toBe(20);
    for (const [n, fork] of forks.entries()) expect((await fork.latest())?.state).toEqual({ list: messages(5), n });
  });

  it("must be created before they can be saved to", async () => {
    const sp = await data.open();
    await expect(sp.session("s", { branch: "no" }).save(1)).rejects.toMatchObject({ code: "BRANCH_NOT_FOUND" });
    await sp.session("s").save(1);
    const missing = sp.session("s", { branch: "no" });
    expect(await missing.latest()).toBeUndefined();
    await expect(missing.save(1)).rejects.toMatchObject({ code: "BRANCH_NOT_FOUND" });
    await expect(missing.append("/x", [1])).rejects.toMatchObject({ code: "BRANCH_NOT_FOUND" });
    expect((await sp.session("s").branches().all()).map(({ name }) => name)).toEqual(["main"]);
  });
});

describe.each(STORES)("rewinding on $name", (kind) => {
  const data = useData(kind);

  it("makes an earlier state the newest, saves the previous head first, and loses nothing", async () => {
    const session = (await data.open()).session<{ list: unknown[] }>("s", { agent: "tester" });
    const a = await session.save({ list: messages(3) }, { label: "a", usage: { tokens: 5 }, pinned: true });
    const b = await session.save({ list: messages(4) });
    const c = await session.save({ list: messages(5) });
    const info = await session.rewind(a.id);
    expect(info).toMatchObject({ kind: "recovery", parentId: a.id, branch: "main", seq: 4, agent: "tester" });
    expect(info).toMatchObject({ step: 0, usage: { tokens: 5 }, label: undefined, pinned: false });
    expect(await session.latest()).toMatchObject({ id: info.id, state: { list: messages(3) } });
    const all = await session.history({ allBranches: true }).all();
    expect(all.map(({ kind: of }) => of)).toEqual(["recovery", "preOperation", "manual", "manual", "manual"]);
    const kept = all[1];
    expect(kept).toMatchObject({ parentId: c.id, seq: 3 });
    expect((await session.history().all()).map(({ id }) => id)).toEqual([info.id, a.id]);
    for (const [id, count] of [
      [a.id, 3],
      [b.id, 4],
      [c.id, 5],
      [kept?.id ?? "", 5],
    ] as const) {
      expect((await session.load(id))?.state.list).toEqual(messages(count));
    }
    const next = await session.save({ list: messages(6) });
    expect(next).toMatchObject({ parentId: info.id, seq: 5, step: 1 });
    expect((await (await data.open()).session("s").latest())?.state).toEqual({ list: messages(6) });
  });

  it("can be done twice in a row, and undone", async () => {
    const session = (await data.open()).session("s");
    const a = await session.save("a");
    const b = await session.save("b");
    await session.rewind(a.id);
    await session.rewind(a.id);
    expect((await session.latest())?.state).toBe("a");
    await session.rewind(b.id);
    expect((await session.latest())?.state).toBe("b");
    await session.rewind({ seq: (await session.head())?.seq ?? -1 });
    expect((await session.latest())?.state).toBe("b");
    const kinds = (await session.history({ allBranches: true, order: "oldest" }).all()).map(({ kind: of }) => of);
    expect(kinds).toEqual([
      "manual",
      "manual",
      ...Array.from({ length: 4 }, () => ["preOperation", "recovery"]).flat(),
    ]);
  });

  it("goes to checkpoints of other branches, and works on forks", async () => {
    const session = (await data.open()).session<{ list: unknown[] }>("s");
    const a = await session.save({ list: messages(40) });
    const side = await session.fork(a.id, { branch: "side" });
    await side.append("/list", [message(41)]);
    const c = await side.append("/list", [message(42)]);
    await session.append("/list", [message(50)]);
    const info = await session.rewind(c.id);
    expect(info).toMatchObject({ branch: "main", parentId: c.id });
    await session.append("/list", [message(60)]);
    expect((await session.latest())?.state.list).toEqual([...messages(40), message(41), message(42), message(60)]);
    expect((await side.latest())?.state.list).toEqual([...messages(40), message(41), message(42)]);
    const back = await side.rewind({ step: 0 });
    expect(back).toMatchObject({ branch: "side", parentId: a.id, kind: "recovery" });
    const fresh = await session.fork(a.id, { branch: "fresh" });
    await fresh.rewind(c.id);
    const again = (await data.open()).session<{ list: unknown[] }>("s", { branch: "fresh" });
    expect((await again.latest())?.state.list).toHaveLength(42);
    await again.append("/list", [message(70)]);
    expect((await again.latest())?.state.list).toHaveLength(43);
    expect((await session.history({ allBranches: true }).all()).length).toBe(12);
  });

  it("writes nothing if the checkpoint does not exist", async () => {
    const session = (await data.open()).session("s");
    await expect(session.rewind("no")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await session.save(1);
    for (const ref of ["no", { step: 9 }, { label: "no" }, { seq: 7 }]) {
      await expect(session.rewind(ref)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    }
    expect((await session.history({ allBranches: true }).all()).length).toBe(1);
  });

  it("is one commit", async () => {
    const commits: number[] = [];
    const store = openMemoryStore();
    const counting = new Proxy(store, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown;
        if (typeof member !== "function") return member;
        if (name === "commit") commits.push(1);
        return member.bind(target) as unknown;
      },
    });
    const sp = await Savepoint.open(counting);
    const session = sp.session("s");
    const { id } = await session.save(1);
    await session.save(2);
    commits.length = 0;
    await session.rewind(id);
    expect(commits).toEqual([1]);
  });
});

describe.each(STORES)("comparing, labelling and pinning on $name", (kind) => {
  const data = useData(kind);

  it("returns the changes between any two checkpoints, and applying them leads from one to the other", async () => {
    const session = (await data.open()).session<Record<string, unknown>>("s");
    const a = await session.save({ city: "Lisbon", messages: messages(30), gone: 1 });
    const b = await session.save({ city: "Porto", messages: [...messages(30), message(99)], fresh: [1] });
    const side = await session.fork(a.id, { branch: "side", state: { city: "Faro", messages: messages(2), gone: 1 } });
    const changes = await session.diff(a.id, b.id);
    expect(changes.map(({ op, path }) => [op, path])).toEqual(
      expect.arrayContaining([
        ["replace", "/city"],
        ["add", "/messages/30"],
        ["remove", "/gone"],
        ["add", "/fresh"],
      ]),
    );
    expect(changes).toHaveLength(4);
    expect(await session.diff(a.id, a.id)).toEqual([]);
    const last = (await side.head())?.id ?? "";
    for (const [from, to] of [
      [a.id, b.id],
      [b.id, a.id],
      [b.id, last],
      [last, a.id],
    ] as const) {
      const before = (await session.load(from))?.state;
      const after = (await session.load(to))?.state;
      expect(applyChanges(before, await session.diff(from, to))).toEqual(after);
    }
    await expect(session.diff(a.id, "no")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(session.diff({ step: 9 }, b.id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });

  it("sets, changes and removes the label of a checkpoint", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const a = await session.save("a", { label: "first" });
    const b = await session.save("b");
    await session.label(b.id, "second");
    await session.label({ label: "first" }, "renamed");
    expect((await session.load({ label: "second" }))?.state).toBe("b");
    expect(await session.load({ label: "first" })).toBeUndefined();
    expect(await session.load({ label: "renamed" })).toMatchObject({ id: a.id, label: "renamed" });
    expect((await session.history().all()).map(({ label }) => label)).toEqual(["second", "renamed"]);
    // Wherever the checkpoint is shown.
    expect((await session.head())?.label).toBe("second");
    expect((await session.latest())?.label).toBe("second");
    expect((await session.branches().all())[0]?.head?.label).toBe("second");
    expect((await sp.sessions.load("s"))?.head?.label).toBe("second");
    expect((await sp.sessions.list().all())[0]?.head?.label).toBe("second");
    await session.label(a.id, undefined);
    expect(await session.load({ label: "renamed" })).toBeUndefined();
    expect((await session.load(a.id))?.label).toBeUndefined();
    await session.label(a.id, "second");
    expect((await session.load({ label: "second" }))?.state).toBe("b"); // the newest that has it
    await session.label(b.id, "other");
    expect((await session.load({ label: "second" }))?.state).toBe("a");
    for (const label of ["", "a\tb", "\u0000"]) {
      await expect(session.label(a.id, label)).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(session.save(1, { label })).rejects.toMatchObject({ code: "INVALID_ID" });
    }
    await expect(session.label("no", "x")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect((await (await data.open()).session("s").load({ label: "other" }))?.state).toBe("b");
  });

  it("finds labels exactly, not by prefix", async () => {
    const session = (await data.open()).session("s");
    await session.save(1, { label: "a" });
    await session.save(2, { label: "a b" });
    await session.save(3, { label: "ab" });
    expect((await session.load({ label: "a" }))?.state).toBe(1);
  });

  it("pins and unpins a checkpoint", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const a = await session.save("a");
    const b = await session.save("b", { pinned: true });
    await session.pin(a.id);
    await session.pin({ step: 1 }, false);
    expect((await session.history().all()).map(({ pinned }) => pinned)).toEqual([false, true]);
    expect((await sp.sessions.load("s"))?.head?.pinned).toBe(false);
    expect((await (await data.open()).session("s").load(a.id))?.pinned).toBe(true);
    await session.pin(b.id);
    expect((await session.head())?.pinned).toBe(true);
    await expect(session.pin("no")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });

  it("leaves one label if several writers set one at once", async () => {
    const [one, two] = [(await data.open()).session("s"), (await data.open()).session("s")];
    const { id } = await one.save(1);
    await Promise.all(Array.from({ length: 10 }, (_, n) => (n % 2 ? one : two).label(id, `l${n}`)));
    const label = (await one.load(id))?.label ?? "";
    for (let n = 0; n < 10; n++) {
      expect((await one.load({ label: `l${n}` }))?.id).toBe(`l${n}` === label ? id : undefined);
    }
  });
});
