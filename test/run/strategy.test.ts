import { describe, expect, it } from "vitest";
import { type CheckpointEvent, defineAgent, message, shouldCheckpoint, type Strategy } from "../../src/index.js";
import { codeOf, createGate, interruptIn, KINDS, until, useLab, World } from "./lab.js";

const EVENTS: CheckpointEvent[] = ["toolCallComplete", "llmResponse", "iteration"];
const GO = { session: "s", input: "go" };

describe("shouldCheckpoint", () => {
  it.each<[Strategy, CheckpointEvent[]]>([
    ["afterToolCall", ["toolCallComplete"]],
    ["afterLlmResponse", ["llmResponse"]],
    ["everyStep", ["iteration"]],
    ["never", []],
  ])("of %o is true for %o alone, whatever the iteration", (strategy, wanted) => {
    for (const iteration of [0, 1, 2, 3, 100]) {
      expect(EVENTS.filter((event) => shouldCheckpoint(strategy, event, iteration))).toEqual(wanted);
    }
  });

  it("with everyN counts iterations from 1, and returns true for every n-th", () => {
    const strategy = { everyN: 3 };
    const yes = Array.from({ length: 10 }, (_, iteration) =>
      EVENTS.filter((event) => shouldCheckpoint(strategy, event, iteration)),
    );
    expect(yes.map((events) => events.length)).toEqual([0, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
    expect(Array.from({ length: 4 }, (_, n) => shouldCheckpoint({ everyN: 1 }, "iteration", n))).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  it.each([{ everyN: 0 }, { everyN: -1 }, { everyN: 1.5 }, { everyN: NaN }, "sometimes", undefined, null, {}])(
    "rejects %o",
    (strategy) => {
      expect(() => shouldCheckpoint(strategy as never, "iteration", 1)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    },
  );
});

/** Six steps: a model call in each, and in every second one a tool call with an effect after it. */
function worker(world: World, strategy: Strategy) {
  return defineAgent({
    name: "worker",
    strategy,
    loop: false,
    initial: (_input: string) => ({ messages: [message.user("go")], n: 0 }),
    async step(run) {
      run.state.n++;
      const calls = run.step % 2 === 0 ? [{ id: `c${run.step}`, name: "t" }] : [];
      run.state.messages.push(await run.llm(() => world.do("model", message.assistant(`step ${run.step}`, calls))));
      for (const call of calls) {
        const result = await run.tool(call, () => world.do(`tool ${run.step}`, `result ${"x".repeat(2000)}`));
        run.state.messages.push(message.toolResult(call.id, result));
      }
      await run.effect("after", () => world.do(`after ${run.step}`));
      if (run.step === 6) return run.complete("done");
      return undefined;
    },
  });
}

describe.each(KINDS)("checkpoint strategies on $name", (kind) => {
  const lab = useLab(kind);

  it.each<[Strategy, string[]]>([
    ["everyStep", ["start", "step", "step", "step", "step", "step", "end"]],
    ["never", ["start", "end"]],
    [{ everyN: 2 }, ["start", "step", "step", "end"]],
    [{ everyN: 4 }, ["start", "step", "end"]],
    // A checkpoint in the middle of a step keeps the boundary of its step.
    ["afterToolCall", ["start", "step", "toolCall", "step", "toolCall", "step", "toolCall", "end"]],
  ])("%o: the history has what it should, the newest state is always the last", async (strategy, triggers) => {
    const sp = await lab.open();
    const result = await sp.run(worker(new World(), strategy), GO);
    const session = sp.session<{ n: number }>("s");
    const history = (await session.history().all()).reverse();
    expect(history.map(({ trigger }) => trigger)).toEqual(triggers);
    const steps = history.map(({ step }) => step);
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    for (const info of history) expect((await session.load(info.id))?.id).toBe(info.id);
    expect((await session.latest())?.state).toEqual(result.state);
    expect(history.at(-1)).toMatchObject({ step: 6, status: "completed" });
  });

  it("afterLlmResponse takes a checkpoint of the state after each reply", async () => {
    const sp = await lab.open();
    await sp.run(worker(new World(), "afterLlmResponse"), GO);
    const history = await sp.session("s").history().all();
    expect(history.filter(({ trigger }) => trigger === "llmResponse")).toHaveLength(6);
  });

  it.each<Strategy>(["everyStep", "never", { everyN: 3 }, "afterToolCall", "afterLlmResponse"])(
    "%o does not affect what survives a crash",
    async (strategy) => {
      const world = new World();
      const agent = worker(world, strategy);
      for (const place of ["after 1", "after 2", "after 5"]) {
        await interruptIn(lab, await lab.open(), agent, "go", world, place);
      }
      const sp = await lab.open();
      const result = await sp.run(agent, GO);
      expect(result).toMatchObject({ status: "completed", steps: 6, state: { n: 6 } });
      expect(world.count("model")).toBe(6);
      for (const step of [2, 4, 6]) expect(world.count(`tool ${step}`)).toBe(1);
      const plain = await (await lab.open()).run(worker(new World(), strategy), { session: "other", input: "go" });
      expect(result.state).toEqual(plain.state);
    },
  );

  it.each<Strategy>(["never", "afterToolCall", "everyStep"])(
    "%o: garbage collection between any two steps loses nothing",
    async (strategy) => {
      const world = new World();
      const agent = worker(world, strategy);
      const places = [1, 2, 3, 4, 5, 6].map((step) => `after ${step}`);
      for (const place of places) {
        const sp = await lab.open();
        await interruptIn(lab, sp, agent, "go", world, place);
        await sp.compact();
      }
      const sp = await lab.open();
      const result = await sp.run(agent, GO);
      await sp.compact();
      expect(result).toMatchObject({ status: "completed", state: { n: 6 } });
      expect(world.count("model")).toBe(6);
      expect([2, 4, 6].map((step) => world.count(`tool ${step}`))).toEqual([1, 1, 1]);
      const session = (await lab.open()).session("s");
      for (const info of await session.history().all()) {
        const loaded = await session.load(info.id);
        expect(loaded).toMatchObject({ id: info.id, holes: [] });
      }
      expect((await session.latest())?.state).toEqual(result.state);
    },
  );

  it("a fork of a checkpoint in the middle of a step executes no recorded effect again, even after compact", async () => {
    const world = new World();
    const agent = worker(world, "afterToolCall");
    const sp = await lab.open();
    const main = await sp.run(agent, GO);
    await sp.compact();
    const session = sp.session<{ n: number }>("s");
    const middle = (await session.history().all()).filter(({ trigger }) => trigger === "toolCall");
    expect(middle).toHaveLength(3);
    for (const [index, info] of middle.entries()) {
      const other = await lab.open();
      await other.session("s").fork(info.id, { branch: `b${index}` });
      await other.compact();
      const before = [...world.log];
      const result = await other.run(agent, { ...GO, branch: `b${index}` });
      expect(result).toMatchObject({ status: "completed", output: "done", state: main.state });
      const step = 6 - 2 * index;
      const again = world.log.slice(before.length);
      expect(again.filter((entry) => entry === `tool ${step}`)).toEqual([]);
      expect(again[0]).toBe(`after ${step}`);
    }
  });

  it("no checkpoint is taken while a parallel batch is unfinished", async () => {
    const gates = [createGate<string>(), createGate<string>(), createGate<string>()];
    const begun: string[] = [];
    const agent = defineAgent({
      name: "batch",
      initial: (_input: string) => ({ messages: [message.user("go")] }),
      async step(run) {
        const calls = gates.map((_, index) => ({ id: `${index}`, name: "t" }));
        run.state.messages.push(await run.llm(() => message.assistant("three", calls)));
        await Promise.all(
          calls.map(async (call, index) => {
            const result = await run.tool(call, () => (begun.push(call.id), gates[index]?.promise));
            run.state.messages.push(message.toolResult(call.id, result));
            await run.effect(`then ${index}`, () => "ok");
          }),
        );
        await run.effect("after all", () => "ok");
        return run.complete("done");
      },
    });
    const sp = await lab.open();
    const running = sp.run(agent, GO);
    await until(() => begun.length === 3, "all three tools to begin");
    const session = sp.session("s");
    for (const gate of gates) {
      gate.open("result");
      await lab.idle();
      for (const info of await session.history().all()) {
        const loaded = await session.load(info.id);
        expect(loaded?.pendingToolCalls, `${info.trigger}`).toEqual([]);
      }
    }
    await running;
    for (const info of await session.history().all()) {
      expect((await session.load(info.id))?.pendingToolCalls).toEqual([]);
    }
  });

  it("a checkpoint lists its tool calls that have no result yet", async () => {
    const world = new World();
    const agent = worker(world, "afterLlmResponse");
    const sp = await lab.open();
    await sp.run(agent, GO);
    const session = sp.session("s");
    const pending: unknown[] = [];
    for (const info of await session.history().all()) {
      const loaded = await session.load(info.id);
      if (loaded && loaded.pendingToolCalls.length > 0) pending.push(loaded.pendingToolCalls);
    }
    expect(pending).toEqual([6, 4, 2].map((step) => [{ id: `c${step}`, name: "t" }]));
  });

  it("a boundary that is not listed can be loaded, labelled, pinned, forked and rewound to", async () => {
    const world = new World();
    const agent = worker(world, "never");
    const first = await lab.open();
    await interruptIn(lab, first, agent, "go", world, "after 4");
    const sp = await lab.open();
    const session = sp.session<{ n: number }>("s");
    const head = await session.latest();
    expect(head).toMatchObject({ step: 3, state: { n: 3 } });
    const id = head?.id as string;
    expect((await session.load(id))?.state).toEqual(head?.state);
    expect((await session.history().all()).map((info) => info.id)).toContain(id);
    await session.label(id, "mine");
    await session.pin(id);
    const fork = await session.fork(id, { branch: "b" });
    expect((await fork.latest())?.state).toEqual(head?.state);
    // The run continues, and the requested boundary stays.
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({ status: "completed", state: { n: 6 } });
    await sp.compact();
    const other = (await lab.open()).session<{ n: number }>("s");
    expect(await other.load({ label: "mine" })).toMatchObject({ id, pinned: true, state: { n: 3 } });
    await other.latest();
    await other.rewind(id);
    expect((await other.latest())?.state).toEqual(head?.state);
    const again = await (await lab.open()).run(agent, { ...GO, branch: "b" });
    expect(again).toMatchObject({ status: "completed", state: { n: 6 } });
  });

  it("a boundary that is not listed is removed when the next one is saved", async () => {
    const world = new World();
    const agent = worker(world, "never");
    await interruptIn(lab, await lab.open(), agent, "go", world, "after 3");
    const sp = await lab.open();
    const head = await sp.session("s").head();
    await sp.run(agent, GO);
    const session = sp.session("s");
    expect((await session.history().all()).map(({ trigger }) => trigger)).toEqual(["end", "start"]);
    expect(await session.load(head?.id as string)).toBeUndefined();
  });

  it("a fork with an edited state is rejected while tool calls have no result", async () => {
    const agent = defineAgent({
      name: "a",
      strategy: "afterLlmResponse",
      initial: (_input: string) => ({ messages: [message.user("go")] }),
      async step(run) {
        const calls = [{ id: "1", name: "t" }];
        run.state.messages.push(await run.llm(() => message.assistant("x", calls)));
        await run.tool(calls[0] as { id: string; name: string }, () => "r");
        run.state.messages.push(message.toolResult("1", "r"));
        return run.complete();
      },
    });
    const sp = await lab.open();
    await sp.run(agent, GO);
    const session = sp.session<{ messages: unknown[] }>("s");
    const middle = (await session.history().all()).find(({ trigger }) => trigger === "llmResponse");
    const loaded = await session.load(middle?.id as string);
    expect(loaded?.pendingToolCalls).toHaveLength(1);
    const code = await codeOf(session.fork(middle?.id as string, { branch: "x", state: loaded?.state as never }));
    expect(code).toBe("UNANSWERED_TOOL_CALLS");
  });

  it("a step is executed anew after a rewind to its boundary", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      strategy: "everyStep",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        run.state.n++;
        await run.effect("first", () => world.do(`first ${run.step}`));
        await run.effect("last", () => world.do(`last ${run.step}`));
        if (run.step === 2) return run.complete("done");
        return undefined;
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last 2");
    const sp = await lab.open();
    const session = sp.session("s");
    const head = await session.head();
    await session.rewind(head?.id as string);
    await sp.run(agent, GO);
    expect(world.log).toEqual(["first 1", "last 1", "first 2", "last 2", "first 2", "last 2"]);
  });
});
