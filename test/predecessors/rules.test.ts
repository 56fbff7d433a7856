/** The rules that follow from what went wrong in earlier systems, for sessions and runs. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent, type Message, message, pendingToolCalls, Savepoint, type Session } from "../../src/index.js";
import { rowKey, tapeName } from "../../src/records/index.js";
import { FAST, idsIn } from "../checkpoints/agent-data.js";
import { startChild } from "../crash/children.js";
import { Survivors } from "../crash/survivors.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, interruptIn, until, useLab, World } from "../run/lab.js";
import { PLACES } from "./places.js";

/** Ids that have broken systems which used them as file names or patterns; an id of 4 kB and an empty one are rejected. */
const HOSTILE = ["../x", "*", "a_b", "a", "latest", "x.json", "CON", "😀", ".", "..", "a/b", "main", "%", " "];
const REFUSED = ["", "x".repeat(4096), "a\u0000b", "a\nb"];

describe.each(STORES)("the rules on $name", (kind) => {
  const data = useData(kind);

  it("Rule 1: 1,000 saves of a session within one millisecond keep their exact order", async () => {
    const sp = await data.open({ ...FAST, now: () => 1_700_000_000_000 });
    const session = sp.session("s");
    const saved = await Promise.all(Array.from({ length: 1000 }, (_, n) => session.save({ n }, { label: `${n}` })));
    expect(new Set(saved.map(({ id }) => id)).size).toBe(1000);
    const again = await data.open(FAST);
    const labels = (await again.session("s").history({ order: "oldest" }).all()).map(({ label }) => label);
    expect(labels).toEqual(Array.from({ length: 1000 }, (_, n) => `${n}`));
    expect((await again.session("s").latest())?.state).toEqual({ n: 999 });
    expect(await idsIn(again.checkpoints.list({ session: "s", limit: 2 }))).toEqual([saved[999]?.id, saved[998]?.id]);
  });

  it("Rule 4: rewind saves the previous head, creates a new head whose parent is the target, and the previous one stays reachable", async () => {
    const session = (await data.open(FAST)).session("s");
    const target = await session.save("target");
    const old = await session.save("old head");
    const back = await session.rewind(target.id);
    expect(back).toMatchObject({ kind: "recovery", parentId: target.id });
    const again = (await data.open(FAST)).session("s");
    expect(await again.latest()).toMatchObject({ id: back.id, state: "target" });
    expect((await again.load(old.id))?.state).toBe("old head");
    const kept = (await again.history({ allBranches: true }).all()).find((info) => info.kind === "preOperation");
    expect(kept).toMatchObject({ parentId: old.id });
    expect((await again.load(kept?.id ?? ""))?.state).toBe("old head");
    await again.rewind(kept?.id ?? "");
    expect((await again.latest())?.state).toBe("old head");
  });

  it("Rule 4: a rewind or restore that fails changes nothing", async () => {
    const sp = await data.open(FAST);
    await sp.session("s").save(1);
    await sp.session("s").save(2);
    const before = await idsIn(sp.session("s").history({ allBranches: true }));
    expect(await codeOf(sp.session("s").rewind("unknown"))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await codeOf(sp.checkpoints.restore("unknown"))).toBe("CHECKPOINT_NOT_FOUND");
    const late = sp.session("s");
    await late.head();
    await (await data.open(FAST)).session("s").save(3);
    expect(await codeOf(late.rewind({ step: 0 }))).toBe("CONFLICT");
    const after = await idsIn((await data.open(FAST)).session("s").history({ allBranches: true }));
    expect(after.slice(1)).toEqual(before);
  });

  it("Rule 6: hostile ids are stored in isolation", async () => {
    const sp = await data.open(FAST);
    for (const id of HOSTILE) {
      await sp.agents.save({ id, name: id });
      await sp.conversations.create({ id, agent: id, messages: [message.user(`said in ${id}`)] });
      await sp.session(id, { agent: id }).save({ id }, { id, label: id });
      await sp.session(id, { agent: id }).fork({ label: id }, { branch: `${id}!` });
    }
    await sp.session("*").clear();
    await sp.conversations.delete("a");
    await sp.sessions.delete("%");
    const again = await data.open(FAST);
    for (const id of HOSTILE) {
      expect((await again.agents.load(id))?.name).toBe(id);
      const said = (await again.conversations.load(id))?.messages;
      if (id === "a") expect(said).toBeUndefined();
      else expect(said).toEqual([message.user(`said in ${id}`)]);
      const latest = await again.session(id).latest();
      if (id === "*" || id === "%") expect(latest).toBeUndefined();
      else {
        expect(latest).toMatchObject({ id, state: { id } });
        expect((await again.session(id, { branch: `${id}!` }).latest())?.id).toBe(id);
        expect((await again.checkpoints.load(id))?.state).toEqual({ id });
      }
    }
  });

  it.each(REFUSED.map((id) => [id.slice(0, 10), id] as const))(
    "Rule 6: the id %j is rejected with a clear error",
    async (_, id) => {
      const sp = await data.open(FAST);
      expect(() => sp.session(id)).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
      expect(() => sp.session("s", { agent: id })).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
      for (const work of [
        sp.session("s").save(1, { id }),
        sp.session("s").save(1, { label: id }),
        sp.agents.save({ id, name: "x" }),
        sp.conversations.create({ id }),
      ]) {
        expect(await codeOf(work)).toBe("INVALID_ID");
      }
      expect(await sp.stats()).toMatchObject({ agents: 0, conversations: 0, sessions: 0, checkpoints: 0 });
    },
  );

  it("Rule 7: two concurrent writers lose nothing: one gets a CONFLICT and tries again", async () => {
    const handles = [await data.open(FAST), await data.open(FAST)].map((sp) => sp.session<string[]>("s"));
    // Both writers have read the new session before either of them saves, so at least one save conflicts.
    await Promise.all(handles.map((session) => session.latest()));
    let conflicts = 0;
    const add = async (session: Session<string[]>, name: string): Promise<void> => {
      let state: string[] = [];
      for (let n = 0; n < 15; state = (await session.latest())?.state ?? []) {
        const code = await codeOf(session.save([...state, `${name}${n}`]));
        if (code === "none") n++;
        else {
          expect(code).toBe("CONFLICT");
          conflicts++;
        }
      }
    };
    await Promise.all(handles.map((session, index) => add(session, "ab"[index] ?? "")));
    const entries = (await (await data.open(FAST)).session<string[]>("s").latest())?.state ?? [];
    for (const name of ["a", "b"]) {
      const own = entries.filter((entry) => entry.startsWith(name));
      expect(own).toEqual(Array.from({ length: 15 }, (_, n) => `${name}${n}`));
    }
    expect(conflicts).toBeGreaterThan(0);
  });

  it("Rule 8: pruning with nothing to keep still keeps heads, pinned checkpoints and starts of branches", async () => {
    const sp = await data.open(FAST);
    const session = sp.session("s");
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.push((await session.save(n)).id);
    await session.pin(ids[1] ?? "");
    const side = await session.fork(ids[4] ?? "", { branch: "side" });
    const ofSide = (await side.save("side")).id;
    const { removed, kept } = await sp.prune({ session: "s", keepLast: 0 });
    expect(removed).toBe(5);
    expect(Object.fromEntries(kept.map(({ id, reasons }) => [id, reasons]))).toEqual({
      [ids[1] ?? ""]: ["pinned"],
      [ids[4] ?? ""]: ["needed"],
      [ids[7] ?? ""]: ["head"],
      [ofSide]: ["head"],
    });
    const again = (await data.open(FAST)).session("s");
    for (const [id, state] of [
      [ids[1], 1],
      [ids[4], 4],
      [ids[7], 7],
      [ofSide, "side"],
    ] as const) {
      expect((await again.load(id ?? ""))?.state).toBe(state);
    }
  });

  /** Automatic and pre-operation checkpoints of a session: the ones that `max` counts. */
  async function counted(sp: Savepoint): Promise<number> {
    const all = await sp.checkpoints.list({ session: "s" }).all();
    return all.filter((info) => info.kind === "automatic" || info.kind === "preOperation").length;
  }

  it("Rule 9: max is obeyed by save, append, update, a save after a parent, rewind, restore and the timer", async () => {
    const sp = await data.open(FAST);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 3, interval: 5 });
    const session = sp.session<{ list: unknown[] }>("s");
    const automatic = { kind: "automatic" } as const;
    const first = await session.save({ list: [] });
    const paths: (() => Promise<unknown>)[] = [
      () => session.save({ list: [Math.random()] }, automatic),
      () => session.append("/list", ["more"], automatic),
      () => session.update((state) => ({ list: [...(state?.list ?? []), "updated"] }), automatic),
      async () => session.save({ list: ["after"] }, { ...automatic, parent: (await session.head())?.id ?? "" }),
      () => session.rewind(first.id),
      () => sp.checkpoints.restore(first.id).then(() => session.head()),
    ];
    for (const path of [...paths, ...paths]) {
      await path();
      expect(await counted(sp), String(path)).toBeLessThanOrEqual(3);
    }
    let n = 0;
    await session.head();
    await sp.autoCheckpoints.start({ session, state: () => ({ list: [`by itself ${n}`] }) });
    for (n = 1; n <= 4; n++) {
      const saved = async () => (await sp.session<{ list: unknown[] }>("s").latest())?.state.list[0];
      await until(async () => (await saved()) === `by itself ${n}`, `an automatic checkpoint of ${n}`);
    }
    await sp.autoCheckpoints.stop();
    expect(await counted(sp)).toBe(3);
  });

  it("Rule 9: max is obeyed when a branch is created with its own state", async () => {
    const sp = await data.open(FAST);
    await sp.autoCheckpoints.set({ session: "s" }, { max: 2 });
    const session = sp.session("s");
    for (let n = 0; n < 4; n++) await session.save(n, { kind: "automatic" });
    expect(await counted(sp)).toBe(2);
    await session.fork((await session.head())?.id ?? "", { state: "other", kind: "automatic" });
    expect(await counted(sp)).toBe(2);
  });

  /** The ways to save, each with its options. */
  const WAYS: Readonly<
    Record<string, (sp: Savepoint, session: Session<unknown[]>, own: { ttl?: "60s" }) => Promise<unknown>>
  > = {
    save: (_, session, own) => session.save(["saved"], own),
    append: (_, session, own) => session.append("", ["more"], own),
    update: (_, session, own) => session.update((state) => [...(state ?? []), "updated"], own),
    "a save after a parent": async (_, session, own) =>
      session.save(["after"], { ...own, parent: (await session.head())?.id ?? "" }),
    fork: (_, session, own) => session.fork({ label: "first" }, { ...own, state: ["forked"] }),
    rewind: (_, session) => session.rewind({ label: "first" }),
    restore: async (sp, session) => sp.checkpoints.restore((await session.load({ label: "first" }))?.id ?? ""),
    "the timer": async (sp, session) => {
      const before = (await session.head())?.id;
      await sp.autoCheckpoints.set({ session: session.id }, { interval: 5 });
      await sp.autoCheckpoints.start({ session, state: () => ["by itself"] });
      await until(async () => (await sp.session(session.id).head())?.id !== before, "an automatic checkpoint");
      await sp.autoCheckpoints.stop();
    },
  };

  it.each(["its own", "its session's", "its agent's", "the store's"])(
    "Rule 9: a ttl (%s) is obeyed by save, append, update, a save after a parent, fork, rewind, restore and the timer",
    async (whose) => {
      let time = 1_000_000;
      const sp = await data.open({ ...FAST, now: () => time });
      const own = whose === "its own" ? ({ ttl: "60s" } as const) : {};
      if (whose === "its agent's") await sp.retention.set({ agent: "a" }, { ttl: "60s" });
      if (whose === "the store's") await sp.retention.set({}, { ttl: "60s" });
      for (const [name, way] of Object.entries(WAYS)) {
        if (whose === "its session's") await sp.retention.set({ session: name }, { ttl: "60s" });
        const session = sp.session<unknown[]>(name, { agent: "a" });
        const seqs = async (): Promise<number[]> =>
          (await session.history({ allBranches: true, order: "oldest" }).all()).map(({ seq }) => seq);
        await session.save(["first"], { label: "first", pinned: true });
        for (let n = 0; n < 2; n++) await session.save([n], own);
        time += 60_000;
        await session.save(["young"], own);
        expect(await seqs(), `${name}, not yet`).toEqual([0, 1, 2, 3]);
        time += 1;
        await way(sp, session, own);
        const left = await seqs();
        expect(left.slice(0, 2), name).toEqual([0, 3]);
        expect(left.length, name).toBeGreaterThan(2);
      }
    },
  );

  it("Rule 9: a ttl is obeyed by the checkpoints of a whole agent", async () => {
    let time = 1_000_000;
    const sp = await data.open({ ...FAST, now: () => time });
    for (const id of ["own", "policy"]) await sp.agents.save({ id, name: id });
    await sp.retention.set({ agent: "policy" }, { ttl: "60s" });
    for (let n = 0; n < 4; n++) {
      await sp.checkpoints.create({ agent: "own", ttl: "60s" });
      await sp.checkpoints.create({ agent: "policy" });
      time += 40_000;
    }
    const left = async (agent: string): Promise<number> =>
      (await sp.checkpoints.list({ agent, of: "agent" }).all()).length;
    expect([await left("own"), await left("policy")]).toEqual([2, 2]);
  });
});

describe.each(PLACES)("the rules, with processes on $name", (place) => {
  it("Rule 2: kill -9 at any write leaves the previous or the new checkpoint loadable", async () => {
    const survivors = new Survivors(place.temporaryStore());
    for (const [n, point] of place.points.entries()) {
      const { lines, signal, stderr } = await startChild("saveForever", survivors.url, n + 1, `${point}@${n % 3}`)
        .ended;
      expect({ signal, stderr }, point).toEqual({ signal: "SIGKILL", stderr: "" });
      survivors.note(lines);
    }
    await survivors.check({ all: true });
    expect(survivors.count).toBeGreaterThan(0);
  });

  it("Rule 2: kill -9 at a random moment leaves the previous or the new checkpoint loadable", async () => {
    const survivors = new Survivors(place.temporaryStore());
    for (let kill = 0; kill < 2; kill++) {
      const { child, started, ended } = startChild("saveForever", survivors.url, 100 + kill);
      await started;
      // Deliberately a time: any moment will do.
      await sleep(15 * kill);
      child.kill("SIGKILL");
      survivors.note((await ended).lines);
      await survivors.check({ all: true });
    }
    expect(survivors.count).toBeGreaterThan(0);
  });

  it("Rule 7: two processes that save in one session at the same time lose nothing", async () => {
    const url = place.temporaryStore();
    const children = ["left", "right"].map((name) => startChild("contend", url, name, 50));
    for (const { ended } of children) expect(await ended).toMatchObject({ code: 0, stderr: "" });
    await using sp = await Savepoint.open(url);
    const entries = (await sp.session<{ entries: string[] }>("shared").latest())?.state.entries ?? [];
    for (const name of ["left", "right"]) {
      const own = entries.filter((entry) => entry.startsWith(name));
      expect(own).toEqual(Array.from({ length: 50 }, (_, n) => `${name} ${n}`));
    }
  });
});

describe.each(PLACES)("the rules, with damage, on $name", (place) => {
  const file = place.useDamageable();

  it("Rule 3: if the newest checkpoint is damaged, the next intact one is loaded and the damage is reported", async () => {
    const session = (await file.open()).session<{ messages: unknown[] }>("s");
    const ids = [(await session.save({ messages: messages(20) })).id];
    for (let n = 0; n < 3; n++) ids.push((await session.append("/messages", [messages(40).at(-1 - n)])).id);
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
    const latest = await (await file.open()).session<{ messages: unknown[] }>("s").latest();
    expect(latest).toMatchObject({ id: ids[2], skipped: [{ id: ids[3], seq: 3 }] });
    expect(latest?.state.messages).toHaveLength(22);
    expect(file.events).toMatchObject([{ sessionId: "s", checkpointId: ids[3], seq: 3 }]);
    file.flip(rowKey(0, 2));
    expect((await (await file.open()).session("s").latest())?.id).toBe(ids[1]);
  });
});

/** Two steps with two parallel tools, whose model rejects what a provider would reject. */
function careful(world: World) {
  return defineAgent({
    name: "careful",
    strategy: "afterLlmResponse",
    initial: (task: string) => ({ messages: [message.user(task)] as Message[] }),
    async step(run) {
      const said = run.state.messages;
      const calls = run.step < 3 ? ["a", "b"].map((name) => ({ id: `${name}${run.step}`, name })) : [];
      const reply = await run.llm(
        () => {
          if (pendingToolCalls({ messages: said }).length > 0) throw new Error("400: unanswered tool calls");
          return world.do(`model ${run.step}`, message.assistant(`step ${run.step}`, calls));
        },
        { usage: () => ({ tokens: 100, cost: 0.5 }) },
      );
      said.push(reply);
      for (const call of calls) {
        const result = await run.tool(call, () => world.do(`tool ${call.id}`, "ok"), { onUnknown: "retry" });
        said.push(message.toolResult(call.id, result));
      }
      return calls.length === 0 ? run.complete({ step: run.step, usage: run.usage }) : undefined;
    },
  });
}

describe.each(ALL_KINDS)("the rules, running on $name", (kind) => {
  const lab = useLab(kind);

  it.each(["model 2", "tool a2", "tool b2", "model 3"])(
    "Rule 5: after an interruption in %s, step, usage and cost are restored, and the model gets no unanswered tool call",
    async (place) => {
      const world = new World();
      await interruptIn(lab, await lab.open(), careful(world), "go", world, place);
      const result = await (await lab.open()).run(careful(world), { session: "s", input: "go" });
      expect(result).toMatchObject({ status: "completed", steps: 3, usage: { tokens: 300, cost: 1.5 } });
      expect(result.output).toEqual({ step: 3, usage: { tokens: 300, cost: 1.5 } });
      for (const name of ["model 1", "tool a1", "tool b1"]) expect(world.count(name)).toBe(1);
    },
  );

  it("Rule 5: a checkpoint with an unanswered tool call cannot be forked with a state of its own", async () => {
    const sp = await lab.open();
    await sp.run(careful(new World()), { session: "s", input: "go" });
    const session = sp.session<{ messages: Message[] }>("s");
    let refused = 0;
    for (const info of await session.history().all()) {
      const loaded = await session.load(info.id);
      if (!loaded?.pendingToolCalls.length) continue;
      expect(await codeOf(session.fork(info.id, { state: loaded.state }))).toBe("UNANSWERED_TOOL_CALLS");
      refused++;
      // Without a new state it can be forked and resumed: the recorded effects are replayed.
      const fork = await session.fork(info.id);
      const world = new World();
      const result = await sp.run(careful(world), { session: "s", branch: fork.branch, input: "go" });
      expect(result).toMatchObject({ status: "completed", steps: 3 });
    }
    expect(refused).toBeGreaterThan(0);
  });

  it("Rule 8: pruning never removes the boundary of an unfinished step", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), careful(world), "go", world, "tool b2");
    const sp = await lab.open();
    await sp.session("s").head();
    await sp.prune({ session: "s", keepLast: 0 });
    await sp.compact();
    const result = await (await lab.open()).run(careful(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", steps: 3, usage: { tokens: 300, cost: 1.5 } });
    for (const name of ["model 1", "model 2", "tool a1", "tool b1", "tool a2"]) expect(world.count(name)).toBe(1);
  });

  it("Rule 9: max is obeyed by the checkpoints of a run, including those that an interruption leaves", async () => {
    const world = new World();
    const first = await lab.open();
    await first.autoCheckpoints.set({ session: "s" }, { max: 2 });
    await interruptIn(lab, first, careful(world), "go", world, "tool b2");
    const sp = await lab.open();
    await sp.run(careful(world), { session: "s", input: "go" });
    const taken = await sp.checkpoints.list({ session: "s", kind: "automatic" }).all();
    expect(taken.length).toBeLessThanOrEqual(2);
    expect(taken[0]).toMatchObject({ status: "completed" });
  });

  it("Rule 9: a ttl is obeyed by the checkpoints of a run", async () => {
    const sp = await lab.open({ lease: "1h" });
    await sp.retention.set({}, { ttl: "60s" });
    const left: number[] = [];
    const slow = defineAgent({
      name: "slow",
      strategy: "everyStep",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        await run.effect("wait", async () => {
          lab.advance(40_000);
          left.push((await sp.checkpoints.list({ session: "s" }).all()).length);
        });
        run.state.n++;
        return run.state.n === 6 ? run.complete("done") : undefined;
      },
    });
    expect(await sp.run(slow, { session: "s", input: "go" })).toMatchObject({ status: "completed", steps: 6 });
    expect(Math.max(...left)).toBeLessThanOrEqual(3);
    const all = await sp.session("s").history().all();
    expect(all.filter(({ createdAt }) => createdAt + 60_000 < lab.now())).toEqual([]);
    expect(all[0]).toMatchObject({ status: "completed" });
  });
});
