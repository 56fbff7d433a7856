import { describe, expect, it, type TestContext, vi } from "vitest";
import { defineAgent, isSavepointError, type Run } from "../../src/index.js";
import { codeOf, createGate, errorOf, interruptIn, KINDS, type Lab, orHung, useLab, World } from "./lab.js";

type Body = (run: Run<{ list: unknown[] }>, world: World) => Promise<unknown>;

function agentOf(world: World, body: Body) {
  return defineAgent({
    name: "a",
    initial: (_input: string) => ({ list: [] as unknown[] }),
    retry: { attempts: 1 },
    step: async (run) => run.complete(await body(run, world)),
  });
}

const pay = (run: Run<{ list: unknown[] }>, world: World, args: unknown = { amount: 7 }, id = "c1", name = "pay") =>
  run.tool({ id, name, arguments: args }, () => world.do("pay", "paid"));
const last = (run: Run<{ list: unknown[] }>, world: World) => run.effect("last", () => world.do("last", "end"));

/** An agent with a model call, a tool call, and an effect after them. */
const ORIGINAL: Body = async (run, world) => {
  const reply = await run.llm(() => world.do("model", "pay"), { input: ["hello"] });
  const paid = await pay(run, world);
  return [reply, paid, await last(run, world)];
};

const OTHERS: [string, Body, number, string, string][] = [
  [
    "another tool",
    async (run, world) => {
      await run.llm(() => world.do("model", "pay"), { input: ["hello"] });
      await pay(run, world, { amount: 7 }, "c1", "refund");
    },
    1,
    "pay",
    "refund",
  ],
  [
    "the same tool with other arguments",
    async (run, world) => {
      await run.llm(() => world.do("model", "pay"), { input: ["hello"] });
      await pay(run, world, { amount: 8 });
    },
    1,
    '{"amount":7}',
    '{"amount":8}',
  ],
  [
    "another call of the same tool",
    async (run, world) => {
      await run.llm(() => world.do("model", "pay"), { input: ["hello"] });
      await pay(run, world, { amount: 7 }, "c2");
    },
    1,
    '"c1"',
    '"c2"',
  ],
  [
    "a model that is given something else",
    async (run, world) => {
      await run.llm(() => world.do("model", "pay"), { input: ["goodbye"] });
    },
    0,
    "llm",
    "llm",
  ],
  [
    "another kind of effect",
    async (run, world) => {
      await run.effect("llm", () => world.do("model"));
    },
    0,
    "run.llm()",
    "run.effect()",
  ],
  [
    "an effect more before it",
    async (run, world) => {
      run.now();
      return ORIGINAL(run, world);
    },
    0,
    "llm",
    "now",
  ],
  [
    "fewer effects",
    async (run, world) => run.llm(() => world.do("model", "pay"), { input: ["hello"] }),
    1,
    "pay",
    "missing",
  ],
  ["nothing at all", async () => "done", 0, "llm", "missing"],
];

const GO = { session: "s", input: "go" };

/** A run gives its step five seconds to request the recorded effects. Here they pass as soon as nothing else happens. */
async function losePatience<T>(lab: Lab, { onTestFinished }: TestContext, run: () => Promise<T>): Promise<T> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const running = run();
  running.catch(() => {});
  await lab.idle();
  vi.advanceTimersByTime(5000);
  return running;
}

describe.each(KINDS)("code that differs from its journal, on $name", (kind) => {
  const lab = useLab(kind);

  it.each(OTHERS)("halts at %s, reports both calls, and the old code can resume", async (_, other, index, was, is) => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world, ORIGINAL), "go", world, "last");
    const sp = await lab.open();
    const error = await errorOf(sp.run(agentOf(world, other), GO));
    expect(isSavepointError(error, "NONDETERMINISM")).toBe(true);
    expect(error.details).toMatchObject({ sessionId: "s", step: 1, index });
    expect(error.details?.["recorded"]).toContain(was);
    expect(error.details?.["called"]).toContain(is);
    expect(error.message).toContain(String(error.details?.["recorded"]));
    expect(error.message).toContain(String(error.details?.["called"]));
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: error.message });
    // The run is not resumed automatically, and the changed code halts again.
    expect(await sp.recover([agentOf(world, other)])).toEqual([]);
    expect(await codeOf((await lab.open()).run(agentOf(world, other), GO))).toBe("NONDETERMINISM");
    const done = [...world.log];
    expect(done).toEqual(["model", "pay", "last"]);
    const result = await (await lab.open()).run(agentOf(world, ORIGINAL), GO);
    expect(result).toMatchObject({ status: "completed", output: ["pay", "paid", "end"] });
    expect(world.log).toEqual([...done, "last"]);
  });

  it("may add effects after all recorded ones", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world, ORIGINAL), "go", world, "last");
    const more = agentOf(world, async (run) => {
      const before = await ORIGINAL(run, world);
      return [before, await run.effect("more", () => world.do("more", "more"))];
    });
    expect((await (await lab.open()).run(more, GO)).output).toEqual([["pay", "paid", "end"], "more"]);
  });

  it("may change the order of keys and use equal values", async () => {
    const world = new World();
    const withArgs = (args: unknown) =>
      agentOf(world, async (run) => {
        await pay(run, world, args);
        return last(run, world);
      });
    await interruptIn(lab, await lab.open(), withArgs({ a: 1, b: [new Date(5), 7n] }), "go", world, "last");
    const result = await (await lab.open()).run(withArgs({ a: 1, b: [new Date(5), 7n] }), GO);
    expect(result.status).toBe("completed");
    expect(world.count("pay")).toBe(1);
  });

  it("is detected when it no longer starts one of several parallel effects, although another one ends", async () => {
    const world = new World();
    const both = agentOf(world, async (run) => {
      await Promise.all([run.effect("a", () => world.do("a")), run.effect("b", () => world.do("b"))]);
      return last(run, world);
    });
    await interruptIn(lab, await lab.open(), both, "go", world, "last");
    const one = agentOf(world, (run) => run.effect("a", () => world.do("a")));
    expect(await orHung(codeOf((await lab.open()).run(one, GO)))).toBe("NONDETERMINISM");
  });

  it("is detected when it no longer starts an effect and its step waits for an answer", async (context) => {
    const world = new World();
    const both = agentOf(world, async (run) =>
      Promise.all([run.ask("?"), run.effect("b", () => world.do("b")), last(run, world)]),
    );
    await interruptIn(lab, await lab.open(), both, "go", world, "last");
    const one = agentOf(world, (run) => run.ask("?"));
    const sp = await lab.open();
    expect(await codeOf(losePatience(lab, context, () => sp.run(one, GO)))).toBe("NONDETERMINISM");
  });

  it("is detected when a result waits for a parallel effect that is no longer started", async (context) => {
    const world = new World();
    const agent = (ids: readonly string[]) =>
      agentOf(world, async (run) => {
        const second = createGate();
        // The effect that will be missing ends first: the results after it wait for it.
        const tools = ids.map((id) =>
          run.tool({ id, name: id }, () => (world.log.push(id), id === "a" ? second.promise : undefined)),
        );
        void tools[1]?.then(() => second.open());
        await Promise.all(tools);
        await last(run, world);
      });
    await interruptIn(lab, await lab.open(), agent(["a", "b"]), "go", world, "last");
    const sp = await lab.open();
    const error = await errorOf(losePatience(lab, context, () => sp.run(agent(["a"]), GO)));
    expect(error).toMatchObject({ code: "NONDETERMINISM", details: { index: 1 } });
    expect((await (await lab.open()).run(agent(["a", "b"]), GO)).status).toBe("completed");
    expect([world.count("a"), world.count("b")]).toEqual([1, 1]);
  });

  it("still records a tool that ends after the difference was detected", async () => {
    const world = new World();
    const agent = (name: string) =>
      agentOf(world, async (run) => {
        const found = createGate();
        const slow = run.tool(
          { id: "1", name: "slow" },
          async () => {
            await world.do("slow");
            await found.promise;
            return "slowly";
          },
          { onUnknown: "retry" },
        );
        if (name === "new") await world.reached("slow", 2);
        const called = run.effect(name, () => world.do(name));
        found.open();
        await called;
        await last(run, world);
        return slow;
      });
    // The tool hangs too: its outcome is unknown.
    void world.hangIn("slow");
    await (await lab.open()).start(agent("old"), GO);
    await world.reached("last");
    await lab.idle();
    lab.crash();
    expect(await codeOf((await lab.open()).run(agent("new"), GO))).toBe("NONDETERMINISM");
    expect([world.count("slow"), world.count("new")]).toEqual([2, 0]);
    const result = await (await lab.open()).run(agent("old"), GO);
    expect(result).toMatchObject({ status: "completed", output: "slowly" });
    expect([world.count("slow"), world.count("old")]).toEqual([2, 1]);
  });

  it("restarts its step with restartStep, and keeps the results of tools by their calls", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world, ORIGINAL), "go", world, "last");
    const changed = agentOf(world, async (run) => {
      // Another order, other arguments, and a new call.
      const before = await run.effect("new", () => world.do("new", "new"));
      const paid = await pay(run, world, { amount: 99 });
      const other = await run.tool({ id: "c9", name: "other" }, () => world.do("other", "did"));
      return [before, paid, other];
    });
    const sp = await lab.open();
    expect(await codeOf(sp.run(changed, GO))).toBe("NONDETERMINISM");
    const result = await sp.run(changed, { ...GO, restartStep: true });
    expect(result).toMatchObject({ status: "completed", output: ["new", "paid", "did"] });
    expect(world.log).toEqual(["model", "pay", "last", "new", "other"]);
  });

  it("keeps errors of tools with restartStep, but not for another tool with the same call id", async () => {
    const world = new World();
    const fails: Body = async (run) => {
      const code = await codeOf(
        run.tool({ id: "c1", name: "pay" }, () => {
          world.log.push("pay");
          throw new RangeError("declined");
        }),
      );
      await last(run, world);
      return code;
    };
    await interruptIn(lab, await lab.open(), agentOf(world, fails), "go", world, "last");
    const changed = agentOf(world, async (run) => {
      run.now();
      const other = await run.tool({ id: "c1", name: "refund" }, () => world.do("refund", "refunded"));
      return [other, await fails(run, world)];
    });
    const result = await (await lab.open()).run(changed, { ...GO, restartStep: true });
    expect(result.output).toEqual(["refunded", "other: RangeError: declined"]);
    expect(world.count("pay")).toBe(1);
  });

  it("keeps the outcome of an interrupted tool unknown with restartStep", async () => {
    const world = new World();
    const original = agentOf(world, async (run) => {
      await run.effect("before", () => world.do("before"));
      return pay(run, world);
    });
    await interruptIn(lab, await lab.open(), original, "go", world, "pay");
    const changed = agentOf(world, async (run) => pay(run, world, { amount: 8 }));
    const sp = await lab.open();
    const asked = await sp.run(changed, { ...GO, restartStep: true });
    expect(asked).toMatchObject({ status: "waiting", question: { kind: "unknown", call: { name: "pay" } } });
    expect(world.count("pay")).toBe(1);
    // After another restart, the outcome is still unknown.
    const again = await (await lab.open()).run(changed, { ...GO, restartStep: true });
    expect(again).toMatchObject({ status: "waiting", question: { kind: "unknown" } });
    await sp.answer("s", { happened: true, result: "it had" });
    expect(await orHung(sp.run(changed, GO))).toMatchObject({ status: "completed", output: "it had" });
    expect(world.count("pay")).toBe(1);
  });

  it("survives an interruption of a restarted step", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), agentOf(world, ORIGINAL), "go", world, "last");
    const changed = agentOf(world, async (run) => {
      const first = await run.effect("new", () => world.do("new", "new"));
      const paid = await pay(run, world);
      return [first, paid, await last(run, world)];
    });
    const second = await lab.open();
    const reached = world.hangIn("last");
    await second.start(changed, { ...GO, restartStep: true });
    await reached;
    await lab.idle();
    lab.crash();
    const result = await orHung((await lab.open()).run(changed, GO));
    expect(result).toMatchObject({ status: "completed", output: ["new", "paid", "end"] });
    expect([world.count("pay"), world.count("new")]).toEqual([1, 1]);
  });

  it("does not affect completed steps", async () => {
    const world = new World();
    const steps = (name: string) =>
      defineAgent({
        name: "a",
        initial: (_input: string) => ({ list: [] as unknown[] }),
        async step(run) {
          run.state.list.push(await run.effect(name, () => world.do(`step ${run.step}`, `${name} ${run.step}`)));
          if (run.step === 3) return run.complete(run.state.list);
          return undefined;
        },
      });
    await interruptIn(lab, await lab.open(), steps("old"), "go", world, "step 3");
    const sp = await lab.open();
    // The third step has recorded nothing, so different code may execute it.
    expect((await sp.run(steps("new"), GO)).output).toEqual(["old 1", "old 2", "new 3"]);
  });
});
