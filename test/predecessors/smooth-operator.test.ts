/** What smooth-operator did, and what it got wrong, line by line: strategies, stores, and resuming an agent's loop. */
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type CheckpointEvent,
  type CheckpointInfo,
  defineAgent,
  type Message,
  message,
  pendingToolCalls,
  Savepoint,
  shouldCheckpoint,
  type Strategy,
} from "../../src/index.js";
import { rowKey, tapeName } from "../../src/records/index.js";
import { idsIn } from "../checkpoints/agent-data.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, interruptIn, useLab, World } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { PLACES } from "./places.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const EVENTS: readonly CheckpointEvent[] = ["toolCallComplete", "llmResponse", "iteration"];
const GO = { session: "s", input: "go" };

/** The iterations from 0 to 12 in which a strategy takes checkpoints, once per checkpoint, if each has every event once. */
function iterations(strategy: Strategy, events: readonly CheckpointEvent[] = EVENTS): number[] {
  return Array.from({ length: 13 }, (_, iteration) => iteration).flatMap((iteration) =>
    events.filter((event) => shouldCheckpoint(strategy, event, iteration)).map(() => iteration),
  );
}

describe("smooth-operator, strategies", () => {
  it("001-S3: strategies take checkpoints after tool calls, every N iterations, after replies, or never", () => {
    const takenAt = (strategy: Strategy): CheckpointEvent[] =>
      EVENTS.filter((event) => shouldCheckpoint(strategy, event, 6));
    expect(takenAt("afterToolCall")).toEqual(["toolCallComplete"]);
    expect(takenAt("afterLlmResponse")).toEqual(["llmResponse"]);
    expect(takenAt({ everyN: 3 })).toEqual(["iteration"]);
    expect(takenAt("never")).toEqual([]);
  });

  it("001-S4: everyN 3 takes checkpoints at 3 and 6, not at 1 and 2; afterToolCall only after tool calls; never takes none", () => {
    expect(iterations({ everyN: 3 }, ["iteration"])).toEqual([3, 6, 9, 12]);
    expect(iterations("afterToolCall", ["llmResponse", "iteration"])).toEqual([]);
    expect(iterations("afterToolCall", ["toolCallComplete"])).toHaveLength(13);
    expect(iterations("never")).toEqual([]);
  });

  it("001-B5: everyN takes one checkpoint per iteration however many events it has, none at 0, and everyN 0 is rejected", () => {
    expect(iterations({ everyN: 3 })).toEqual([3, 6, 9, 12]);
    expect(iterations({ everyN: 1 })).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for (const event of EVENTS) {
      expect(() => shouldCheckpoint({ everyN: 0 }, event, 0)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});

describe.each(STORES)("smooth-operator on $name", (kind) => {
  const data = useData(kind);

  it("001-S1: a checkpoint has an id, an agent, a conversation, an iteration, metadata and a time", async () => {
    const sp = await data.open({ now: () => 1_700_000_000_000 });
    const conversation = { messages: [message.system("Be kind."), message.user("Hi")] };
    const saved = await sp
      .session("s", { agent: "operator" })
      .save(conversation, { step: 4, metadata: { phase: "plan" } });
    const loaded = await (await data.open()).checkpoints.load(saved.id);
    expect(loaded?.id).toMatch(UUID);
    expect(loaded).toMatchObject({ agent: "operator", step: 4, createdAt: 1_700_000_000_000 });
    expect(loaded?.metadata).toStrictEqual({ phase: "plan" });
    expect(loaded?.state).toStrictEqual(conversation);
  });

  it("001-S2: metadata is set key by key, and restored unchanged", async () => {
    const metadata: Record<string, string> = {};
    for (const [key, value] of [
      ["one", "1"],
      ["", "empty"],
      ["__proto__", "x"],
      ["ключ", "значение"],
    ] as const) {
      Object.defineProperty(metadata, key, { value, enumerable: true, writable: true, configurable: true });
    }
    const { id } = await (await data.open()).session("s").save({}, { metadata });
    const loaded = await (await data.open()).session("s").load(id);
    expect(Object.entries(loaded?.metadata ?? {})).toEqual(Object.entries(metadata));
  });

  it("001-S2: a checkpoint can be exported as bytes and imported again unchanged", async () => {
    const here = await data.open();
    const there = await Savepoint.open("memory:");
    const state = { messages: [message.user("Hi")], at: new Date(5), bytes: new Uint8Array(3_000).fill(9) };
    const said = { label: "best", step: 7, usage: { tokens: 5, cost: 0.1 }, metadata: { ключ: "значение" } };
    for (const [from, to, id] of [
      [here, there, "out"],
      [there, here, "back"],
    ] as const) {
      const saved = await from.session(id, { agent: "operator" }).save(state, said);
      const bytes = await from.export(saved.id).bytes();
      for (const at of [0, 40, 200]) {
        const damaged = Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ 1 : byte));
        expect(["DAMAGED", "NOT_A_STORE"]).toContain(await codeOf(to.import(damaged)));
      }
      expect(await to.sessions.load(id)).toBeUndefined();
      await to.import(bytes);
      await to.import(bytes);
      const loaded = await to.session<typeof state>(id).load(saved.id);
      expect(loaded).toMatchObject({ ...saved, ...said });
      expect(loaded?.state).toStrictEqual(state);
      expect(await idsIn(to.session(id).history({ allBranches: true }))).toEqual([saved.id]);
    }
    await there.close();
  });

  it("001-S5: checkpoints are loaded by agent or id, listed newest first, and pruning returns the number removed", async () => {
    const sp = await data.open();
    const session = sp.session("s", { agent: "a" });
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.unshift((await session.save({ n })).id);
    const again = await data.open();
    expect((await again.checkpoints.latest({ agent: "a" }))?.state).toEqual({ n: 5 });
    expect((await again.checkpoints.load(ids[2] ?? ""))?.state).toEqual({ n: 3 });
    expect(await idsIn(again.checkpoints.list({ agent: "a" }))).toEqual(ids);
    expect((await again.prune({ agent: "a", keepLast: 2 })).removed).toBe(4);
    expect(await idsIn(again.checkpoints.list({ agent: "a" }))).toEqual(ids.slice(0, 2));
  });

  it("001-S6: an unknown agent has no latest and an empty list, and pruning it removes nothing", async () => {
    const sp = await data.open();
    await sp.session("s", { agent: "a" }).save(1);
    expect(await sp.checkpoints.latest({ agent: "unknown" })).toBeUndefined();
    expect(await sp.checkpoints.list({ agent: "unknown" }).all()).toEqual([]);
    expect(await sp.session("unknown").history().all()).toEqual([]);
    expect(await sp.session("s").load("unknown")).toBeUndefined();
    expect((await sp.prune({ agent: "unknown", keepLast: 0 })).removed).toBe(0);
  });

  it("001-S7: pruning 10 to 3 removes 7 and leaves other agents untouched; pruning to 0 keeps the head, clear keeps nothing", async () => {
    const sp = await data.open();
    for (const agent of ["a", "b"]) {
      for (let n = 0; n < 10; n++) await sp.session(`of ${agent}`, { agent }).save(n);
    }
    expect((await sp.prune({ agent: "a", keepLast: 3 })).removed).toBe(7);
    const steps = async (session: string): Promise<number[]> =>
      (await (await data.open()).session(session).history().all()).map(({ step }) => step);
    expect(await steps("of a")).toEqual([9, 8, 7]);
    expect(await steps("of b")).toHaveLength(10);
    expect((await sp.prune({ agent: "a", keepLast: 0 })).removed).toBe(2);
    expect(await steps("of a")).toEqual([9]);
    expect(await sp.session("of a").clear()).toBe(1);
    expect(await steps("of a")).toEqual([]);
    expect(await steps("of b")).toHaveLength(10);
  });

  it("001-S10: 50 saves give 50 list entries", async () => {
    const session = (await data.open()).session("s", { agent: "a" });
    const ids: string[] = [];
    for (let n = 0; n < 50; n++) ids.unshift((await session.save({ n })).id);
    const again = await data.open();
    expect(await idsIn(again.checkpoints.list({ agent: "a" }))).toEqual(ids);
    expect(await idsIn(again.session("s").history())).toEqual(ids);
  });

  it("001-U3: a conversation keeps all fields of its messages, including those unknown to Savepoint", async () => {
    const said = [
      { id: "1", role: "system", content: "Be kind." },
      {
        id: "2",
        role: "assistant",
        content: "",
        tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
        reasoning_content: "I should look.",
      },
      { id: "3", role: "tool", content: "seen", tool_call_id: "c1", tool_name: "look" },
      { id: "4", role: "user", content: "And this?", images: [{ url: "data:image/png;base64,AA==", detail: "low" }] },
    ];
    const sp = await data.open();
    const { id } = await sp.conversations.create({ agent: "a", metadata: { maxContextTokens: 8000 } });
    await sp.conversations.append(id, said);
    const loaded = await (await data.open()).conversations.load<(typeof said)[number]>(id);
    expect(loaded?.messages).toStrictEqual(said);
    expect(loaded?.entries.map((entry) => entry.id)).toEqual(["1", "2", "3", "4"]);
    expect(loaded?.metadata).toEqual({ maxContextTokens: 8000 });
  });

  it("001-U4: a checkpoint names its session and agent, and a negative iteration is rejected", async () => {
    const session = (await data.open()).session("thread", { agent: "a" });
    for (const step of [-1, 1.5, Number.NaN, 2 ** 60]) {
      expect(await codeOf(session.save({}, { step })), `${step}`).toBe("INVALID_ARGUMENT");
    }
    expect(await session.head()).toBeUndefined();
    const saved = await session.save({}, { step: 0, metadata: {} });
    expect(saved).toMatchObject({ sessionId: "thread", agent: "a", step: 0, metadata: {} });
    expect(saved.createdAt).toBeGreaterThan(1_600_000_000_000);
  });

  it("001-B1: ten saves in one second keep their order: the latest is the newest, and pruning keeps the newest three", async () => {
    const sp = await data.open({ now: () => 1_700_000_000_000 });
    const session = sp.session("s", { agent: "a" });
    for (let n = 0; n < 10; n++) await session.save(n);
    const again = await data.open({ now: () => 1_700_000_000_000 });
    expect((await again.checkpoints.latest({ agent: "a" }))?.state).toBe(9);
    expect((await again.session("s").latest())?.state).toBe(9);
    await again.prune({ agent: "a", keepLast: 3 });
    const left = await (await data.open()).checkpoints.list({ agent: "a" }).all();
    expect(left.map(({ step }) => step)).toEqual([9, 8, 7]);
  });

  it("001-B2: at equal times the list and the latest agree, and an id exists once", async () => {
    const sp = await data.open({ now: () => 5 });
    const session = sp.session("s", { agent: "a" });
    await session.save("older", { id: "one" });
    await session.save("newer", { id: "two" });
    const [first] = await sp.checkpoints.list({ agent: "a" }).all();
    expect(first?.id).toBe("two");
    expect((await sp.checkpoints.latest({ agent: "a" }))?.id).toBe("two");
    expect((await session.save("newer", { id: "two" })).seq).toBe(1);
    expect(await codeOf(session.save("another", { id: "two" }))).toBe("CONFLICT");
    expect(await codeOf(session.save("another", { id: "one" }))).toBe("CONFLICT");
    const again = await data.open();
    expect(await idsIn(again.checkpoints.list({ agent: "a" }))).toEqual(["two", "one"]);
    expect((await again.checkpoints.load("two"))?.state).toBe("newer");
  });

  it("001-B4: a checkpoint is found by its id in any session, and an id is never a path or a pattern", async () => {
    const sp = await data.open();
    const hostile = ["../s1/x", "*", "x", "x.json", "%", "s1/x"];
    for (const [n, id] of hostile.entries()) {
      await sp.session(`s${n}`, { agent: `agent/${n}` }).save({ id }, { id });
    }
    const again = await data.open();
    for (const id of hostile) expect((await again.checkpoints.load(id))?.state).toEqual({ id });
    for (const id of ["?", "x*", "../x", "X", "x.jso", "_"]) expect(await again.checkpoints.load(id)).toBeUndefined();
  });
});

describe("smooth-operator on stores with a path", () => {
  it("001-S8: folders are created on demand, an empty folder is an empty store, and unrelated files are left alone", async () => {
    const folder = await makeFolder();
    onTestFinished(() => removeFolder(folder));
    const url = `sqlite:${join(folder, "nested", "deep", "store.db")}`;
    {
      await using sp = await Savepoint.open(url);
      expect(await sp.checkpoints.list().all()).toEqual([]);
      expect(await sp.session("s").latest()).toBeUndefined();
      await sp.session("s").save("saved");
    }
    const other = join(folder, "nested", "deep", "notes.json");
    await writeFile(other, "{ not a checkpoint");
    await using sp = await Savepoint.open(url);
    expect((await sp.checkpoints.list().all()).length).toBe(1);
    expect((await sp.session("s").latest())?.state).toBe("saved");
    expect(existsSync(other)).toBe(true);
  });

  it("001-S9: SQLite keeps data in a file whose folder it creates, and an in-memory database keeps nothing", async () => {
    const folder = await makeFolder();
    onTestFinished(() => removeFolder(folder));
    for (const [url, kept] of [
      [`sqlite:${join(folder, "new", "store.db")}`, true],
      ["sqlite::memory:", false],
    ] as const) {
      {
        await using sp = await Savepoint.open(url);
        await sp.session("s", { agent: "a" }).save({ n: 1 }, { id: "one", metadata: { k: "v" } });
        await sp.session("s", { agent: "a" }).save({ n: 1 }, { id: "one", metadata: { k: "v" } });
        expect(await sp.checkpoints.list().all()).toHaveLength(1);
      }
      await using again = await Savepoint.open(url);
      const loaded = await again.checkpoints.load("one");
      if (kept) expect(loaded).toMatchObject({ agent: "a", metadata: { k: "v" }, state: { n: 1 } });
      else expect(loaded).toBeUndefined();
    }
  });
});

describe.each(PLACES)("smooth-operator, with damage, on $name", (place) => {
  const file = place.useDamageable();

  it("001-B3: one torn checkpoint does not break the list, the latest or pruning", async () => {
    const sp = await file.open();
    const session = sp.session<{ messages: unknown[] }>("s", { agent: "a" });
    const ids = [(await session.save({ messages: messages(20) })).id];
    for (let n = 0; n < 3; n++) ids.push((await session.append("/messages", [messages(40).at(-1 - n)])).id);
    file.damage({ kind: "item", tape: tapeName(0, 0), item: 22 }, "flip");
    file.flip(rowKey(0, 1));
    const again = await file.open();
    expect(await idsIn(again.session("s").history())).toEqual([ids[3], ids[2], ids[0]]);
    expect(await again.session("s").latest()).toMatchObject({ id: ids[2], skipped: [{ id: ids[3] }] });
    expect((await again.checkpoints.latest({ agent: "a" }))?.id).toBe(ids[2]);
    expect((await again.prune({ agent: "a", keepLast: 2 })).gone.map(({ id }) => id)).toEqual([ids[0]]);
    expect((await again.session("s").latest())?.id).toBe(ids[2]);
  });

  it("001-B4: finding by id, listing and pruning read no conversation", async () => {
    const sp = await file.open();
    const session = sp.session<{ messages: unknown[] }>("s", { agent: "a" });
    for (let n = 1; n <= 3; n++) await session.save({ messages: messages(20 * n) });
    for (let item = 0; item < 60; item++) file.damage({ kind: "item", tape: tapeName(0, 0), item }, "flip");
    const again = await file.open();
    const listed = await again.checkpoints.list({ agent: "a" }).all();
    expect(listed).toHaveLength(3);
    expect((await again.session("s").head())?.id).toBe(listed[0]?.id);
    expect(file.events).toEqual([]);
    expect((await again.prune({ agent: "a", keepLast: 1 })).removed).toBe(2);
  });
});

/** Six steps with a model call in each, and two parallel tools in every second one. */
function operator(world: World, strategy?: Strategy) {
  return defineAgent({
    name: "operator",
    ...(strategy && { strategy }),
    loop: false,
    initial: (task: string) => ({ messages: [message.system("Be kind."), message.user(task)] as Message[] }),
    async step(run) {
      const calls = run.step % 2 === 0 ? ["a", "b"].map((name) => ({ id: `${name}${run.step}`, name })) : [];
      const said = run.state.messages;
      const reply = await run.llm(() => {
        // A provider rejects a history with an unanswered tool call.
        if (pendingToolCalls({ messages: said }).length > 0) throw new Error("400: unanswered tool calls");
        const usage = { totalTokens: 10, cost: 0.25 };
        return world.do(`model ${run.step}`, { ...message.assistant(`step ${run.step}`, calls), usage });
      });
      said.push(message.assistant(reply.content, reply.toolCalls ?? []));
      const answers = calls.map(async (call) => {
        const result = await run.tool(call, () => world.do(`tool ${call.id}`, "ok"), { onUnknown: "retry" });
        said.push(message.toolResult(call.id, result));
      });
      await Promise.all(answers);
      await run.effect("note", () => world.do(`note ${run.step}`));
      return run.step === 6 ? run.complete(said.length) : undefined;
    },
  });
}

describe.each(ALL_KINDS)("smooth-operator, running on $name", (kind) => {
  const lab = useLab(kind);

  async function checkpointsOf(strategy: Strategy | undefined): Promise<(string | undefined)[]> {
    const sp = await lab.open();
    const session = JSON.stringify(strategy ?? "default");
    await sp.run(operator(new World(), strategy), { session, input: "go" });
    return (await sp.session(session).history({ order: "oldest" }).all()).map(({ trigger }) => trigger);
  }

  it("001-S3: a run takes checkpoints after tool calls by default", async () => {
    const taken = await checkpointsOf(undefined);
    expect(taken.filter((trigger) => trigger === "toolCall")).toHaveLength(3);
    expect(taken).toEqual(await checkpointsOf("afterToolCall"));
    expect(await checkpointsOf("never")).toEqual(["start", "end"]);
  });

  it("001-B5: a run with everyN takes one checkpoint per matching step, not one per event", async () => {
    expect(await checkpointsOf({ everyN: 4 })).toEqual(["start", "step", "end"]);
    expect((await checkpointsOf({ everyN: 1 })).filter((trigger) => trigger === "step")).toHaveLength(5);
  });

  it("001-U2: a run resumes the latest conversation or begins a new one, and emits each checkpoint it takes", async () => {
    const world = new World();
    const first = await lab.open();
    const told: CheckpointInfo[] = [];
    first.on("run", (event) => void (event.type === "checkpoint" && told.push(event.checkpoint)));
    await interruptIn(lab, first, operator(world), "go", world, "model 4");
    const history = await first.session("s").history({ order: "oldest" }).all();
    // The boundary of the next step becomes a checkpoint only on demand.
    expect(told.length).toBeGreaterThan(0);
    for (const { id, step } of told) expect(history).toContainEqual(expect.objectContaining({ id, step }));
    const resumed = await (await lab.open()).run(operator(world), GO);
    expect(resumed).toMatchObject({ status: "completed", steps: 6 });
    expect(resumed.state.messages.slice(0, 2)).toEqual([message.system("Be kind."), message.user("go")]);
    expect([1, 2, 3, 5, 6].map((step) => world.count(`model ${step}`))).toEqual([1, 1, 1, 1, 1]);
    const fresh = await (await lab.open()).run(operator(new World()), { session: "another", input: "go" });
    expect(fresh.state).toEqual(resumed.state);
  });

  it("001-U5: a budget halts the run, a person is asked and answers, and tools run in parallel", async () => {
    const sp = await lab.open();
    const limited = await sp.run(
      defineAgent({
        name: "spender",
        limits: { cost: 1 },
        loop: false,
        initial: (_input: string) => ({ n: 0 }),
        async step(run) {
          await run.llm(() => ({ content: "…", usage: { totalTokens: 5, cost: 0.4 } }));
          run.state.n++;
        },
      }),
      { session: "budget", input: "go" },
    );
    expect(limited).toMatchObject({ status: "halted", usage: { tokens: 15 } });
    expect(limited.usage.cost).toBeCloseTo(1.2);
    const careful = defineAgent({
      name: "careful",
      initial: (_input: string) => ({ order: [] as string[] }),
      async step(run) {
        const allowed = await run.ask<boolean>("May I?");
        if (!allowed) return run.fail("denied");
        const call = (id: string, turns: number): Promise<void> =>
          run.tool({ id, name: id }, async () => {
            for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
            run.state.order.push(id);
          });
        await Promise.all([call("slow", 20), call("quick", 1)]);
        return run.complete(run.state.order);
      },
    });
    for (const [session, allowed] of [
      ["yes", true],
      ["no", false],
    ] as const) {
      expect(await sp.run(careful, { session, input: "go" })).toMatchObject({
        status: "waiting",
        question: { text: "May I?" },
      });
      await (await lab.open()).answer(session, allowed);
    }
    expect((await sp.run(careful, { session: "yes", input: "go" })).output).toEqual(["quick", "slow"]);
    expect(await sp.run(careful, { session: "no", input: "go" })).toMatchObject({ status: "failed", reason: "denied" });
  });

  it("001-B6: an agent is identified by its name: after a restart the same definition finds its work", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), operator(world), "go", world, "note 3");
    const handles = await (await lab.open()).recover([operator(world)]);
    expect(handles).toHaveLength(1);
    expect(await handles[0]?.result()).toMatchObject({ status: "completed", session: "s", steps: 6 });
    expect(world.count("model 1")).toBe(1);
  });

  it.each(["tool a2", "tool b2", "note 2", "model 3"])(
    "001-B7: after an interruption in %s, the model never gets a tool call without its result",
    async (place) => {
      const world = new World();
      await interruptIn(lab, await lab.open(), operator(world), "go", world, place);
      const result = await (await lab.open()).run(operator(world), GO);
      expect(result).toMatchObject({ status: "completed", steps: 6 });
      const plain = await (await lab.open()).run(operator(new World()), { session: "plain", input: "go" });
      expect(result.state.messages.map(({ role }) => role)).toEqual(plain.state.messages.map(({ role }) => role));
      const session = (await lab.open()).session<{ messages: Message[] }>("s");
      for await (const { id } of session.history()) {
        const checkpoint = await session.load(id);
        expect(checkpoint?.pendingToolCalls).toEqual([]);
      }
    },
  );

  it("001-B8: resuming restores iteration, tokens and cost; a failed save is an error; limits are obeyed in the loop", async () => {
    const world = new World();
    const first = await lab.open();
    await first.autoCheckpoints.set({ session: "s" }, { max: 2 });
    await interruptIn(lab, first, operator(world), "go", world, "note 4");
    const sp = await lab.open();
    const steps: number[] = [];
    sp.on("run", (event) => void (event.type === "step" && steps.push(event.step)));
    const result = await sp.run(operator(world), GO);
    expect(result).toMatchObject({ steps: 6, usage: { tokens: 60, cost: 1.5 } });
    expect(steps).toEqual([4, 5, 6]);
    expect(await sp.session("s").head()).toMatchObject({ step: 6, usage: { tokens: 60, cost: 1.5 } });
    const counted = (await sp.session("s").history().all()).filter(({ kind: why }) => why === "automatic");
    expect(counted.length).toBeLessThanOrEqual(2);
    const forgetful = defineAgent({
      name: "forgetful",
      initial: (_input: string) => ({ n: 0 as unknown }),
      step(run) {
        run.state.n = () => "a function cannot be stored";
      },
    });
    const failed = await sp.run(forgetful, { session: "f", input: "go" });
    expect(failed).toMatchObject({ status: "failed", error: { name: "SavepointError" } });
    expect(await sp.sessions.load("f")).toMatchObject({ status: "failed" });
    expect(await codeOf(sp.session("other").save(() => 1))).toBe("INVALID_STATE");
  });
});
