/** How long checkpoints are kept: by their lifetime, by the rules of `prune`, and by retention policies. */
import { describe, expect, it } from "vitest";
import type { BackgroundFailureEvent, OpenOptions, RetentionOptions, Savepoint, Session } from "../../src/index.js";
import { STORES, useData } from "./stores.js";

const DAY = 86_400_000;

interface Clock {
  now: number;
}

async function seqs(session: Session): Promise<number[]> {
  return (await session.history({ allBranches: true, order: "oldest" }).all()).map(({ seq }) => seq);
}

async function fill(session: Session, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await session.save({ n });
}

describe.each(STORES)("the lifetime of checkpoints on $name", (kind) => {
  const data = useData(kind);

  async function open(options: OpenOptions = {}): Promise<{ sp: Savepoint; clock: Clock }> {
    const clock = { now: 100 };
    return { sp: await data.open({ now: () => clock.now, durability: "process", ...options }), clock };
  }

  it("is visible, and expires when more time has passed", async () => {
    const { sp, clock } = await open();
    const session = sp.session("s");
    const { id, expiresAt } = await session.save({ n: 0 }, { ttl: 60 });
    expect(expiresAt).toBe(160);
    expect((await session.save({ n: 1 })).expiresAt).toBeUndefined();
    expect((await session.load(id))?.expiresAt).toBe(160);
    clock.now = 160;
    expect(await sp.prune({ expired: true })).toMatchObject({ removed: 0, kept: [{ reasons: ["unexpired"] }, {}] });
    clock.now = 161;
    const { gone, kept } = await sp.prune({ expired: true });
    expect(gone.map((each) => each.id)).toEqual([id]);
    expect(kept).toMatchObject([{ seq: 1, reasons: ["head", "unexpired"] }]);
    expect(await session.history().all()).toMatchObject([{ seq: 1, parentId: undefined }]);
  });

  it("is applied by the next save automatically, and forgotten by clear", async () => {
    const { sp, clock } = await open();
    const session = sp.session("s");
    await session.save({ n: 0 }, { ttl: "60s" });
    await session.save({ n: 1 });
    clock.now += 60_001;
    await session.save({ n: 2 });
    expect(await seqs(session)).toEqual([1, 2]);
    await session.save({ n: 3 }, { ttl: 5 });
    await session.clear();
    clock.now += 10;
    await session.save({ n: 4 });
    await session.save({ n: 5 });
    expect(await seqs(session)).toEqual([4, 5]);
  });

  it("does not expire while a checkpoint is a head, pinned, or the start of a branch", async () => {
    const { sp, clock } = await open();
    const session = sp.session("s");
    for (let n = 0; n < 5; n++) await session.save({ n }, { ttl: 10, label: `l${n}` });
    await session.pin("s#1");
    const side = await session.fork("s#2", { branch: "side" });
    clock.now += 11;
    const { kept } = await sp.prune({ session: "s", keepLast: 10, keepLabelled: true });
    expect(kept.map(({ seq, reasons }) => [seq, reasons])).toEqual([
      [1, ["pinned"]],
      [2, ["head", "needed"]],
      [4, ["head"]],
    ]);
    // As soon as it is no longer a head, or no longer pinned, it is removed.
    await session.save({ n: 5 });
    expect(await seqs(session)).toEqual([1, 2, 5]);
    await side.save({ side: true });
    expect(await seqs(session)).toEqual([1, 2, 5, 6]);
    await session.pin("s#1", false);
    expect(await sp.prune({ expired: true })).toMatchObject({ removed: 1, gone: [{ seq: 1 }] });
  });

  it("can be given to all checkpoints without one, except labelled ones", async () => {
    const { sp, clock } = await open();
    const session = sp.session("s");
    await session.save({ n: 0 }, { label: "kept" });
    await session.save({ n: 1 }, { label: "own", ttl: 5 });
    await session.save({ n: 2 }, { ttl: "1d" });
    await session.save({ n: 3 });
    clock.now += 50;
    await session.save({ n: 4 });
    await session.save({ n: 5 });
    clock.now += 60;
    const keeps = async (options: RetentionOptions): Promise<unknown> =>
      (await sp.prune({ session: "s", dryRun: true, ...options })).kept.map(({ seq }) => seq);
    expect(await keeps({ ttl: 100 })).toEqual([0, 2, 4, 5]);
    expect(await keeps({ ttl: 100, expired: true })).toEqual([0, 2, 4, 5]);
    expect(await keeps({ ttl: 100, keepLabelled: false })).toEqual([2, 4, 5]);
    expect(await keeps({ ttl: 100, keepLast: 1 })).toEqual([0, 5]);
    expect(await keeps({ ttl: 100, keepLast: 10 })).toEqual([0, 2, 4, 5]);
  });

  it("applies to checkpoints of agents as well", async () => {
    const { sp, clock } = await open();
    await sp.agents.save({ id: "a", name: "A" });
    const first = await sp.checkpoints.create({ agent: "a", ttl: "1m" });
    expect(first.expiresAt).toBe(60_100);
    clock.now += 60_001;
    await sp.checkpoints.create({ agent: "a" });
    expect(await sp.checkpoints.load(first.id)).toBeUndefined();
    expect(await sp.checkpoints.list({ agent: "a" }).all()).toMatchObject([{ seq: 2 }]);
  });

  it("is rejected if it is not a duration", async () => {
    const { sp } = await open();
    await sp.agents.save({ id: "a", name: "A" });
    for (const ttl of ["soon", -1, NaN, Infinity, null, {}] as never[]) {
      await expect(sp.session("s").save(1, { ttl })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(sp.checkpoints.create({ agent: "a", ttl })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(sp.prune({ session: "s", ttl })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    await expect(sp.prune({ expired: true, keepLast: 1 })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await sp.session("s").head()).toBeUndefined();
  });

  it("is part of a checkpoint that is saved again under its id", async () => {
    const { sp } = await open();
    const save = (ttl: number): Promise<unknown> => sp.session("s").save({ n: 1 }, { id: "mine", ttl });
    expect(await save(60)).toEqual(await save(60));
    await expect(save(61)).rejects.toMatchObject({ code: "CONFLICT" });
  });
});

describe.each(STORES)("retention policies on $name", (kind) => {
  const data = useData(kind);
  const failures: BackgroundFailureEvent[] = [];

  async function open(clock: Clock = { now: 0 }): Promise<Savepoint> {
    const on = { backgroundFailure: (failure: BackgroundFailureEvent) => void failures.push(failure) };
    return data.open({ now: () => clock.now, durability: "process", on });
  }

  it("are kept in the store, one for the store and one for each agent or session", async () => {
    const [sp, other] = [await open(), await open()];
    expect(await sp.retention.load({})).toBeUndefined();
    await sp.retention.set({}, { keepLast: Infinity });
    await sp.retention.set({ agent: "a" }, { keepDaily: 7, keepWithin: "1d", kinds: ["automatic"] });
    await sp.retention.set({ session: "s" }, { keepLast: 3 });
    await other.retention.set({ session: "s" }, { ttl: "2h", keepLabelled: false });
    expect(await other.retention.list().all()).toEqual([
      { target: {}, options: { keepLast: Infinity } },
      { target: { agent: "a" }, options: { keepDaily: 7, keepWithin: DAY, kinds: ["automatic"] } },
      { target: { session: "s" }, options: { ttl: 7_200_000, keepLabelled: false } },
    ]);
    expect(await sp.retention.load({ session: "s" })).toEqual({ ttl: 7_200_000, keepLabelled: false });
    expect(await sp.retention.delete({ session: "s" })).toBe(true);
    expect(await sp.retention.delete({ session: "s" })).toBe(false);
    expect(await other.retention.load({ session: "s" })).toBeUndefined();
  });

  it("are rejected if they are empty or invalid", async () => {
    const sp = await open();
    for (const options of [{}, { keepLast: -1 }, { ttl: "soon" }, { keepLst: 3 }, { keepLast: 1, dryRun: true }]) {
      await expect(sp.retention.set({}, options as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    for (const target of [{ sesion: "s" }, { session: "s", agent: "a" }, null]) {
      await expect(sp.retention.set(target as never, { keepLast: 1 })).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    }
    expect(await sp.retention.list().all()).toEqual([]);
  });

  it("hold for a session: its own, else its agent's, else the store's", async () => {
    const sp = await open();
    await sp.retention.set({}, { keepLast: 4 });
    await sp.retention.set({ agent: "a" }, { keepLast: 3 });
    await sp.retention.set({ session: "own" }, { keepLast: 2 });
    const [plain, ofAgent, own] = [sp.session("plain"), sp.session("of-a", { agent: "a" }), sp.session("own")];
    for (const session of [plain, ofAgent, own]) await fill(session, 6);
    expect([await seqs(plain), await seqs(ofAgent), await seqs(own)]).toEqual([
      [2, 3, 4, 5],
      [3, 4, 5],
      [4, 5],
    ]);
    for (const agent of ["a", "b"]) {
      await sp.agents.save({ id: agent, name: agent });
      for (let n = 0; n < 6; n++) await sp.checkpoints.create({ agent });
    }
    const count = async (agent: string): Promise<number> =>
      (await sp.checkpoints.list({ agent, of: "agent" }).all()).length;
    expect([await count("a"), await count("b")]).toEqual([3, 4]);
    await sp.retention.delete({ session: "own" });
    await fill(own, 4);
    expect(await seqs(own)).toEqual([6, 7, 8, 9]);
  });

  it("are applied on every path that saves", async () => {
    const sp = await open();
    await sp.retention.set({}, { keepLast: 2 });
    const session = sp.session<{ list: number[] }>("s");
    const check = async (): Promise<void> => {
      const ofBranch = new Map<string, number>();
      const all = await session.history({ allBranches: true }).all();
      const starts = new Set([start]);
      for (const { branch, seq } of all) {
        if (!starts.has(seq)) ofBranch.set(branch, (ofBranch.get(branch) ?? 0) + 1);
      }
      for (const [branch, count] of ofBranch) expect([branch, count <= 2]).toEqual([branch, true]);
    };
    let start = -1;
    for (let n = 0; n < 3; n++) await session.save({ list: [n] });
    await check();
    await session.append("/list", [3]);
    await check();
    await session.update((state) => ({ list: [...(state?.list ?? []), 4] }));
    await check();
    const [, previous] = await session.history().all();
    await session.rewind(previous?.id ?? "");
    await check();
    start = (await session.head())?.seq ?? -1;
    const side = await session.fork(`s#${start}`, { state: { list: [9] } });
    for (let n = 0; n < 3; n++) await side.save({ list: [n] });
    await check();
    const head = await session.head();
    await session.save({ list: [7] }, { parent: head?.id ?? "" });
    await session.save({ list: [8] }, { parent: (await side.head())?.id ?? "" });
    await check();
    await sp.checkpoints.restore((await session.head())?.id ?? "");
    await check();
  });

  it("keep the previous head of a restore, and pinned and labelled checkpoints", async () => {
    const sp = await open();
    await sp.retention.set({}, { keepLast: 1 });
    const session = sp.session("s");
    await session.save({ n: 0 }, { label: "zero" });
    await session.save({ n: 1 });
    const { before } = await sp.checkpoints.restore((await session.load({ label: "zero" }))?.id ?? "");
    expect((await session.latest())?.state).toEqual({ n: 0 });
    await sp.checkpoints.restore(before.id);
    expect((await session.latest())?.state).toEqual({ n: 1 });
    await sp.agents.save({ id: "a", name: "A" });
    const first = await sp.checkpoints.create({ agent: "a", pinned: true });
    await sp.agents.save({ id: "a", name: "B" });
    const report = await sp.checkpoints.restore(first.id);
    await sp.checkpoints.restore(report.before.id);
    expect((await sp.agents.load("a"))?.name).toBe("B");
  });

  it("by calendar and by age are applied as time passes", async () => {
    const clock = { now: 0 };
    const sp = await open(clock);
    await sp.retention.set({ session: "daily" }, { keepDaily: 3 });
    await sp.retention.set({ session: "within" }, { keepWithin: "2d" });
    await sp.retention.set({ session: "ttl" }, { ttl: "2d" });
    for (let n = 0; n < 20; n++) {
      clock.now = (n * DAY) / 4;
      for (const id of ["daily", "within", "ttl"]) await sp.session(id).save({ n });
    }
    expect(await seqs(sp.session("daily"))).toEqual([11, 15, 19]);
    expect(await seqs(sp.session("within"))).toEqual([12, 13, 14, 15, 16, 17, 18, 19]);
    expect(await seqs(sp.session("ttl"))).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19]);
  });

  it("of another process are known a second later, also when they are deleted", async () => {
    const clock = { now: 0 };
    const [sp, other] = [await open(clock), await open(clock)];
    const session = other.session("s");
    await fill(session, 5);
    await sp.retention.set({}, { keepLast: 2 });
    clock.now += 1000;
    await session.save({ n: 5 });
    expect(await seqs(session)).toEqual([4, 5]);
    await sp.retention.delete({});
    // The deletion is not known yet, but nothing is removed without reading the policy again.
    await fill(session, 3);
    expect(await seqs(session)).toEqual([4, 5, 6, 7, 8]);
  });

  it("are deleted with their session or agent", async () => {
    const clock = { now: 0 };
    const [sp, other] = [await open(clock), await open(clock)];
    await sp.retention.set({}, { keepLast: 4 });
    await sp.retention.set({ session: "s" }, { keepLast: 1 });
    await sp.retention.set({ session: "of-a" }, { keepLast: 1 });
    await sp.retention.set({ agent: "a" }, { keepLast: 1 });
    await fill(sp.session("s"), 3);
    await fill(other.session("of-a", { agent: "a" }), 3);
    await sp.sessions.delete("s");
    await sp.agents.delete("a");
    expect(await sp.retention.list().all()).toEqual([{ target: {}, options: { keepLast: 4 } }]);
    await fill(sp.session("s"), 6);
    expect(await seqs(sp.session("s"))).toEqual([2, 3, 4, 5]);
    clock.now += 1000;
    await fill(other.session("of-a", { agent: "a" }), 6);
    expect(await seqs(sp.session("of-a"))).toEqual([2, 3, 4, 5]);
  });

  it("are applied to the whole store on request", async () => {
    const clock = { now: 0 };
    const sp = await open(clock);
    const [s, t] = [sp.session("s"), sp.session("t")];
    await fill(s, 5);
    await fill(t, 4);
    await t.save({ n: 4 }, { ttl: 10 });
    await t.save({ n: 5 });
    await fill(sp.session("u"), 3);
    clock.now = 11;
    await sp.retention.set({ session: "s" }, { keepLast: 2 });
    const result = await sp.retention.apply();
    expect(result.gone.map(({ sessionId, seq }) => [sessionId, seq])).toEqual([
      ["s", 0],
      ["s", 1],
      ["s", 2],
      ["t", 4],
    ]);
    expect(new Set(result.kept.map(({ sessionId }) => sessionId))).toEqual(new Set(["s", "t"]));
    expect(await sp.retention.apply()).toMatchObject({ removed: 0, rowsOnly: false });
    expect((await sp.stats()).checkpoints).toBe(10);
  });

  it("lose no checkpoint that must stay when two processes save at once", async () => {
    failures.length = 0;
    const [sp, other] = [await open(), await open()];
    await sp.retention.set({}, { keepLast: 3 });
    const first = await sp.session("s").save({ n: -1 }, { pinned: true });
    const branches = [sp.session("s"), await other.session("s").fork(first.id, { branch: "side" })];
    const saved = await Promise.all(
      branches.map(async (session) => {
        const ids: string[] = [];
        for (let n = 0; n < 40; n++) ids.push((await session.save({ n, branch: session.branch })).id);
        return ids;
      }),
    );
    expect(failures).toEqual([]);
    for (const [index, session] of branches.entries()) {
      const wanted = saved[index]?.slice(-3).reverse();
      expect((await session.history().all()).map(({ id }) => id)).toEqual([...(wanted ?? []), first.id]);
      expect((await session.latest())?.state).toEqual({ n: 39, branch: session.branch });
    }
    expect((await sp.stats()).checkpoints).toBe(7);
  });
});
