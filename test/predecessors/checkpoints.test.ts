/** The numbered lines of the five systems, and the rules that follow from their bugs, for checkpoints of agents. */
import { describe, expect, it } from "vitest";
import { type AgentCheckpoint, type BackgroundFailureEvent, message } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { codeOf, until } from "../run/lab.js";
import {
  AGENT,
  begin,
  everythingOf,
  FAST,
  idsIn,
  passIntervals,
  saveAgent,
  talk,
  texts,
} from "../checkpoints/agent-data.js";
import { runs } from "../support/runs.js";

describe.each(STORES)("checkpoints of agents on $name", (kind) => {
  const data = useData(kind);

  it("003-S7: a checkpoint has an id, agent, name, description, the agent's state, conversations, kind, time and size", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 42);
    await begin(sp, "c", "hello");
    for (const each of ["automatic", "manual", "preOperation", "recovery"] as const) {
      const start = Date.now();
      const { id } = await sp.checkpoints.create({ agent: AGENT, label: each, description: "why", kind: each });
      const loaded = (await sp.checkpoints.load(id)) as AgentCheckpoint;
      expect(loaded).toMatchObject({ id, agent: AGENT, label: each, description: "why", kind: each });
      expect(loaded.state.state).toEqual({ counter: 42 });
      expect(loaded.conversations.map((info) => info.id)).toEqual(["c"]);
      expect(loaded.createdAt).toBeGreaterThanOrEqual(start);
      expect(loaded.stateBytes).toBeGreaterThan(0);
      expect(loaded.storedBytes).toBeGreaterThan(0);
    }
  });

  it("003-S12: by default automatic checkpoints are enabled, every 300 s, at most 10, and before operations", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const policy = { enabled: true, interval: 300_000, max: 10, beforeOperations: true };
    expect(await sp.autoCheckpoints.set({ agent: AGENT })).toEqual(policy);
    expect(await sp.autoCheckpoints.load({ agent: AGENT })).toEqual(policy);
  });

  it("003-S13: creating a checkpoint needs an agent, captures its state and all conversations, and prunes the oldest beyond max", async () => {
    const sp = await data.open(FAST);
    expect(await codeOf(sp.checkpoints.create({ agent: AGENT }))).toBe("AGENT_NOT_FOUND");
    await saveAgent(sp, 1);
    for (const id of ["a", "b", "c"]) await begin(sp, id, id);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 2 });
    const made: string[] = [];
    for (let n = 0; n < 4; n++) made.push((await sp.checkpoints.create({ agent: AGENT, kind: "automatic" })).id);
    expect(await idsIn(sp.checkpoints.list({ agent: AGENT }))).toEqual([made[3], made[2]]);
    const loaded = (await sp.checkpoints.load(made[3] ?? "")) as AgentCheckpoint;
    expect(
      loaded.conversations
        .map(({ id }) => id)
        .slice()
        .sort(),
    ).toEqual(["a", "b", "c"]);
    expect(loaded.state.state).toEqual({ counter: 1 });
  });

  it("003-S14: restoring an unknown checkpoint throws; a known one restores state and conversations and returns its agent", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const then = await everythingOf(sp);
    await saveAgent(sp, 2);
    await talk(sp, "c", "more");
    expect(await codeOf(sp.checkpoints.restore("no-such"))).toBe("CHECKPOINT_NOT_FOUND");
    expect((await sp.checkpoints.restore(id)).agent).toBe(AGENT);
    expect(await everythingOf(sp)).toEqual(then);
  });

  it("003-S16: automatic checkpoints record their time and kind; they start, stop, and do nothing if disabled", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await sp.autoCheckpoints.set({ agent: AGENT }, { interval: 5, enabled: false });
    await sp.autoCheckpoints.start({ agent: AGENT });
    await passIntervals(5);
    expect(await sp.checkpoints.list().all()).toEqual([]);
    await sp.autoCheckpoints.set({ agent: AGENT }, { enabled: true });
    await until(async () => (await sp.checkpoints.list().all()).length === 1, "a checkpoint");
    await sp.autoCheckpoints.stop({ agent: AGENT });
    const [taken] = await sp.checkpoints.list().all();
    expect(taken).toMatchObject({ kind: "automatic", description: "Automatic checkpoint" });
    expect(taken?.label).toMatch(/^Auto checkpoint \d{4}-\d\d-\d\dT[\d:.]+Z$/);
    await saveAgent(sp, 2);
    await passIntervals(5);
    expect(await sp.checkpoints.list().all()).toHaveLength(1);
  });

  it("003-B1: a checkpoint with many keys in its maps is intact when it is read again, whatever their order", async () => {
    const sp = await data.open(FAST);
    const keys = Array.from({ length: 40 }, (_, n) => `key ${(n * 17) % 40}`);
    const map = Object.fromEntries(keys.map((key, n) => [key, n]));
    await saveAgent(sp, 1, { state: map, config: map, metadata: map });
    await sp.conversations.create({ id: "c", agent: AGENT, metadata: map, messages: [message.user("x")] });
    const { id } = await sp.checkpoints.create({ agent: AGENT, metadata: map });
    await saveAgent(sp, 2);
    const other = await data.open(FAST);
    const loaded = (await other.checkpoints.load(id)) as AgentCheckpoint;
    for (const each of [loaded.state.state, loaded.state.config, loaded.state.metadata, loaded.metadata]) {
      expect(each).toEqual(map);
      expect(Object.keys(each as object)).toEqual(Object.keys(map));
    }
    await other.checkpoints.restore(id);
    expect((await other.agents.load(AGENT))?.state).toEqual(map);
  });

  it("003-B3: restore removes conversations created after the checkpoint, atomically, and saves the previous state first", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await begin(sp, "newer", "x");
    const { before, checkpoint } = await sp.checkpoints.restore(id);
    expect(await sp.conversations.load("newer")).toBeUndefined();
    expect(before).toMatchObject({ kind: "preOperation", trigger: "restore" });
    expect(checkpoint.kind).toBe("recovery");
    await sp.autoCheckpoints.set({ agent: AGENT });
    await sp.checkpoints.restore(before.id);
    await sp.conversations.delete("newer");
    const [newest] = await sp.checkpoints.list().all();
    expect(newest).toMatchObject({ kind: "preOperation", trigger: "delete" });
    expect(await texts(sp, "newer", newest?.id)).toEqual(["x"]);
  });

  it("003-B4: within one millisecond pruning removes the oldest, never the one just created, and never a manual one", async () => {
    const sp = await data.open({ ...FAST, now: () => 1_700_000_000_000 });
    await saveAgent(sp, 0);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 3 });
    const manual: string[] = [];
    const automatic: string[] = [];
    for (let n = 0; n < 20; n++) {
      manual.push((await sp.checkpoints.create({ agent: AGENT })).id);
      automatic.push((await sp.checkpoints.create({ agent: AGENT, kind: "automatic" })).id);
      expect(await sp.checkpoints.load(automatic.at(-1) ?? "")).toBeDefined();
    }
    expect(await idsIn(sp.checkpoints.list({ kind: "manual" }))).toEqual(manual.slice().reverse());
    expect(await idsIn(sp.checkpoints.list({ kind: "automatic" }))).toEqual(automatic.slice(-3).slice().reverse());
  });

  it("003-B5: the timer obeys max, first waits an interval, runs once however often it is started, and reports failures", async () => {
    const failures: BackgroundFailureEvent[] = [];
    const sp = await data.open({ ...FAST, on: { backgroundFailure: (failure) => void failures.push(failure) } });
    let state: unknown = 0;
    expect(await codeOf(sp.autoCheckpoints.set({ session: "s" }, { interval: 0 }))).toBe("INVALID_ARGUMENT");
    const target = { session: sp.session("s"), state: () => state };
    await sp.autoCheckpoints.set({ session: "s" }, { interval: "1h", max: 2 });
    await sp.autoCheckpoints.start(target);
    await passIntervals(10);
    expect(await sp.checkpoints.list().all()).toEqual([]);
    await sp.autoCheckpoints.stop();
    await sp.autoCheckpoints.set({ session: "s" }, { interval: 10, max: 2 });
    await Promise.all([sp.autoCheckpoints.start(target), sp.autoCheckpoints.start(target)]);
    for (let n = 1; n <= 4; n++) {
      state = n;
      await until(async () => (await sp.session("s").latest())?.state === n, `a checkpoint of ${n}`);
    }
    state = () => 1;
    await until(() => failures.length > 0, "a failure");
    await sp.autoCheckpoints.stop();
    state = 100;
    await passIntervals(10);
    expect((await sp.session("s").latest())?.state).toBe(4);
    expect(await sp.checkpoints.list().all()).toHaveLength(2);
  });

  it("002-S7: an unknown id loads as undefined, throws on restore, and deletes nothing", async () => {
    const sp = await data.open(FAST);
    await sp.session("s").save(1);
    expect(await sp.checkpoints.load("unknown")).toBeUndefined();
    expect(await codeOf(sp.checkpoints.restore("unknown"))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await sp.checkpoints.delete("unknown")).toBe(false);
    expect((await sp.stats()).checkpoints).toBe(1);
  });

  it("002-S8: a session and the whole store list their checkpoints and their latest, without states", async () => {
    const sp = await data.open(FAST);
    const a = await sp.session("a").save({ big: "x".repeat(10_000) });
    const b = await sp.session("b").save(1);
    const c = await sp.session("a").save(2);
    expect(await idsIn(sp.checkpoints.list({ session: "a" }))).toEqual([c.id, a.id]);
    expect((await idsIn(sp.checkpoints.list())).slice().sort()).toEqual([a.id, b.id, c.id].slice().sort());
    expect((await sp.checkpoints.latest({ session: "a" }))?.state).toBe(2);
    for await (const info of sp.checkpoints.list()) expect(info).not.toHaveProperty("state");
  });

  it("001-S5: checkpoints are saved, loaded by agent or by id, and listed newest first", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    const made: string[] = [];
    for (let n = 0; n < 5; n++) {
      await saveAgent(sp, n);
      made.unshift((await sp.checkpoints.create({ agent: AGENT })).id);
    }
    expect(((await sp.checkpoints.latest({ agent: AGENT })) as AgentCheckpoint).state.state).toEqual({ counter: 4 });
    expect(((await sp.checkpoints.load(made[4] ?? "")) as AgentCheckpoint).state.state).toEqual({ counter: 0 });
    expect(await idsIn(sp.checkpoints.list({ agent: AGENT }))).toEqual(made);
  });

  it("001-S6: an unknown agent has no latest and an empty list; an unknown id is undefined, never an error", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 0);
    await sp.checkpoints.create({ agent: AGENT });
    expect(await sp.checkpoints.latest({ agent: "unknown" })).toBeUndefined();
    expect(await sp.checkpoints.list({ agent: "unknown" }).all()).toEqual([]);
    expect(await sp.checkpoints.load("unknown")).toBeUndefined();
  });

  it("001-S7: of 10 automatic checkpoints 3 are kept, and other agents are untouched", async () => {
    const sp = await data.open(FAST);
    for (const id of ["a", "b"]) {
      await sp.agents.save({ id, name: id });
      for (let n = 0; n < 10; n++) await sp.checkpoints.create({ agent: id, kind: "automatic" });
    }
    const before = await idsIn(sp.checkpoints.list({ agent: "a" }));
    await sp.autoCheckpoints.set({ agent: "a" }, { max: 3 });
    const { id } = await sp.checkpoints.create({ agent: "a", kind: "automatic" });
    expect(await idsIn(sp.checkpoints.list({ agent: "a" }))).toEqual([id, ...before.slice(0, 2)]);
    expect(await idsIn(sp.checkpoints.list({ agent: "b" }))).toHaveLength(10);
  });

  it("004-S6: deleting a checkpoint returns true, then false", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const ofAgent = await sp.checkpoints.create({ agent: AGENT });
    const ofSession = await sp.session("s").save(1);
    for (const { id } of [ofAgent, ofSession]) {
      expect(await sp.checkpoints.delete(id)).toBe(true);
      expect(await sp.checkpoints.delete(id)).toBe(false);
    }
  });

  it("Rule 1: many saves within one millisecond keep their exact order", async () => {
    const saves = runs(1000);
    const sp = await data.open({ ...FAST, now: () => 1_700_000_000_000 });
    await saveAgent(sp, 0);
    const making = Array.from({ length: saves }, (_, n) => sp.checkpoints.create({ agent: AGENT, label: `${n}` }));
    const made = await Promise.all(making);
    const listed = await sp.checkpoints.list({ agent: AGENT }).all();
    const bySeq = made.slice().sort((a, b) => b.seq - a.seq);
    expect(listed.map(({ id }) => id)).toEqual(bySeq.map(({ id }) => id));
    // In the order of the calls.
    expect(listed.map(({ label }) => label)).toEqual(Array.from({ length: saves }, (_, n) => `${saves - 1 - n}`));
    expect((await sp.checkpoints.latest({ agent: AGENT }))?.label).toBe(`${saves - 1}`);
  });

  it("Rule 4: restore saves the previous state, creates a new head whose parent is the target, and removes no checkpoint", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const target = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    const later = await sp.checkpoints.create({ agent: AGENT });
    await begin(sp, "newer", "x");
    const { before, checkpoint } = await sp.checkpoints.restore(target.id);
    expect(checkpoint).toMatchObject({ kind: "recovery", parentId: target.id });
    expect(before).toMatchObject({ kind: "preOperation" });
    expect(await idsIn(sp.checkpoints.list())).toEqual([checkpoint.id, before.id, later.id, target.id]);
    expect(await sp.conversations.load("newer")).toBeUndefined();
    const session = sp.session("s");
    const first = await session.save(1);
    await session.save(2);
    const report = await sp.checkpoints.restore(first.id);
    expect(report.checkpoint).toMatchObject({ kind: "recovery", parentId: first.id });
    expect((await sp.checkpoints.load(report.before.id))?.state).toBe(2);
  });

  it("Rule 8: pruning never removes a head, a pinned checkpoint, or one that a branch starts from", async () => {
    const sp = await data.open(FAST);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 1 });
    const session = sp.session("s");
    const automatic = { kind: "automatic" } as const;
    const start = await session.save("start", automatic);
    const side = await session.fork(start.id, { branch: "side" });
    const sideHead = await side.save("side", automatic);
    const pinned = await session.save("pinned", { ...automatic, pinned: true });
    const later = await session.save("pinned later", automatic);
    await session.pin(later.id);
    for (let n = 0; n < 5; n++) await session.save(n, automatic);
    const head = await session.head();
    const left = await idsIn(sp.checkpoints.list({ session: "s" }));
    expect(left.slice().sort()).toEqual(
      [start.id, sideHead.id, pinned.id, later.id, head?.id].slice().sort((a, b) => ((a ?? "") < (b ?? "") ? -1 : 1)),
    );
    for (const id of left) expect(await sp.checkpoints.load(id)).toBeDefined();
  });

  it("Rule 9: max is obeyed by create, restore, deleting a conversation, save and rewind", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await sp.autoCheckpoints.set({ agent: AGENT }, { max: 2 });
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const session = sp.session("s");
    const first = await session.save(0);
    const counted = async (filter: { agent?: string; session?: string }): Promise<number> =>
      (await sp.checkpoints.list(filter).all()).filter(
        (info) => info.kind === "automatic" || info.kind === "preOperation",
      ).length;
    for (let n = 0; n < 4; n++) {
      await sp.checkpoints.create({ agent: AGENT, kind: "automatic" });
      expect(await counted({ agent: AGENT })).toBeLessThanOrEqual(2);
      await begin(sp, `c${n}`, "x");
      await sp.conversations.delete(`c${n}`);
      expect(await counted({ agent: AGENT })).toBeLessThanOrEqual(2);
      await sp.checkpoints.restore(id);
      expect(await counted({ agent: AGENT })).toBeLessThanOrEqual(2);
      await session.save(n, { kind: "automatic" });
      expect(await counted({ session: "s" })).toBeLessThanOrEqual(2);
      await session.rewind(first.id);
      expect(await counted({ session: "s" })).toBeLessThanOrEqual(2);
    }
    expect(await counted({ agent: AGENT })).toBe(2);
    expect(await counted({ session: "s" })).toBe(2);
  });
});
