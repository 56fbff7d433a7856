import { describe, expect, it } from "vitest";
import type { OpenOptions, Savepoint, Session } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";

interface V0 {
  count: number;
}
interface V1 {
  counts: number[];
}
interface V2 {
  counts: number[];
  sum: number;
}
interface V3 {
  totals: { counts: number[]; sum: number };
}

const toV1 = ({ count }: V0): V1 => ({ counts: [count] });
/** Changes its argument, and returns nothing. */
const toV2 = (state: V1 & { sum?: number }): void => {
  state.sum = state.counts.reduce((sum, count) => sum + count, 0);
};
/** Is asynchronous. */
const toV3 = async ({ counts, sum }: V2): Promise<V3> => ({ totals: { counts, sum } });

const ALL = [toV1, toV2, toV3];

/** A program that knows the first n migrations of agent "a". */
function version(count: number): OpenOptions {
  const known = ALL.slice(0, count);
  return { migrations: { a: { agent: known, session: known } } };
}

const v3 = (...counts: number[]): V3 => ({ totals: { counts, sum: counts.reduce((a, b) => a + b, 0) } });

describe.each(STORES)("migrations of agents on $name", (kind) => {
  const data = useData(kind);

  it("bring every earlier version up to date when it is loaded, and do not change the stored data", async () => {
    const states: unknown[] = [{ count: 5 }, { counts: [5] }, { counts: [5], sum: 5 }, v3(5)];
    for (const [from, state] of states.entries()) {
      const writer = await data.open(from === 0 ? {} : version(from));
      await writer.agents.save({ id: "a", name: "A", state });
      for (let to = Math.max(1, from); to <= 3; to++) {
        const reader = await data.open(version(to));
        expect((await reader.agents.load("a"))?.state, `${from} to ${to}`).toStrictEqual(states[to]);
        expect((await reader.agents.load("a"))?.state).toStrictEqual(states[to]);
      }
      expect(await writer.agents.load("a")).toMatchObject({ state, version: 1 });
      await writer.agents.delete("a");
    }
  });

  it("are persisted by save and update, and never run twice", async () => {
    await (await data.open()).agents.save({ id: "a", name: "A", config: { k: 1 }, state: { count: 1 } });
    const one = await data.open(version(1));
    await one.agents.update<V1>("a", ({ state }) => ({ state: { counts: [...state.counts, 2] } }));
    expect((await one.agents.load("a"))?.state).toStrictEqual({ counts: [1, 2] });
    const three = await data.open(version(3));
    await three.agents.update("a", { name: "B" });
    const loaded = await three.agents.load<V3>("a");
    expect(loaded).toMatchObject({ name: "B", config: { k: 1 }, version: 3 });
    expect(loaded?.state).toStrictEqual(v3(1, 2));
    await three.agents.save({ id: "a", name: "C", state: v3(7) });
    expect((await (await data.open(version(3))).agents.load("a"))?.state).toStrictEqual(v3(7));
    // A new agent needs no migration.
    await three.agents.delete("a");
    await three.agents.save({ id: "a", name: "D", state: v3(8) });
    expect((await three.agents.load("a"))?.state).toStrictEqual(v3(8));
  });

  it("reject every call of an older program with AGENT_TOO_OLD, and change nothing", async () => {
    await (await data.open(version(3))).agents.save({ id: "a", name: "A", state: v3(1) });
    const old = await data.open(version(2));
    for (const attempt of [
      () => old.agents.load("a"),
      () => old.agents.save({ id: "a", name: "X", state: {} }),
      () => old.agents.update("a", { name: "X" }),
      () => old.agents.update("a", () => ({ name: "X" })),
    ]) {
      await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "AGENT_TOO_OLD" });
    }
    expect((await old.agents.list().all()).map(({ name }) => name)).toEqual(["A"]);
    const newer = await data.open(version(3));
    expect(await newer.agents.load("a")).toMatchObject({ name: "A", version: 1, state: v3(1) });
    // It may still delete the agent and start again.
    await old.agents.delete("a");
    await old.agents.save({ id: "a", name: "Y", state: { counts: [2], sum: 2 } });
    expect((await newer.agents.load("a"))?.state).toStrictEqual(v3(2));
  });

  it("do not affect a program that declares none, and its saves keep the stored version", async () => {
    await (await data.open(version(3))).agents.save({ id: "a", name: "A", state: v3(1) });
    const plain = await data.open();
    expect((await plain.agents.load("a"))?.state).toStrictEqual(v3(1));
    await plain.agents.update("a", { name: "B" });
    await plain.agents.save({ id: "a", name: "C", state: v3(2) });
    expect(await (await data.open(version(3))).agents.load("a")).toMatchObject({ name: "C", state: v3(2), version: 3 });
  });

  it("that throw are reported as AGENT_FAILED with the cause, and nothing changes", async () => {
    await (await data.open()).agents.save({ id: "a", name: "A", state: { count: 1 } });
    const cause = new Error("no such count");
    const failing = (): never => {
      throw cause;
    };
    const rejecting = async (): Promise<never> => {
      throw cause;
    };
    for (const bad of [failing, rejecting]) {
      const sp = await data.open({ migrations: { a: { agent: [toV1, bad] } } });
      await expect(sp.agents.load("a")).rejects.toMatchObject({ code: "AGENT_FAILED", cause });
      await expect(sp.agents.update("a", { name: "X" })).rejects.toMatchObject({ code: "AGENT_FAILED", cause });
    }
    expect(await (await data.open()).agents.load("a")).toMatchObject({ name: "A", version: 1, state: { count: 1 } });
    expect((await (await data.open(version(3))).agents.load("a"))?.state).toStrictEqual(v3(1));
  });

  it("lose no update when two programs migrate and update at once", async () => {
    await (await data.open()).agents.save({ id: "a", name: "A", state: { count: 0 } });
    const sps = [await data.open(version(3)), await data.open(version(3))];
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (sps[n % 2] as Savepoint).agents.update<V3>("a", ({ state: { totals } }) => ({
          state: { totals: { counts: [...totals.counts, n], sum: totals.sum + n } },
        })),
      ),
    );
    const state = (await sps[0]?.agents.load<V3>("a"))?.state;
    expect(state?.totals.sum).toBe(190);
    expect([...(state?.totals.counts ?? [])].sort((a, b) => a - b)).toEqual([
      0,
      ...Array.from({ length: 20 }, (_, n) => n),
    ]);
  });

  it("belong to one agent only, and apply to its checkpoints", async () => {
    const plain = await data.open();
    for (const id of ["a", "b"]) await plain.agents.save({ id, name: id, state: { count: 1 } });
    const { id } = await plain.checkpoints.create({ agent: "a" });
    const sp = await data.open(version(3));
    expect((await sp.agents.load("b"))?.state).toStrictEqual({ count: 1 });
    await sp.agents.save({ id: "a", name: "A", state: v3(9) });
    expect(await sp.checkpoints.load(id)).toMatchObject({ state: { state: v3(1) } });
    await sp.checkpoints.restore(id);
    expect((await sp.agents.load("a"))?.state).toStrictEqual(v3(1));
    expect((await (await data.open(version(3))).agents.load("a"))?.state).toStrictEqual(v3(1));
  });

  it("let an older program take a checkpoint, which keeps the version of the state", async () => {
    const newer = await data.open(version(3));
    await newer.agents.save({ id: "a", name: "A", state: v3(1) });
    const { id } = await (await data.open(version(2))).checkpoints.create({ agent: "a" });
    expect(await newer.agents.load("a")).toMatchObject({ name: "A", version: 1, state: v3(1) });
    expect(await newer.checkpoints.load(id)).toMatchObject({ state: { state: v3(1) } });
  });

  it("apply to a checkpoint that the newer program takes before its first save", async () => {
    await (await data.open()).agents.save({ id: "a", name: "A", state: { count: 1 } });
    const sp = await data.open(version(3));
    const { id } = await sp.checkpoints.create({ agent: "a" });
    for (const reader of [sp, await data.open(version(3))]) {
      expect((await reader.agents.load("a"))?.state).toStrictEqual(v3(1));
      expect(await reader.checkpoints.load(id)).toMatchObject({ state: { state: v3(1) } });
    }
    await sp.agents.save({ id: "a", name: "A", state: v3(2) });
    await sp.checkpoints.restore(id);
    expect((await (await data.open(version(3))).agents.load("a"))?.state).toStrictEqual(v3(1));
  });

  it("that are not functions are rejected when the store is opened", async () => {
    await expect(data.open({ migrations: { a: { agent: ["no"] as never } } })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe.each(STORES)("migrations of sessions on $name", (kind) => {
  const data = useData(kind);

  /** The session of agent "a", as a program of this version sees it. */
  async function openSession<State = unknown>(count: number, branch?: string): Promise<Session<State>> {
    const options = branch === undefined ? { agent: "a" } : { agent: "a", branch };
    return (await data.open(count === 0 ? {} : version(count))).session<State>("s", options);
  }

  /** One checkpoint of each version. */
  async function saveAll(): Promise<string[]> {
    const ids: string[] = [];
    ids.push((await (await openSession(0)).save({ count: 5 })).id);
    ids.push((await (await openSession(1)).save({ counts: [5] })).id);
    ids.push((await (await openSession(2)).save({ counts: [5], sum: 5 })).id);
    ids.push((await (await openSession(3)).save(v3(5))).id);
    return ids;
  }

  it("bring each checkpoint up to date when it is loaded, and do not change the stored one", async () => {
    const ids = await saveAll();
    const session = await openSession(3);
    for (const [index, id] of ids.entries()) {
      for (let n = 0; n < 2; n++) {
        // A state that was saved by a program without migrations has no version.
        expect(await session.load(id)).toMatchObject({ version: index === 0 ? undefined : index, state: v3(5) });
      }
    }
    expect(await session.latest()).toMatchObject({ version: 3, state: v3(5) });
    expect((await session.history({ order: "oldest" }).all()).map((info) => info.version)).toEqual([
      undefined,
      1,
      2,
      3,
    ]);
    expect((await (await openSession(0)).load(ids[0] as string))?.state).toStrictEqual({ count: 5 });
  });

  it("bring the newest checkpoint up to date, also for a handle that does not name the agent", async () => {
    await (await openSession(0)).save({ count: 4 });
    const sp = await data.open(version(3));
    expect((await sp.session("s").latest())?.state).toStrictEqual(v3(4));
    expect((await sp.session("s").latest())?.state).toStrictEqual(v3(4)); // toV2 changes its argument
    expect(await sp.session("s").head()).toMatchObject({ version: undefined });
  });

  it("are persisted by update", async () => {
    await (await openSession(0)).save({ count: 1 });
    const session = await openSession<V3>(3);
    const saved = await session.update((state) => {
      const { totals } = state as V3;
      return { totals: { counts: [...totals.counts, 2], sum: totals.sum + 2 } };
    });
    expect(saved).toMatchObject({ version: 3, seq: 1 });
    await session.update((state) => state as V3);
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(1, 2));
  });

  it("are persisted by append", async () => {
    await (await openSession(0)).save({ count: 1 });
    const session = await openSession(1);
    expect(await session.append("/counts", [2, 3])).toMatchObject({ version: 1 });
    await session.append("/counts", [4]);
    expect((await (await openSession(1)).latest())?.state).toStrictEqual({ counts: [1, 2, 3, 4] });
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(1, 2, 3, 4));
  });

  it("set the version of every saved state, the first and all later ones", async () => {
    const fresh = await openSession(2);
    expect(await fresh.save({ counts: [1], sum: 1 })).toMatchObject({ version: 2 });
    expect((await fresh.latest())?.state).toStrictEqual({ counts: [1], sum: 1 });
    const newer = await openSession(3);
    expect(await newer.save(v3(2))).toMatchObject({ version: 3 });
    expect(await newer.save(v3(3))).toMatchObject({ version: 3 });
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(3));
  });

  it("reject every call of an older program with AGENT_TOO_OLD, and change nothing", async () => {
    const [first] = await saveAll();
    const old = async (): Promise<Session<unknown>> => openSession(2);
    for (const attempt of [
      async () => (await old()).latest(),
      async () => (await old()).save({ counts: [], sum: 0 }),
      async () => (await old()).append("/totals/counts", [1]),
      async () => (await old()).update((state) => state),
      async () => (await old()).load({ seq: 3 }),
    ]) {
      await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "AGENT_TOO_OLD" });
    }
    // Earlier checkpoints are not too new for it.
    expect((await (await old()).load(first as string))?.state).toStrictEqual({ counts: [5], sum: 5 });
    expect(await (await openSession(3)).history().all()).toHaveLength(4);
  });

  it("do not affect a program that declares none, and its saves keep the stored version", async () => {
    await (await openSession(3)).save(v3(1));
    const plain = await openSession(0);
    expect((await plain.latest())?.state).toStrictEqual(v3(1));
    expect(await plain.append("/totals/counts", [0])).toMatchObject({ version: 3 });
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(1, 0));
  });

  it("that throw are reported as AGENT_FAILED with the cause, and nothing changes", async () => {
    await (await openSession(0)).save({ count: 1 });
    const cause = new Error("no");
    const bad = (): never => {
      throw cause;
    };
    const session = (await data.open({ migrations: { a: { session: [toV1, bad] } } })).session("s", { agent: "a" });
    for (const attempt of [
      () => session.latest(),
      () => session.load({ seq: 0 }),
      () => session.update((state) => state),
      () => session.append("/counts", [1]),
    ]) {
      await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "AGENT_FAILED", cause });
    }
    expect(await (await openSession(0)).history().all()).toHaveLength(1);
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(1));
  });

  it("apply to rewinds and forks", async () => {
    const [first] = await saveAll();
    const session = await openSession(3);
    const fork = await session.fork(first as string, { branch: "side" });
    expect((await fork.latest())?.state).toStrictEqual(v3(5));
    expect(await fork.append("/totals/counts", [6])).toMatchObject({ version: 3 });
    expect((await (await openSession(3, "side")).latest())?.state).toStrictEqual({
      totals: { counts: [5, 6], sum: 5 },
    });
    expect(await session.rewind(first as string)).toMatchObject({ version: undefined });
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(5));
  });

  it("do not run on a state with which update has started a session", async () => {
    expect(await (await openSession(3)).update(() => v3(4))).toMatchObject({ version: 3 });
    expect((await (await openSession(3)).latest())?.state).toStrictEqual(v3(4));
  });

  it("do not run on a state that was passed to a fork", async () => {
    const { id } = await (await openSession(0)).save({ count: 1 });
    const fork = await (await openSession(3)).fork(id, { branch: "side", state: v3(9) });
    expect((await fork.latest())?.state).toStrictEqual(v3(9));
  });

  it("set the version of a state that is saved after an earlier checkpoint", async () => {
    const [first] = await saveAll();
    const session = await openSession(3);
    const saved = await session.save(v3(9), { parent: first as string });
    expect(saved).toMatchObject({ version: 3 });
    expect((await session.load(saved.id))?.state).toStrictEqual(v3(9));
  });

  it("do not change that update rejects a callback without a result with INVALID_ARGUMENT", async () => {
    const { id } = await (await openSession(3)).save(v3(1));
    const session = await openSession(3);
    await expect(session.update(() => undefined)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await session.latest())?.id).toBe(id);
  });

  it("do not change that update rejects a callback without a result on an earlier version, too", async () => {
    await (await openSession(0)).save({ count: 1 });
    const session = await openSession(3);
    await expect(session.update(() => undefined)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await session.latest())?.state).toStrictEqual(v3(1));
  });
});
