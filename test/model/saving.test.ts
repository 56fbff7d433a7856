import { describe, expect, it } from "vitest";
import type { CheckpointInfo, SaveOptions } from "../../src/index.js";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";
import { runs } from "../support/runs.js";

describe.each(STORES)("saving and loading on $name", (kind) => {
  const data = useData(kind);

  it("returns undefined before the first save, and writes nothing for a handle", async () => {
    const sp = await data.open();
    const session = sp.session("new", { agent: "tester" });
    expect(await session.latest()).toBeUndefined();
    expect(await session.head()).toBeUndefined();
    expect(await session.load({ step: 0 })).toBeUndefined();
    expect(await session.load("new#0")).toBeUndefined();
    expect(await session.history().all()).toEqual([]);
    expect(await session.branches().all()).toEqual([]);
    expect(await sp.sessions.load("new")).toBeUndefined();
    expect(await sp.sessions.list().all()).toEqual([]);
  });

  it("rejects an unsupported value with a stack that names where it was passed, however deep the value is", async () => {
    const session = (await data.open()).session("s");
    let state: unknown = () => 1;
    for (let depth = 0; depth < 20; depth++) state = { deeper: state };
    const error = (await session.save(state as object).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toMatchObject({ code: "INVALID_STATE" });
    expect(error.stack).toContain("saving.test.ts");
  });

  it("returns each state as it was when it was saved", async () => {
    const session = (await data.open()).session("s");
    const state = { messages: messages(3), note: "é😀\u0000", more: { when: new Date(5), big: 7n, none: undefined } };
    const copies: unknown[] = [];
    const saved: CheckpointInfo[] = [];
    for (let step = 0; step < 5; step++) {
      state.messages.push(message(10 + step));
      (state.messages[0] as { content: string }).content = `edited ${step}`;
      copies.push(structuredClone(state));
      saved.push(await session.save(state));
    }
    expect((await session.latest())?.state).toStrictEqual(copies[4]);
    const again = (await data.open()).session("s");
    for (const [step, info] of saved.entries()) {
      const loaded = await again.load(info.id);
      expect(loaded).toEqual({ ...info, state: copies[step], pendingToolCalls: [], holes: [], skipped: [] });
    }
    expect((await again.latest())?.state).toStrictEqual(copies[4]);
  });

  it("returns states that the caller may change", async () => {
    const session = (await data.open()).session<{ list: string[] }>("s");
    await session.save({ list: ["a"] });
    const [first, second] = [await session.latest(), await session.latest()];
    first?.state.list.push("changed");
    expect(second?.state.list).toEqual(["a"]);
    expect((await session.latest())?.state.list).toEqual(["a"]);
  });

  it.each([null, 0, "", false, undefined, [], {}, "text", 1n, new Map([["a", 1]]), [[[]]]])(
    "saves and loads %o as a state",
    async (state) => {
      const session = (await data.open()).session("s");
      await session.save(state);
      await session.save({ other: 1 });
      await session.save(state);
      expect((await session.load({ step: 0 }))?.state).toStrictEqual(state);
      expect((await (await data.open()).session("s").latest())?.state).toStrictEqual(state);
    },
  );

  it("counts seqs and steps, and links each checkpoint to the one before", async () => {
    const session = (await data.open()).session("s", { agent: "tester" });
    const [a, b, c, d] = [
      await session.save(0),
      await session.save(1),
      await session.save(2, { step: 10 }),
      await session.save(3),
    ];
    expect([a, b, c, d].map(({ seq }) => seq)).toEqual([0, 1, 2, 3]);
    expect([a, b, c, d].map(({ step }) => step)).toEqual([0, 1, 10, 11]);
    expect([a, b, c, d].map(({ parentId }) => parentId)).toEqual([undefined, a.id, b.id, c.id]);
    expect(a).toMatchObject({ sessionId: "s", agent: "tester", branch: "main", kind: "manual", status: "open" });
    expect(new Set([a.id, b.id, c.id, d.id]).size).toBe(4);
  });

  it("finds a checkpoint by id, step, label, seq and session#seq, and nothing else", async () => {
    const session = (await data.open()).session("s#1");
    const a = await session.save("a", { label: "start", step: 7 });
    const b = await session.save("b", { step: 7 });
    const c = await session.save("c", { label: "start" });
    const stateOf = async (ref: Parameters<typeof session.load>[0]): Promise<unknown> =>
      (await session.load(ref))?.state;
    expect(await stateOf(a.id)).toBe("a");
    expect(await stateOf({ seq: b.seq })).toBe("b");
    expect(await stateOf(`s#1#${c.seq}`)).toBe("c");
    expect(await stateOf({ step: 7 })).toBe("b"); // the last saved of that step
    expect(await stateOf({ label: "start" })).toBe("c"); // the last that has the label
    for (const ref of [
      "",
      "no",
      "s#1#3",
      "s#1#-1",
      "s#1#1e0",
      "s#1",
      "S#1#0",
      "latest",
      "*",
      "../x",
      "a\tb",
      a.id.slice(1),
    ]) {
      expect(await session.load(ref), ref).toBeUndefined();
    }
    for (const ref of [
      { step: 6 },
      { label: "star" },
      { label: "" },
      { label: "*" },
      { seq: 3 },
      { seq: -1 },
      { seq: NaN },
    ]) {
      expect(await session.load(ref), JSON.stringify(ref)).toBeUndefined();
    }
  });

  it("keeps every field of a checkpoint", async () => {
    const said: SaveOptions = {
      id: "my id",
      step: 12,
      kind: "automatic",
      status: "failed",
      reason: "OOM \ud83d",
      label: "a label",
      description: "what it is\n\u0000",
      trigger: "afterToolCall",
      resumeHint: "retry with less memory",
      tasksCompleted: 3,
      usage: { tokens: 100, cost: 0.1 + 0.2 },
      metadata: {
        phase: "execute",
        at: new Date(77),
        tags: new Set(["a"]),
        map: new Map([[1, { deep: [undefined, -0, 3n] }]]),
        $: ["date", 1],
        ["__proto__"]: "own",
        bytes: new Uint8Array([0, 255]),
      },
      pinned: true,
    };
    const now = 1_700_000_000_123;
    const sp = await data.open({ now: () => now });
    const first = await sp.session("s", { agent: "tester" }).save("before");
    const info = await sp.session("s").save("state", { ...said, ttl: "1m" });
    expect(info).toStrictEqual({
      ...said,
      expiresAt: now + 60_000,
      version: undefined,
      sessionId: "s",
      agent: "tester",
      branch: "main",
      seq: 1,
      parentId: first.id,
      parentSeq: 0,
      createdAt: now,
      stateBytes: 7,
      storedBytes: expect.any(Number) as number,
    });
    const again = (await data.open()).session("s");
    expect((await again.history({ limit: 1 }).all())[0]).toStrictEqual(info);
    expect(await again.head()).toStrictEqual(info);
    expect(await again.load("my id")).toStrictEqual({
      ...info,
      state: "state",
      pendingToolCalls: [],
      holes: [],
      skipped: [],
    });
    expect(await again.latest()).toStrictEqual({
      ...info,
      state: "state",
      pendingToolCalls: [],
      holes: [],
      skipped: [],
    });
    expect((await (await data.open()).sessions.load("s"))?.head).toStrictEqual(info);
    expect((await again.branches().all())[0]?.head).toStrictEqual(info);
  });

  it("reports the size of the state, and writes about the same at every step", async () => {
    const session = (await data.open()).session("s");
    const state = { messages: messages(2), note: 'é😀"\\\n', n: 1.5, list: [1, 2, 3], none: null };
    const stored: number[] = [];
    for (let step = 0; step < 300; step++) {
      state.messages.push(message(1000 + step));
      const info = await session.save(state);
      expect(info.stateBytes).toBe(Buffer.byteLength(JSON.stringify(state)));
      stored.push(info.storedBytes);
    }
    const [second, last] = [stored[1] as number, stored[299] as number];
    expect(last).toBeLessThan(1.5 * second);
  });

  it("rejects unsupported values, saves nothing of them, and stays usable", async () => {
    const session = (await data.open()).session("s");
    const good = { list: messages(5), more: {} as Record<string, unknown> };
    await expect(session.save({ bad: () => 1 })).rejects.toMatchObject({ code: "INVALID_STATE" });
    expect(await session.latest()).toBeUndefined();
    const first = await session.save(good);
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    for (const bad of [
      () => 1,
      Symbol("s"),
      cycle,
      new (class Own {})(),
      new WeakMap(),
      Object.assign([], { length: 3 }),
    ]) {
      good.list.push(message(99));
      good.more["bad"] = bad;
      await expect(session.save(good)).rejects.toMatchObject({ code: "INVALID_STATE" });
      good.list.pop();
      delete good.more["bad"];
      expect((await session.head())?.id).toBe(first.id);
    }
    await expect(session.save(good, { metadata: { bad: () => 1 } })).rejects.toMatchObject({ code: "INVALID_STATE" });
    await expect(session.append("/list", [() => 1])).rejects.toMatchObject({ code: "INVALID_STATE" });
    await expect(session.update(() => ({ bad: () => 1 }))).rejects.toMatchObject({ code: "INVALID_STATE" });
    const second = await session.save(good);
    expect(second).toMatchObject({ seq: 1, parentId: first.id });
    expect((await session.latest())?.state).toStrictEqual(good);
  });

  it.each<[string, unknown]>([
    ["step", -1],
    ["step", 1.5],
    ["step", Number.NaN],
    ["step", "1"],
    ["tasksCompleted", Number.NaN],
    ["tasksCompleted", -1],
    ["usage", { tokens: Number.NaN }],
    ["usage", { cost: Infinity }],
    ["usage", { tokens: 5n }],
    ["kind", "other"],
    ["status", "done"],
    ["reason", 5],
    ["description", { text: "x" }],
  ])("rejects %s: %o, which would not be loaded unchanged", async (option, value) => {
    const session = (await data.open()).session("s");
    const first = await session.save(1);
    await expect(session.save(2, { [option]: value })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await session.head())?.id).toBe(first.id);
    expect((await session.save(3)).seq).toBe(1);
  });

  it("many saves within one millisecond keep their exact order", async () => {
    const saves = runs(1000);
    const sp = await data.open({ now: () => 1_700_000_000_000, durability: "process" });
    const session = sp.session("s");
    const ids: string[] = [];
    for (let n = 0; n < saves; n++) ids.push((await session.save({ n })).id);
    const oldest = await (await data.open()).session("s").history({ order: "oldest" }).all();
    expect(oldest.map(({ id }) => id)).toEqual(ids);
    expect(oldest.map(({ seq }) => seq)).toEqual(ids.map((_, n) => n));
    expect(oldest.every(({ createdAt }) => createdAt === 1_700_000_000_000)).toBe(true);
    expect([...ids].sort()).toEqual(ids); // the ids themselves rise too
    expect((await session.latest())?.state).toEqual({ n: saves - 1 });
  });

  it("keeps the order of saves when the clock goes backwards", async () => {
    let now = 2_000_000;
    const sp = await data.open({ now: () => (now -= 60_000) });
    const session = sp.session("s");
    for (let n = 0; n < 5; n++) await session.save(n);
    expect((await session.latest())?.state).toBe(4);
    expect((await session.history().all()).map(({ seq }) => seq)).toEqual([4, 3, 2, 1, 0]);
  });
});
