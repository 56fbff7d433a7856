import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import {
  type AgentCheckpoint,
  type BackgroundFailureEvent,
  defineAgent,
  message,
  type OpenOptions,
  type Savepoint,
} from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, interruptIn, until, useLab, World } from "../run/lab.js";
import { AGENT, begin, FAST, idsIn, passIntervals, saveAgent, talk, texts } from "./agent-data.js";

async function kindsOf(sp: Savepoint, filter: { agent?: string; session?: string }): Promise<string[]> {
  return (await sp.checkpoints.list(filter).all()).map(({ kind }) => kind);
}

/** Those that are counted against `max`. */
async function countAutomatic(sp: Savepoint, filter: { agent?: string; session?: string }): Promise<number> {
  return (await kindsOf(sp, filter)).filter((kind) => kind === "automatic" || kind === "preOperation").length;
}

describe.each(STORES)("the policy of automatic checkpoints on $name", (kind) => {
  const data = useData(kind);

  it("is kept in the store, and fields that are not given stay unchanged", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await saveAgent(sp, 1);
    for (const target of [{ agent: AGENT }, { session: "s" }]) {
      expect(await sp.autoCheckpoints.load(target)).toBeUndefined();
      await sp.autoCheckpoints.set(target, { interval: "10m" });
      await other.autoCheckpoints.set(target, { max: 3 });
      const policy = { interval: 600_000, max: 3, beforeOperations: true, enabled: true };
      expect(await sp.autoCheckpoints.load(target)).toEqual(policy);
      expect(await other.autoCheckpoints.set(target, { enabled: false })).toEqual({ ...policy, enabled: false });
      expect(await sp.autoCheckpoints.remove(target)).toBe(true);
      expect(await other.autoCheckpoints.remove(target)).toBe(false);
      expect(await other.autoCheckpoints.load(target)).toBeUndefined();
    }
    expect((await sp.agents.load(AGENT))?.state).toEqual({ counter: 1 });
  });

  it.each([0, -1, NaN, Infinity, "0s", "x", 2 ** 40] as never[])("refuses an interval of %o", async (interval) => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    expect(await codeOf(sp.autoCheckpoints.set({ agent: AGENT }, { interval }))).toBe("INVALID_ARGUMENT");
    expect(await sp.autoCheckpoints.load({ agent: AGENT })).toBeUndefined();
  });

  it.each([0, -1, 1.5, NaN, Infinity, "3"] as never[])("refuses max %o", async (max) => {
    const sp = await data.open(FAST);
    expect(await codeOf(sp.autoCheckpoints.set({ session: "s" }, { max }))).toBe("INVALID_ARGUMENT");
    expect(await sp.autoCheckpoints.load({ session: "s" })).toBeUndefined();
  });

  it("needs an existing agent; a session may be created later", async () => {
    const sp = await data.open(FAST);
    expect(await codeOf(sp.autoCheckpoints.set({ agent: "nobody" }))).toBe("AGENT_NOT_FOUND");
    expect(await codeOf(sp.autoCheckpoints.start({ agent: "nobody" }))).toBe("AGENT_NOT_FOUND");
    await sp.autoCheckpoints.set({ session: "s" }, { max: 1 });
    await sp.session("s", { agent: AGENT }).save(1, { kind: "automatic" });
    expect((await sp.session("s").head())?.agent).toBe(AGENT);
  });
});

describe.each(STORES)("the limit of automatic checkpoints on $name", (kind) => {
  const data = useData(kind);

  it("is applied by create, and never removes manual, recovered or pinned checkpoints", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 3 });
    const manual = await sp.checkpoints.create({ agent: AGENT, label: "mine" });
    const pinned = await sp.checkpoints.create({ agent: AGENT, kind: "automatic", pinned: true });
    const made: string[] = [];
    for (let n = 1; n <= 8; n++) {
      await saveAgent(sp, n);
      made.push((await sp.checkpoints.create({ agent: AGENT, kind: "automatic" })).id);
      expect(await sp.checkpoints.load(made.at(-1) ?? "")).toBeDefined();
      // The pinned one is not counted.
      expect(await countAutomatic(sp, { agent: AGENT })).toBeLessThanOrEqual(4);
    }
    const left = await idsIn(sp.checkpoints.list({ agent: AGENT }));
    expect(left).toEqual([...made.slice(-3).slice().reverse(), pinned.id, manual.id]);
    expect((await sp.stats()).checkpoints).toBe(5);
    expect(((await sp.checkpoints.load(made[7] ?? "")) as AgentCheckpoint).state.state).toEqual({ counter: 8 });
  });

  it("is applied by restore and by rewind, which never remove the checkpoint they have just taken", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 2 });
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const session = sp.session("s");
    const first = await session.save(0);
    for (let n = 1; n <= 5; n++) {
      await saveAgent(sp, n);
      const { before } = await sp.checkpoints.restore(id);
      expect(((await sp.checkpoints.load(before.id)) as AgentCheckpoint).state.state).toEqual({ counter: n });
      await session.head();
      await session.save(n, { kind: "automatic" });
      const report = await sp.checkpoints.restore(first.id);
      expect((await sp.checkpoints.load(report.before.id))?.state).toBe(n);
      expect(await countAutomatic(sp, { agent: AGENT })).toBeLessThanOrEqual(2);
      expect(await countAutomatic(sp, { session: "s" })).toBeLessThanOrEqual(2);
    }
    expect((await kindsOf(sp, { session: "s" })).filter((each) => each === "recovery")).toHaveLength(5);
    expect((await session.latest())?.state).toBe(0);
  });

  it.each([1, 2])("of %i is applied if pinned checkpoints fill it, and the one just taken stays", async (max) => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    for (let n = 0; n < max; n++) await sp.checkpoints.create({ agent: AGENT, kind: "automatic", pinned: true });
    await saveAgent(sp, 1);
    const { before } = await sp.checkpoints.restore(id);
    expect(await sp.checkpoints.load(before.id)).toBeDefined();
  });

  it("is applied by a rewind if pinned checkpoints fill it, and the rewind does not fail", async () => {
    const sp = await data.open(FAST);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 1 });
    const session = sp.session("s");
    const { id } = await session.save(1, { kind: "automatic", pinned: true });
    await session.save(2);
    const { before } = await sp.checkpoints.restore(id);
    expect((await sp.checkpoints.load(before.id))?.state).toBe(2);
  });

  it("is applied by automatic saves, appends and updates of two Savepoints", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    const session = sp.session<{ list: number[] }>("s");
    await session.save({ list: [] }, { label: "mine" });
    await other.autoCheckpoints.set({ session: "s" }, { max: 4 });
    for (let n = 0; n < 6; n++) {
      await session.append("/list", [n], { kind: "automatic" });
      expect(await countAutomatic(sp, { session: "s" })).toBeLessThanOrEqual(4);
    }
    const theirs = other.session<{ list: number[] }>("s");
    for (let n = 6; n < 12; n++) {
      await theirs.update((state) => ({ list: [...(state?.list ?? []), n] }), { kind: "automatic" });
      expect(await countAutomatic(sp, { session: "s" })).toBeLessThanOrEqual(4);
    }
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    await theirs.latest();
    await theirs.save({ list: [99] }, { kind: "automatic" });
    expect(await countAutomatic(sp, { session: "s" })).toBe(2);
    const history = await session.history().all();
    expect(history.map(({ label }) => label)).toEqual([undefined, undefined, "mine"]);
    expect(history.map(({ parentId }) => parentId)).toEqual([history[1]?.id, history[2]?.id, undefined]);
    expect((await session.load({ label: "mine" }))?.state).toEqual({ list: [] });
    expect((await session.load(history[1]?.id ?? ""))?.state.list).toHaveLength(12);
    expect((await sp.stats()).checkpoints).toBe(3);
  });

  it("is applied if two Savepoints save checkpoints of an agent at once", async () => {
    const savepoints = [await data.open(FAST), await data.open(FAST)] as const;
    await saveAgent(savepoints[0], 0);
    await savepoints[0].autoCheckpoints.set({ agent: AGENT }, { max: 3 });
    await Promise.all(
      savepoints.flatMap((sp) =>
        Array.from({ length: 8 }, () => sp.checkpoints.create({ agent: AGENT, kind: "automatic" })),
      ),
    );
    expect(await countAutomatic(savepoints[0], { agent: AGENT })).toBe(3);
  });

  it("never removes the start of a branch, nor a head", async () => {
    const sp = await data.open(FAST);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 1 });
    const session = sp.session("s");
    const a = await session.save("a", { kind: "automatic" });
    const side = await session.fork(a.id, { branch: "side" });
    const b = await side.save("b", { kind: "automatic" });
    for (let n = 0; n < 5; n++) await session.save(n, { kind: "automatic" });
    const left = await idsIn(sp.checkpoints.list({ session: "s" }));
    expect(left).toHaveLength(3);
    expect(left).toEqual(expect.arrayContaining([a.id, b.id]));
    expect((await side.latest())?.state).toBe("b");
    expect((await session.latest())?.state).toBe(4);
  });
});

describe.each(ALL_KINDS)("the limit of automatic checkpoints in runs on $name", (kind) => {
  const lab = useLab(kind);

  function counter(world: World) {
    return defineAgent({
      name: "counter",
      strategy: "everyStep",
      loop: false,
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        run.state.n++;
        await run.effect("work", () => world.do(`work ${run.step}`));
        return run.step === 12 ? run.complete(run.state.n) : undefined;
      },
    });
  }

  it("is applied; the run resumes and completes, and the remaining checkpoints can be forked", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.autoCheckpoints.set({ session: "s" }, { max: 3 });
    await interruptIn(lab, sp, counter(world), "go", world, "work 8");
    const other = await lab.open();
    expect(await countAutomatic(other, { session: "s" })).toBeLessThanOrEqual(3);
    const result = await other.run(counter(world), { session: "s" });
    expect(result).toMatchObject({ status: "completed", output: 12 });
    for (let n = 1; n <= 12; n++) if (n !== 8) expect(world.count(`work ${n}`), `${n}`).toBe(1);
    const session = other.session<{ n: number }>("s");
    const history = await session.history().all();
    expect(history).toHaveLength(3);
    expect((await other.stats()).checkpoints).toBe(3);
    const last = history.at(-1);
    expect(last?.parentId).toBeUndefined();
    await session.fork(last?.id ?? "", { branch: "what-if", state: { n: 100 } });
    const forked = await other.run(counter(world), { session: "s", branch: "what-if" });
    expect(forked.status).toBe("completed");
    expect((forked as { output?: number }).output).toBeGreaterThan(100);
    expect((await session.latest())?.state).toEqual({ n: 12 });
  });
});

describe.each(STORES)("automatic checkpoints on $name", (kind) => {
  const data = useData(kind);

  async function openLoud(): Promise<{ sp: Savepoint; failures: BackgroundFailureEvent[] }> {
    const failures: BackgroundFailureEvent[] = [];
    const on: OpenOptions["on"] = { backgroundFailure: (failure) => void failures.push(failure) };
    return { sp: await data.open({ ...FAST, on }), failures };
  }
  const count = async (sp: Savepoint): Promise<number> => (await sp.checkpoints.list().all()).length;
  const untilCount = (sp: Savepoint, wanted: number): Promise<unknown> =>
    until(async () => (await count(sp)) === wanted, `${wanted} checkpoints`);

  it("automatic checkpoints are taken when something has changed, and only then, and none after stop", async () => {
    const { sp, failures } = await openLoud();
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 5 });
    await sp.autoCheckpoints.start({ agent: AGENT });
    await untilCount(sp, 1);
    await passIntervals(5);
    expect(await count(sp)).toBe(1);
    await talk(sp, "c", "more");
    await untilCount(sp, 2);
    await saveAgent(sp, 2);
    await untilCount(sp, 3);
    const [newest] = await sp.checkpoints.list().all();
    expect(newest).toMatchObject({ kind: "automatic", trigger: "interval", description: "Automatic checkpoint" });
    expect(await texts(sp, "c", newest?.id)).toEqual(["hello", "more"]);
    await saveAgent(sp, 3);
    await sp.autoCheckpoints.stop({ agent: AGENT });
    const stopped = await count(sp);
    await saveAgent(sp, 4);
    await passIntervals(5);
    expect(await count(sp)).toBe(stopped);
    await sp.autoCheckpoints.start({ agent: AGENT });
    await untilCount(sp, stopped + 1);
    await sp.autoCheckpoints.stop();
    await sp.autoCheckpoints.stop();
    expect(failures).toEqual([]);
  });

  it("the first automatic checkpoint is taken after an interval, not at the start", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: "1h" });
    await sp.autoCheckpoints.start({ agent: AGENT });
    // By then a timer with a shorter interval has taken its checkpoint.
    await passIntervals(5);
    expect(await count(sp)).toBe(0);
    await sp.autoCheckpoints.stop();
  });

  it("automatic checkpoints that are started several times need one stop", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 5, max: 1000 });
    await Promise.all([1, 2, 3].map(() => sp.autoCheckpoints.start({ agent: AGENT })));
    await sp.autoCheckpoints.start({ agent: AGENT });
    await untilCount(sp, 1);
    await sp.autoCheckpoints.stop({ agent: AGENT });
    const stopped = await count(sp);
    await saveAgent(sp, 1);
    await passIntervals(5);
    expect(await count(sp)).toBe(stopped);
  });

  it("automatic checkpoints that are stopped while they start never begin", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 2 });
    const starting = sp.autoCheckpoints.start({ agent: AGENT });
    await sp.autoCheckpoints.stop({ agent: AGENT });
    await starting;
    await passIntervals(2);
    expect(await count(sp)).toBe(0);
  });

  it("automatic checkpoints obey their limit and the policy that another process sets", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 3, max: 2 });
    await sp.autoCheckpoints.start({ agent: AGENT });
    /** The state in the newest checkpoint. */
    const newest = async (): Promise<unknown> => {
      const [id] = await idsIn(other.checkpoints.list());
      const loaded = id === undefined ? undefined : await other.checkpoints.load(id);
      return (loaded as AgentCheckpoint | undefined)?.state.state;
    };
    const untilTaken = (n: number): Promise<unknown> =>
      until(async () => isDeepStrictEqual(await newest(), { counter: n }), `a checkpoint of ${n}`);
    for (let n = 1; n <= 6; n++) {
      await saveAgent(other, n);
      await untilTaken(n);
      expect(await count(other)).toBeLessThanOrEqual(3);
    }
    // Nothing has changed since the newest one: none is under way.
    await untilCount(other, 2);
    await other.autoCheckpoints.set({ agent: AGENT }, { enabled: false });
    const before = await idsIn(other.checkpoints.list());
    await saveAgent(other, 100);
    await passIntervals(3);
    expect(await idsIn(other.checkpoints.list())).toEqual(before);
    await other.autoCheckpoints.set({ agent: AGENT }, { enabled: true });
    await untilTaken(100);
    await sp.autoCheckpoints.stop();
  });

  it("automatic checkpoints that are disabled do nothing, whenever they are started", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await begin(sp, "c", "x");
    await sp.autoCheckpoints.set({ agent: AGENT }, { enabled: false, interval: 2 });
    await sp.autoCheckpoints.start({ agent: AGENT });
    await sp.conversations.delete("c");
    await passIntervals(2);
    expect(await count(sp)).toBe(0);
    await sp.autoCheckpoints.stop();
  });

  it("automatic checkpoints that fail report it, and are tried again", async () => {
    const { sp, failures } = await openLoud();
    let state: unknown = { broken: () => 1 };
    await sp.autoCheckpoints.set({ session: "s" }, { interval: 3 });
    await sp.autoCheckpoints.start({ session: sp.session("s"), state: () => state });
    await until(() => failures.length >= 2, "two failures");
    expect(failures[0]?.message).toContain('"s"');
    expect(failures[0]?.error).toBeInstanceOf(Error);
    expect(await count(sp)).toBe(0);
    state = { whole: 1 };
    await untilCount(sp, 1);
    expect((await sp.session("s").latest())?.state).toEqual({ whole: 1 });
    await sp.autoCheckpoints.stop();
  });

  it("automatic checkpoints of a session save what the program is working on, with its history limited", async () => {
    const sp = await data.open(FAST);
    const state = { list: [0] };
    const session = sp.session<{ list: number[] }>("s");
    await sp.autoCheckpoints.set({ session: "s" }, { interval: 3, max: 2 });
    await sp.autoCheckpoints.start({ session, state: () => state });
    for (let n = 1; n <= 5; n++) {
      state.list.push(n);
      const saved = async () => (await sp.session<{ list: number[] }>("s").latest())?.state.list.length;
      await until(async () => (await saved()) === n + 1, `a checkpoint with ${n + 1} elements`);
    }
    await sp.autoCheckpoints.stop({ session: "s" });
    expect(await countAutomatic(sp, { session: "s" })).toBe(2);
    const head = await session.head();
    state.list.push(9);
    await passIntervals(3);
    expect((await session.head())?.id).toBe(head?.id);
    expect(head).toMatchObject({ kind: "automatic", trigger: "interval" });
  });

  it("automatic checkpoints of a session do not overwrite what another process has saved", async () => {
    const { sp, failures } = await openLoud();
    const other = await data.open(FAST);
    const session = sp.session("s");
    await session.save({ n: 1 });
    await other.session("s").save({ n: "theirs" });
    await sp.autoCheckpoints.set({ session: "s" }, { interval: 3 });
    await sp.autoCheckpoints.start({ session, state: () => ({ n: 2 }) });
    await until(async () => failures.length > 0 || (await count(sp)) > 2, "a failure");
    await sp.autoCheckpoints.stop();
    expect((await other.session("s").latest())?.state).toEqual({ n: "theirs" });
  });

  it("automatic checkpoints of two branches of a session are both taken", async () => {
    const sp = await data.open(FAST);
    const main = sp.session("s");
    const { id } = await main.save(0);
    const side = await main.fork(id, { branch: "side" });
    await sp.autoCheckpoints.set({ session: "s" }, { interval: 3 });
    await sp.autoCheckpoints.start({ session: main, state: () => "main" });
    await sp.autoCheckpoints.start({ session: side, state: () => "side" });
    await until(async () => (await sp.session("s").latest())?.state === "main", "a checkpoint of main");
    const saved = async () => (await sp.session("s", { branch: "side" }).latest())?.state;
    await until(async () => (await saved()) === "side", "a checkpoint of the branch");
    await sp.autoCheckpoints.stop();
    expect((await sp.session("s").latest())?.state).toBe("main");
  });

  it("automatic checkpoints end with their Savepoint", async () => {
    const { sp, failures } = await openLoud();
    const other = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 2 });
    await sp.autoCheckpoints.start({ agent: AGENT });
    await untilCount(other, 1);
    await sp.close();
    const closed = await count(other);
    await saveAgent(other, 1);
    await passIntervals(2);
    expect(await count(other)).toBe(closed);
    expect(failures).toEqual([]);
    expect(await codeOf(sp.autoCheckpoints.start({ agent: AGENT }))).toBe("CLOSED");
  });

  it("automatic checkpoints of a deleted agent stop", async () => {
    const { sp, failures } = await openLoud();
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 2 });
    await sp.autoCheckpoints.start({ agent: AGENT });
    await untilCount(sp, 1);
    await sp.agents.delete(AGENT);
    await passIntervals(2);
    expect(await sp.agents.load(AGENT)).toBeUndefined();
    expect(await sp.stats()).toMatchObject({ agents: 0, checkpoints: 0 });
    expect(failures.length).toBeLessThanOrEqual(1);
    await sp.autoCheckpoints.stop();
  });
});

describe.each(STORES)("checkpoints before operations on $name", (kind) => {
  const data = useData(kind);

  it("are taken before a conversation is deleted, if the policy asks for it", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    for (const id of ["c0", "c1", "c2", "c3"]) await begin(sp, id, `in ${id}`);
    await sp.conversations.delete("c0");
    expect(await sp.checkpoints.list().all()).toEqual([]);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 1 });
    await sp.conversations.delete("c1");
    await sp.conversations.delete("c2");
    const [taken, ...more] = await sp.checkpoints.list({ agent: AGENT }).all();
    expect(taken).toMatchObject({ kind: "preOperation", trigger: "delete" });
    expect(more).toEqual([]);
    await sp.checkpoints.restore(taken?.id ?? "");
    expect(await texts(sp, "c2")).toEqual(["in c2"]);
    await sp.autoCheckpoints.set({ agent: AGENT }, { beforeOperations: false });
    const before = await idsIn(sp.checkpoints.list());
    await sp.conversations.delete("c3");
    expect(await sp.conversations.delete("none")).toBe(false);
    expect(await idsIn(sp.checkpoints.list())).toEqual(before);
  });

  async function migrateOnce(): Promise<string> {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await sp.autoCheckpoints.set({ agent: AGENT });
    const migrations = { [AGENT]: { agent: [(state: { counter: number }) => ({ count: state.counter })] } };
    const newer = await data.open({ ...FAST, migrations } as OpenOptions);
    expect((await newer.agents.load(AGENT))?.state).toEqual({ count: 1 });
    expect(await newer.checkpoints.list().all()).toEqual([]);
    await newer.agents.update(AGENT, { name: "New" });
    const [taken, ...more] = await newer.checkpoints.list().all();
    expect(taken).toMatchObject({ kind: "preOperation", trigger: "migrate" });
    expect(more).toEqual([]);
    await newer.agents.update(AGENT, { name: "Newer" });
    expect(await newer.checkpoints.list().all()).toHaveLength(1);
    await newer.checkpoints.restore(taken?.id ?? "");
    expect(await newer.agents.load(AGENT)).toMatchObject({ name: "Test", state: { count: 1 } });
    return taken?.id ?? "";
  }

  it("are taken once, before a state is saved in a newer version", async () => {
    expect(await migrateOnce()).not.toBe("");
  });

  it("have the state as it was before it was migrated", async () => {
    const id = await migrateOnce();
    const older = await data.open(FAST);
    expect(((await older.checkpoints.load(id)) as AgentCheckpoint).state.state).toEqual({ counter: 1 });
  });

  it("do not prevent operations on data without an agent", async () => {
    const sp = await data.open(FAST);
    await sp.conversations.create({ id: "c", messages: [message.user("x")] });
    await sp.conversations.create({ id: "d", agent: "nobody" });
    expect(await sp.conversations.delete("c")).toBe(true);
    expect(await sp.conversations.delete("d")).toBe(true);
  });
});
