/** Pruning: what stays and why, what is removed, and that everything that stays is unchanged. */
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { message, type Savepoint, type Session } from "../../src/index.js";
import { STORES, useData } from "./stores.js";
import { runs } from "../support/runs.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe.each(STORES)("pruning on $name", (kind) => {
  const data = useData(kind);

  async function seqs(session: Session): Promise<number[]> {
    return (await session.history({ allBranches: true, order: "oldest" }).all()).map(({ seq }) => seq);
  }

  /** Saves `count` states, `step` milliseconds apart, the first at 0. */
  async function fill(session: Session, clock: { now: number }, count: number, step: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      clock.now = n * step;
      await session.save({ n, messages: Array.from({ length: n }, (_, index) => message.user(`message ${index}`)) });
    }
  }

  async function openFilled(count: number, step: number): Promise<{ sp: Savepoint; session: Session }> {
    const clock = { now: 0 };
    const sp = await data.open({ now: () => clock.now, durability: "process" });
    const session = sp.session("s");
    await fill(session, clock, count, step);
    return { sp, session };
  }

  it("keeps the last checkpoints of each branch, and reports why each stays", async () => {
    const { sp, session } = await openFilled(10, 1);
    const fork = await session.fork("s#4", { branch: "side" });
    for (let n = 0; n < 4; n++) await fork.save({ side: n });
    const { gone, kept } = await sp.prune({ session: "s", keepLast: 2 });
    expect(await seqs(session)).toEqual([4, 8, 9, 12, 13]);
    expect(gone.map(({ seq }) => seq)).toEqual([0, 1, 2, 3, 5, 6, 7, 10, 11]);
    expect(kept.map(({ seq, reasons }) => [seq, reasons])).toEqual([
      [4, ["needed"]],
      [8, ["last"]],
      [9, ["head", "last"]],
      [12, ["last"]],
      [13, ["head", "last"]],
    ]);
    expect((await session.latest())?.state).toMatchObject({ n: 9 });
    expect((await fork.history().all()).map(({ seq }) => seq)).toEqual([13, 12, 4]);
    expect((await sp.stats()).checkpoints).toBe(5);
  });

  it("keeps the newest checkpoint of each hour, day and week, up to the given numbers", async () => {
    const { sp, session } = await openFilled(40, 8 * HOUR);
    expect((await sp.prune({ session: "s", keepHourly: 3, dryRun: true })).kept.map(({ seq }) => seq)).toEqual([
      37, 38, 39,
    ]);
    // Three a day: the last of each day is the third.
    expect((await sp.prune({ session: "s", keepDaily: 3, dryRun: true })).kept.map(({ seq }) => seq)).toEqual([
      35, 38, 39,
    ]);
    // 1970 began on a Thursday: its first week has four days, twelve checkpoints, the next one begins on the fifth.
    const weekly = await sp.prune({ session: "s", keepWeekly: 3 });
    expect(weekly.kept.map(({ seq, reasons }) => [seq, reasons])).toEqual([
      [11, ["weekly"]],
      [32, ["weekly"]],
      [39, ["head", "weekly"]],
    ]);
    expect(await seqs(session)).toEqual([11, 32, 39]);
  });

  it("keeps checkpoints that are young, labelled, pinned or of another kind", async () => {
    const clock = { now: 0 };
    const sp = await data.open({ now: () => clock.now, durability: "process" });
    const session = sp.session("s");
    const kinds = ["automatic", "manual"] as const;
    for (let n = 0; n < 8; n++) {
      clock.now = n * DAY;
      await session.save(
        { n },
        { kind: kinds[n % 2] as (typeof kinds)[0], ...(n === 2 && { label: "two" }), pinned: n === 4 },
      );
    }
    await session.label("s#0", "later");
    await session.pin("s#4", false);
    await session.pin("s#6");
    const kept = async (options: object): Promise<(number | string[])[][]> =>
      (await sp.prune({ session: "s", dryRun: true, ...options })).kept.map(({ seq, reasons }) => [seq, [...reasons]]);
    expect(await kept({ keepWithin: "36h" })).toEqual([
      [0, ["labelled"]],
      [2, ["labelled"]],
      [6, ["pinned", "within"]],
      [7, ["head", "within"]],
    ]);
    expect(await kept({ keepLast: 0, keepLabelled: false, kinds: ["automatic"] })).toEqual([
      [1, ["kind"]],
      [3, ["kind"]],
      [5, ["kind"]],
      [6, ["pinned"]],
      [7, ["head", "kind"]],
    ]);
  });

  it("with keepLast: 0 keeps heads, and a dry run changes nothing", async () => {
    const { sp, session } = await openFilled(5, 1);
    const before = await session.history().all();
    const plan = await sp.prune({ session: "s", keepLast: 0, dryRun: true });
    expect(plan).toMatchObject({ dryRun: true, items: 0 });
    expect(await session.history().all()).toEqual(before);
    const done = await sp.prune({ session: "s", keepLast: 0 });
    expect(done.gone).toEqual(plan.gone);
    expect(done.removed).toBe(plan.removed);
    expect(await seqs(session)).toEqual([4]);
    expect(await session.history().all()).toMatchObject([{ seq: 4, parentId: undefined }]);
  });

  it("frees items that only removed checkpoints needed, and only rows if states only grow", async () => {
    const { sp, session } = await openFilled(30, 1);
    expect(await sp.prune({ session: "s", keepLast: 1 })).toMatchObject({ items: 0, bytes: 0 });
    for (let n = 0; n < 10; n++) await session.save({ text: `${n}`.repeat(3000) });
    const { items, bytes } = await sp.prune({ session: "s", keepLast: 1 });
    expect(items).toBeGreaterThan(0);
    expect(bytes).toBeGreaterThan(1000);
    expect((await session.latest())?.state).toEqual({ text: "9".repeat(3000) });
  });

  it("applies to an agent with its sessions, or to the whole store", async () => {
    const sp = await data.open({ durability: "process" });
    await sp.agents.save({ id: "a", name: "A" });
    for (let n = 0; n < 4; n++) {
      await sp.checkpoints.create({ agent: "a" });
      await sp.session("of-a", { agent: "a" }).save({ n });
      await sp.session("other").save({ n });
    }
    const count = async (): Promise<number[]> =>
      Promise.all(
        [{ agent: "a", of: "agent" as const }, { session: "of-a" }, { session: "other" }].map(
          async (filter) => (await sp.checkpoints.list(filter).all()).length,
        ),
      );
    await sp.prune({ agent: "a", keepLast: 2 });
    expect(await count()).toEqual([2, 2, 4]);
    const { removed } = await sp.prune({ keepLast: 1 });
    expect(removed).toBe(5);
    expect(await count()).toEqual([1, 1, 1]);
    expect((await sp.agents.load("a"))?.name).toBe("A");
  });

  it("takes a checkpoint of the agent first, if its policy asks for it", async () => {
    const sp = await data.open({ durability: "process" });
    await sp.agents.save({ id: "a", name: "A" });
    await sp.autoCheckpoints.set({ agent: "a" });
    await sp.checkpoints.create({ agent: "a" });
    await sp.prune({ agent: "a", keepLast: 1 });
    expect(await sp.checkpoints.list({ agent: "a" }).all()).toMatchObject([{ kind: "preOperation", trigger: "prune" }]);
  });

  it("rejects empty and invalid rules", async () => {
    const sp = await data.open();
    for (const options of [{}, { keepLast: -1 }, { keepLast: 1.5 }, { keepWithin: "soon" }, { keepLst: 3 }]) {
      await expect(sp.prune({ session: "s", ...options } as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    expect(await sp.prune({ session: "never saved", keepLast: 1 })).toMatchObject({ removed: 0, gone: [], kept: [] });
  });

  it("leaves remaining checkpoints unchanged after random saves, forks, rewinds and prunes", async () => {
    const sp = await data.open({ durability: "process" });
    const action = fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant("save" as const), at: fc.nat(3), size: fc.nat(30) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("fork" as const), from: fc.nat(50) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("rewind" as const), at: fc.nat(3), to: fc.nat(50) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("pin" as const), to: fc.nat(50) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("prune" as const), keepLast: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("compact" as const) }) },
    );
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 30 }), async (actions) => {
        const main = sp.session<{ list: string[] }>(`s${run++}`);
        const branches = [main];
        const states = new Map<string, unknown>();
        const ids = async (): Promise<string[]> =>
          (await main.history({ allBranches: true, order: "oldest" }).all()).map(({ id }) => id);
        const pick = async (index: number): Promise<string | undefined> => {
          const all = await ids();
          return all.length === 0 ? undefined : all[index % all.length];
        };
        for (const each of actions) {
          if (each.kind === "save") {
            const state = { list: Array.from({ length: each.size }, (_, n) => `entry ${n} ${"x".repeat(40)}`) };
            const { id } = await (branches[each.at % branches.length] as typeof main).save(state);
            states.set(id, state);
          } else if (each.kind === "fork") {
            const from = await pick(each.from);
            if (from !== undefined) branches.push(await main.fork(from));
          } else if (each.kind === "rewind") {
            const to = await pick(each.to);
            const branch = branches[each.at % branches.length] as typeof main;
            if (to === undefined || !(await branch.head())) continue;
            await branch.rewind(to);
            for (const id of await ids()) if (!states.has(id)) states.set(id, (await main.load(id))?.state);
          } else if (each.kind === "pin") {
            const to = await pick(each.to);
            if (to !== undefined) await main.pin(to);
          } else if (each.kind === "prune") {
            const before = await ids();
            const { gone, kept } = await sp.prune({ session: main.id, keepLast: each.keepLast });
            expect([...gone, ...kept].map(({ id }) => id).sort()).toEqual(before.slice().sort());
            expect(await ids()).toEqual(kept.map(({ id }) => id));
          } else await sp.compact();
          for (const branch of branches) await branch.head();
        }
        for (const id of await ids()) expect((await main.load(id))?.state).toEqual(states.get(id));
        const all = new Set(await ids());
        for (const branch of branches) {
          const line = await branch.history().all();
          // Each follows the next one: the line has no gap.
          for (const [index, info] of line.entries()) expect(info.parentId).toBe(line[index + 1]?.id);
          for (const { id } of line) expect(all.has(id)).toBe(true);
        }
        expect((await sp.sessions.load(main.id))?.head?.id).toBe((await main.head())?.id);
      }),
      { numRuns: runs(40, 3) },
    );
  });

  it("is safe while other processes save and fork", async () => {
    const [sp, other] = [await data.open({ durability: "process" }), await data.open({ durability: "process" })];
    const writer = other.session<{ n: number }>("s");
    const saved: string[] = [];
    let done = false;
    const writing = (async () => {
      for (let n = 0; n < 60; n++) saved.push((await writer.save({ n })).id);
    })().finally(() => (done = true));
    for (; !done; await nextTurn()) await sp.prune({ session: "s", keepLast: 3 });
    await writing;
    await sp.prune({ session: "s", keepLast: 3 });
    expect((await sp.session("s").history().all()).map(({ id }) => id)).toEqual(saved.slice(-3).reverse());
  });
});
