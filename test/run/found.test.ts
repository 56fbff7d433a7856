/** What reviews have found, one test for each: none of it may come back. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, type TestContext, vi } from "vitest";
import {
  defineAgent,
  type EffectOptions,
  type LlmOptions,
  type Run,
  type RunEvent,
  Savepoint,
} from "../../src/index.js";
import type { Store } from "../../src/store/index.js";
import {
  codeOf,
  createGate,
  errorOf,
  interruptIn,
  type Kind,
  KINDS,
  type Lab,
  LEASE,
  orHung,
  settle,
  until,
  World,
} from "./lab.js";

const [MEMORY] = KINDS as [Kind];
const GO = { session: "s", input: "go" };
const QUICK = { attempts: 3, delay: 1 };

/** Data and a clock of its own, so that tests that have to wait can do so at the same time. */
async function openLab({ onTestFinished }: TestContext, kind = MEMORY): Promise<Lab> {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const now = (): number => time;
  const place = await kind.setup();
  onTestFinished(() => place.teardown());
  let store: Store | undefined;
  return {
    async open(options = {}) {
      store = await place.openStore(now);
      return Savepoint.open(store, { now, on: { backgroundFailure: () => {} }, ...options });
    },
    now,
    advance: (milliseconds) => void (time += milliseconds),
    crash: () => void (time += LEASE + 1),
    store() {
      if (!store) throw new Error("Nothing was opened yet.");
      return store;
    },
  };
}

interface Notes {
  notes: unknown[];
}

/** An agent of one step that completes with what it returns. */
function once<Output>(step: (run: Run<Notes>) => Promise<Output>, attempts = QUICK.attempts) {
  return defineAgent({
    name: "once",
    initial: (_input: string): Notes => ({ notes: [] }),
    retry: { ...QUICK, attempts },
    step: async (run) => run.complete(await step(run)),
  });
}

function listOf(name: string): { name: string; index: number; text: string }[] {
  return Array.from({ length: 40 }, (_, index) => ({ name, index, text: `${name} ${index} `.repeat(5) }));
}

const never = <T>(): Promise<T> => new Promise<T>(() => {});

const refuse = (): never => {
  throw new RangeError("do not look");
};
const BLIND: ProxyHandler<object> = { get: refuse, has: refuse, ownKeys: refuse, getOwnPropertyDescriptor: refuse };

/** Looking at what it has throws. */
const blind = (): object => new Proxy({}, BLIND);

/** Looking at it in any way throws, even what it is an instance of. */
const hostile = (): object => new Proxy({}, { ...BLIND, getPrototypeOf: refuse });

function withThrowingGetters(): Error {
  const error = new Error("hidden");
  for (const name of ["name", "message", "stack", "code", "status", "cause"]) {
    Object.defineProperty(error, name, { get: refuse });
  }
  return error;
}

function withCauseCycle(): Error {
  const first = new Error("first");
  first.cause = new TypeError("second", { cause: first });
  return first;
}

const LARGE: [string, readonly unknown[]][] = [
  ["a long text", ["x".repeat(50_000)]],
  ["a list of objects", [listOf("row")]],
  ["bytes", [Uint8Array.from({ length: 5000 }, (_, index) => index % 251)]],
  ["two lists of parallel tools", [listOf("left"), listOf("right")]],
];

describe.concurrent.each(KINDS)("a run that is cancelled while a tool runs, on $name", (kind) => {
  const cases = LARGE.flatMap(([what, values]) =>
    (["at once", "when it is told to stop"] as const).map((when) => ({ what, values, when })),
  );

  it.for(cases)("keeps $what that it returns $when", async ({ values, when }, context) => {
    const lab = await openLab(context, kind);
    const world = new World();
    const gate = createGate();
    const agent = once((run) =>
      Promise.all(
        values.map((value, index) =>
          run.tool({ id: `${index}`, name: "tool" }, async ({ signal }) => {
            world.log.push("tool");
            if (when === "when it is told to stop") {
              await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
            } else await gate.promise;
            await sleep(index * 30);
            return value;
          }),
        ),
      ),
    );
    const handle = await (await lab.open()).start(agent, GO);
    await until(() => world.log.length === values.length);
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    gate.open();
    const halted = await handle.result();
    expect(halted.status).toBe("halted");
    expect(halted.reason).toContain("enough");
    const result = await (await lab.open()).run(agent, { ...GO, resume: true });
    expect(result.status).toBe("completed");
    expect(result.output).toStrictEqual(values);
    expect(world.count("tool")).toBe(values.length);
  });
});

describe.concurrent("forks with other results", () => {
  it("have each their own, though they are made at the same time", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const world = new World();
    const agent = once((run) => run.tool({ id: "call", name: "list" }, () => world.do("list", listOf("original"))));
    expect((await sp.run(agent, GO)).output).toStrictEqual(listOf("original"));
    const session = sp.session("s");
    const id = (await session.head())?.id as string;
    const names = ["north", "east", "south", "west"];
    const commit = vi.spyOn(lab.store(), "commit");
    const forks = await Promise.all(names.map((name) => session.fork(id, { results: { call: listOf(name) } })));
    // They got in each other's way: that is what the test is about.
    expect(commit.mock.settledResults.map(({ type }) => type)).toContain("rejected");
    expect(new Set(forks.map(({ branch }) => branch)).size).toBe(4);
    const other = await lab.open();
    for (const [index, name] of names.entries()) {
      const result = await other.run(agent, { ...GO, branch: forks[index]?.branch as string });
      expect(result.output).toStrictEqual(listOf(name));
    }
    expect((await other.run(agent, GO)).output).toStrictEqual(listOf("original"));
    expect(world.count("list")).toBe(1);
  });
});

describe.concurrent("a race", () => {
  it.for([0, 20])(
    "is replayed, and both are counted, when the loser ends %i ms later and the step then fails",
    async (later, context) => {
      const lab = await openLab(context);
      const sp = await lab.open();
      const world = new World();
      let failures = 0;
      const agent = once(async (run) => {
        const winner = await Promise.race([
          run.llm(() => world.do("x", "x"), { name: "x", usage: () => ({ tokens: 3, cost: 0.25 }) }),
          run.llm(() => (world.log.push("y"), sleep(later, "y")), {
            name: "y",
            usage: () => ({ tokens: 5, cost: 0.5 }),
          }),
        ]);
        if (failures-- > 0) throw new Error("a reason of its own");
        return winner;
      });
      const undisturbed = await sp.run(agent, { session: "undisturbed", input: "go" });
      failures = 1;
      const replayed = await sp.run(agent, { session: "replayed", input: "go" });
      for (const result of [undisturbed, replayed]) {
        expect(result).toMatchObject({ status: "completed", output: "x", usage: { tokens: 8, cost: 0.75 } });
      }
      expect(failures).toBe(-1);
      expect([world.count("x"), world.count("y")]).toEqual([2, 2]);
    },
  );

  it("of effects is replayed after an interruption with the same winner", async (context) => {
    const lab = await openLab(context);
    const world = new World();
    let failures = 1;
    const agent = once(async (run) => {
      const winner = await Promise.race([
        run.effect("x", () => (world.log.push("x"), sleep(20, "x"))),
        run.effect("y", () => world.do("y", "y")),
      ]);
      if (failures-- > 0) throw new Error("a reason of its own");
      return [winner, await run.effect("last", () => world.do("last", "last"))];
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["y", "last"]);
    expect(world.log).toEqual(["x", "y", "last", "last"]);
  });
});

describe.concurrent("what a tool has answered is recorded", () => {
  it.for(["returns nothing", "completes"])(
    "when the step puts a function into the state and %s",
    async (how, context) => {
      const lab = await openLab(context);
      const world = new World();
      const agent = (broken: boolean) =>
        defineAgent({
          name: "a",
          initial: (_input: string): Notes => ({ notes: [] }),
          retry: QUICK,
          async step(run) {
            if (run.step > 1) return run.complete(run.state.notes);
            run.state.notes.push(await run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer")));
            if (broken) run.state.notes.push(() => {});
            return how === "completes" ? run.complete(run.state.notes.slice(0, 1)) : undefined;
          },
        });
      expect(await codeOf((await lab.open()).run(agent(true), GO))).toBe("INVALID_STATE");
      const result = await (await lab.open()).run(agent(false), GO);
      expect(result).toMatchObject({ status: "completed", output: ["answer"] });
      expect(world.count("tool")).toBe(1);
    },
  );

  it("when it ends a moment after the code was found to do something else", async (context) => {
    const lab = await openLab(context);
    const world = new World();
    const agent = (name: string) =>
      once(async (run) => {
        const slow = run.tool(
          { id: "1", name: "slow" },
          async () => {
            await world.do("slow");
            return sleep(50, "slowly");
          },
          { onUnknown: "retry" },
        );
        if (name === "new") await until(() => world.count("slow") === 2);
        await run.effect(name, () => world.do(name));
        await run.effect("last", () => world.do("last"));
        return slow;
      });
    // The tool hangs too: nothing is known of it.
    void world.hangIn("slow");
    await (await lab.open()).start(agent("old"), GO);
    await until(() => world.log.includes("last"));
    await settle();
    lab.crash();
    expect(await codeOf((await lab.open()).run(agent("new"), GO))).toBe("NONDETERMINISM");
    expect([world.count("slow"), world.count("new")]).toEqual([2, 0]);
    const result = await (await lab.open()).run(agent("old"), GO);
    expect(result).toMatchObject({ status: "completed", output: "slowly" });
    expect([world.count("slow"), world.count("old")]).toEqual([2, 1]);
  });
});

describe.concurrent("a run that has reached its limit while a tool never ends", () => {
  const greedy = (world: World) =>
    defineAgent({
      name: "greedy",
      initial: (_input: string): Notes => ({ notes: [] }),
      limits: { tokens: 5 },
      retry: QUICK,
      async step(run) {
        void run.tool({ id: "1", name: "endless" }, () => (world.log.push("endless"), never<string>()));
        await run.llm(() => "first", { usage: () => ({ tokens: 10 }) });
        world.log.push("at the limit");
        await run.llm(() => world.do("second", "second"));
        return run.complete();
      },
    });

  it("can be closed", async (context) => {
    const world = new World();
    const sp = await (await openLab(context)).open();
    const handle = await sp.start(greedy(world), GO);
    handle.result().catch(() => {});
    await until(() => world.log.includes("at the limit"));
    await settle();
    expect(await orHung(sp.close(), 8000)).toBeUndefined();
    expect(world.count("second")).toBe(0);
  });

  it("can be cancelled", async (context) => {
    const world = new World();
    const sp = await (await openLab(context)).open();
    const handle = await sp.start(greedy(world), GO);
    await until(() => world.log.includes("at the limit"));
    await settle();
    expect(await orHung(Promise.resolve(handle.cancel("enough")), 8000)).not.toBe("hung");
    expect(await orHung(handle.result())).toMatchObject({ status: "halted" });
    expect(world.count("second")).toBe(0);
  });
});

describe.concurrent("a run that stays while it waits", () => {
  const asker = once(async (run) => run.ask<string>("which colour?"));

  /** Counts how often the run was put aside. */
  function countWaits(): { count: number; onEvent: (event: RunEvent) => void } {
    const waits = {
      count: 0,
      onEvent: (event: RunEvent) => void (event.type === "status" && event.status === "waiting" && waits.count++),
    };
    return waits;
  }

  it("begins the step anew once, and not again after the answer", async (context) => {
    const lab = await openLab(context);
    const world = new World();
    const agent = (name: string) =>
      once(async (run) => {
        const tool = await run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer"));
        await run.effect(name, () => world.do(name));
        return [tool, await run.ask<string>("which colour?")];
      });
    await interruptIn(lab, await lab.open(), agent("old"), "go", world, "old");
    const waits = countWaits();
    const sp = await lab.open();
    const running = sp.run(agent("new"), { ...GO, restartStep: true, wait: true, onEvent: waits.onEvent });
    running.catch(() => {});
    await until(() => waits.count === 1);
    await (await lab.open()).answer("s", "blue");
    expect(await orHung(running, 8000)).toMatchObject({ status: "completed", output: ["answer", "blue"] });
    expect(waits.count).toBe(1);
    expect(world.log).toEqual(["tool", "old", "new"]);
  });

  it("is resumed once, and not again after it was cancelled", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    await sp.run(asker, GO);
    await sp.cancel("s", "first");
    const waits = countWaits();
    const running = sp.run(asker, { ...GO, resume: true, wait: true, onEvent: waits.onEvent });
    running.catch(() => {});
    await until(() => waits.count === 1);
    expect(await (await lab.open()).cancel("s", "second")).toBe(true);
    const result = await orHung(running, 8000);
    expect(result).toMatchObject({ status: "halted" });
    expect(result).toHaveProperty("reason", expect.stringContaining("second"));
    expect(waits.count).toBe(1);
  });
});

describe.concurrent("keys of inputs", () => {
  it("are known after a checkpoint that was saved by hand", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const world = new World();
    const chat = defineAgent({
      name: "chat",
      initial: (input: string) => (world.log.push(input), { heard: [input] }),
      receive(state, input: string) {
        world.log.push(input);
        state.heard.push(input);
      },
      step: (run) => run.complete(`${run.state.heard.join()}`),
    });
    const say = async (input: string): Promise<string | undefined> =>
      (await (await lab.open()).run(chat, { session: "s", input, key: `k${input}` })).output;
    const save = async (): Promise<void> => {
      const session = sp.session<{ heard: string[] }>("s");
      const state = (await session.latest())?.state as { heard: string[] };
      await session.save(state, { status: "completed" });
    };
    expect(await say("A")).toBe("A");
    await save();
    expect(await say("B")).toBe("A,B");
    expect(await say("A")).toBe("A");
    await save();
    expect(await say("C")).toBe("A,B,C");
    expect([await say("A"), await say("B"), await say("C")]).toEqual(["A", "A,B", "A,B,C"]);
    expect(world.log).toEqual(["A", "B", "C"]);
  });

  it.for([true, false])("go on with a halted run (the input is said again: %s)", async (again, context) => {
    const sp = await (await openLab(context)).open();
    const world = new World();
    let halts = true;
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => ({ heard: [input] }),
      receive: (state, input: string) => void state.heard.push(input),
      retry: QUICK,
      async step(run) {
        await run.effect("work", () => world.do("work"));
        if (halts && run.turn === 2) return run.halt("somebody has to look");
        return run.complete(run.state.heard.join());
      },
    });
    await sp.run(agent, { session: "s", input: "a", key: "ka" });
    expect((await sp.run(agent, { session: "s", input: "b", key: "kb" })).status).toBe("halted");
    // Without being told so, it stays halted.
    expect((await sp.run(agent, { session: "s", input: "b", key: "kb" })).status).toBe("halted");
    halts = false;
    const options = { session: "s", key: "kb", resume: true, ...(again && { input: "b" }) };
    expect(await sp.run(agent, options)).toMatchObject({ status: "completed", output: "a,b" });
  });
});

describe.concurrent("verify", () => {
  it("that throws is not what the step catches: it is halted, and can be asked again", async (context) => {
    const lab = await openLab(context);
    const world = new World();
    const agent = (verify: NonNullable<EffectOptions<string>["verify"]>) =>
      once(async (run) => {
        try {
          const call = { id: "1", name: "pay" };
          return await run.tool(call, () => world.do("pay", "paid"), { onUnknown: "verify", verify });
        } catch {
          world.log.push("caught");
          return await run.effect("fallback", () => world.do("fallback", "not paid"));
        }
      });
    const broken = agent(() => {
      world.log.push("verify");
      throw new Error("the bank is closed");
    });
    await interruptIn(lab, await lab.open(), broken, "go", world, "pay");
    const sp = await lab.open();
    const halted = await orHung(sp.run(broken, GO), 5000);
    expect(halted).toMatchObject({ status: "halted" });
    expect(halted).toHaveProperty("reason", expect.stringContaining("the bank is closed"));
    expect(world.count("verify")).toBeGreaterThanOrEqual(3);
    const working = agent(() => ({ happened: true, result: "verified" }));
    const result = await sp.run(working, { ...GO, resume: true });
    expect(result).toMatchObject({ status: "completed", output: "verified" });
    expect([world.count("pay"), world.count("caught"), world.count("fallback")]).toEqual([1, 0, 0]);
  });
});

describe.concurrent("a parallel effect that the code no longer starts", () => {
  it("is told, and nothing waits for it for ever", async (context) => {
    const lab = await openLab(context);
    const world = new World();
    const agent = (ids: readonly string[]) =>
      once(async (run) => {
        // The one that will be missing ends first: what ended after it waits for it.
        const tools = ids.map((id) =>
          run.tool({ id, name: id }, () => (world.log.push(id), sleep(id === "a" ? 30 : 0))),
        );
        await Promise.all(tools);
        await run.effect("last", () => world.do("last"));
      });
    await interruptIn(lab, await lab.open(), agent(["a", "b"]), "go", world, "last");
    const error = await errorOf(orHung((await lab.open()).run(agent(["a"]), GO), 12_000));
    expect(error).toMatchObject({ code: "NONDETERMINISM", details: { index: 1 } });
    expect((await (await lab.open()).run(agent(["a", "b"]), GO)).status).toBe("completed");
    expect([world.count("a"), world.count("b")]).toEqual([1, 1]);
  });
});

describe.concurrent("inside the function of an effect", () => {
  it.for(["effect", "tool", "llm"] as const)(
    "of run.%s(), other effects are refused at once",
    async (outer, context) => {
      const sp = await (await openLab(context)).open();
      const world = new World();
      const codes: string[] = [];
      const agent = once(async (run) => {
        const tryAll = async (): Promise<void> => {
          const inner = () => world.do("inner");
          codes.push(await codeOf((async () => run.now())()));
          codes.push(await codeOf(run.effect("inner", inner)));
          codes.push(await codeOf(run.tool({ id: "2", name: "inner" }, inner)));
          codes.push(await codeOf(run.llm(inner)));
        };
        const body = async (): Promise<string> => {
          await tryAll();
          await sleep(1);
          await tryAll();
          return "done";
        };
        const done =
          outer === "effect"
            ? await run.effect("outer", body)
            : outer === "tool"
              ? await run.tool({ id: "1", name: "outer" }, body)
              : await run.llm(body);
        // Afterwards, all of it is allowed.
        return [done, typeof run.now(), await run.effect("after", () => "after")];
      });
      const result = await orHung(sp.run(agent, GO), 3000);
      expect(result).toMatchObject({ status: "completed", output: ["done", "number", "after"] });
      expect(codes).toEqual(Array.from({ length: 8 }, () => "INVALID_ARGUMENT"));
      expect(world.log).toEqual([]);
    },
  );

  it("another session can be run", async (context) => {
    const sp = await (await openLab(context)).open();
    const inner = once(async (run) => {
      const now = run.now();
      const tool = await run.tool({ id: "1", name: "inner" }, () => "inner");
      return [typeof now, tool, await run.effect("e", async () => sleep(1, "effect"))];
    });
    const agent = once((run) =>
      run.tool({ id: "1", name: "outer" }, async () => {
        await sleep(1);
        return (await sp.run(inner, { session: "other", input: "go" })).output;
      }),
    );
    const result = await orHung(sp.run(agent, GO), 3000);
    expect(result).toMatchObject({ status: "completed", output: ["number", "inner", "effect"] });
  });
});

describe.concurrent("wrong options of a tool", () => {
  const wrong: { what: string; options: object }[] = [
    { what: "a timeout without a unit", options: { timeout: "5x" } },
    { what: "no attempts", options: { retry: { attempts: 0 } } },
    { what: "verify without a function", options: { onUnknown: "verify" } },
    { what: "a policy that is not known", options: { onUnknown: "asks" } },
  ];

  it.for(wrong)("are refused before anything is written: $what", async ({ options }, context) => {
    const lab = await openLab(context);
    const world = new World();
    const codes: string[] = [];
    const agent = (given: object) =>
      once(async (run) => {
        const tool = run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer"), given);
        codes.push(await codeOf(tool));
        return tool;
      }, 1);
    expect((await (await lab.open()).run(agent(options), GO)).status).toBe("halted");
    expect(codes).toEqual(["INVALID_ARGUMENT"]);
    expect(world.count("tool")).toBe(0);
    const result = await (await lab.open()).run(agent({}), { ...GO, resume: true });
    expect(result).toMatchObject({ status: "completed", output: "answer" });
    expect(world.count("tool")).toBe(1);
  });
});

/** A tool throws it; the step catches it, is interrupted, and catches the same again. */
async function checkThrownByTool(make: () => unknown, context: TestContext): Promise<void> {
  const lab = await openLab(context);
  const world = new World();
  const caught: unknown[] = [];
  const agent = once(async (run) => {
    const fail = (): never => {
      world.log.push("tool");
      throw make();
    };
    const error = await errorOf(run.tool({ id: "1", name: "tool" }, fail));
    const { cause } = error;
    caught.push([error instanceof Error, error.name, error.message, cause instanceof Error && cause.message]);
    await run.effect("last", () => world.do("last"));
    return "went on";
  });
  const reached = world.hangIn("last");
  await (await lab.open()).start(agent, GO);
  expect(await orHung(reached, 3000)).toBeUndefined();
  await settle();
  lab.crash();
  const result = await orHung((await lab.open()).run(agent, GO), 3000);
  expect(result).toMatchObject({ status: "completed", output: "went on" });
  expect(caught).toHaveLength(2);
  expect(caught[0]).toEqual([true, expect.any(String), expect.any(String), expect.anything()]);
  expect(caught[1]).toEqual(caught[0]);
  expect(world.log).toEqual(["tool", "last", "last"]);
}

/** A step throws it, each time. */
async function checkThrownByStep(make: () => unknown, context: TestContext): Promise<void> {
  const sp = await (await openLab(context)).open();
  let attempts = 0;
  const agent = once(() => {
    attempts++;
    throw make();
  });
  const result = await orHung(sp.run(agent, GO), 2000);
  expect(result).toMatchObject({ status: "halted" });
  expect(result).toHaveProperty("reason", expect.stringContaining("3 attempts"));
  expect(attempts).toBe(3);
}

describe.concurrent("what is thrown", () => {
  const thrown: { what: string; make: () => unknown }[] = [
    { what: "causes that form a cycle", make: withCauseCycle },
    { what: "an error whose getters throw", make: withThrowingGetters },
    { what: "what throws when looked at", make: blind },
    { what: "what has no prototype", make: () => Object.create(null) as unknown },
  ];

  it.for(thrown)("by a tool is recorded and can be caught: $what", ({ make }, context) =>
    checkThrownByTool(make, context),
  );

  const byStep = thrown.filter(({ make }) => make !== blind);

  it.for(byStep)("by a step is a failure like any other: $what", ({ make }, context) =>
    checkThrownByStep(make, context),
  );
});

describe.concurrent("the usage of a reply", () => {
  const wrong: { what: string; usage: NonNullable<LlmOptions["usage"]> }[] = [
    { what: "is no number", usage: () => ({ tokens: Number.NaN }) },
    {
      what: "cannot be told",
      usage: () => {
        throw new Error("no idea");
      },
    },
  ];

  it.for(wrong)("that $what does not cost the reply", async ({ usage }, context) => {
    const sp = await (await openLab(context)).open();
    const world = new World();
    let failures = 1;
    const agent = once(async (run) => {
      const reply = await run.llm(() => world.do("model", "reply"), { usage });
      if (failures-- > 0) throw new Error("a reason of its own");
      return reply;
    });
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({ status: "completed", output: "reply", usage: { tokens: 0, cost: 0 } });
    expect(world.count("model")).toBe(1);
  });
});

describe.concurrent("a step", () => {
  it("cannot run its own session: it would wait for itself", async (context) => {
    const sp = await (await openLab(context)).open();
    const codes: string[] = [];
    const agent = once(async (run) => {
      codes.push(await codeOf(sp.run(agent as never, { ...GO } as never)));
      await run.effect("e", async () => void codes.push(await codeOf(sp.run(agent as never, { ...GO } as never))));
      return "done";
    });
    expect(await orHung(sp.run(agent, GO), 3000)).toMatchObject({ status: "completed", output: "done" });
    expect(codes).toEqual(["ALREADY_RUNNING", "ALREADY_RUNNING"]);
  });

  it("is stopped by a cancel right after a start that nobody has waited for", async (context) => {
    const sp = await (await openLab(context)).open();
    const agent = once((run) =>
      run.effect(
        "e",
        ({ signal }) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
      ),
    );
    const starting = sp.start(agent, GO);
    expect(await orHung(sp.cancel("s", "enough"), 5000)).toBe(true);
    const result = await orHung((await starting).result(), 3000);
    expect(result).toMatchObject({ status: "halted" });
  });

  it("may leave an effect alone that fails", async (context) => {
    const unhandled: unknown[] = [];
    const listener = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", listener);
    context.onTestFinished(() => void process.off("unhandledRejection", listener));
    const sp = await (await openLab(context)).open();
    let failures = 1;
    const agent = once(async (run) => {
      const fail = (): never => {
        throw new Error("nobody cares");
      };
      void run.effect("e", fail);
      void run.tool({ id: "1", name: "t" }, fail);
      void run.llm(fail);
      await run.effect("after", () => sleep(5));
      // And the same when it is replayed.
      if (failures-- > 0) throw new Error("a reason of its own");
      return "done";
    });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "done" });
    await settle();
    expect(unhandled).toEqual([]);
  });

  it.for([
    { what: "a text", returned: "done" },
    { what: "0", returned: 0 },
    { what: "null", returned: null },
    { what: "an object of its own", returned: { status: "completed" } },
  ])("that returns $what has failed, and is told what to return", async ({ returned }, context) => {
    const sp = await (await openLab(context)).open();
    let attempts = 0;
    const agent = defineAgent({
      name: "a",
      initial: (_input: string): Notes => ({ notes: [] }),
      retry: QUICK,
      step: () => (attempts++, returned as never),
    });
    const result = await orHung(sp.run(agent, GO), 3000);
    expect(result).toMatchObject({ status: "halted" });
    expect(result).toHaveProperty("reason", expect.stringContaining("run.complete("));
    expect(attempts).toBe(3);
  });
});

describe.concurrent.each(KINDS)("long times on $name", (kind) => {
  it("are not over at once", async (context) => {
    const warnings: string[] = [];
    const listener = ({ name }: Error): void => void warnings.push(name);
    process.on("warning", listener);
    context.onTestFinished(() => void process.off("warning", listener));
    const lab = await openLab(context, kind);
    const sp = await lab.open({ lease: "90d" });
    const agent = once((run) => run.tool({ id: "1", name: "t" }, () => sleep(50, "in time"), { timeout: "30d" }));
    const handle = await sp.start(agent, GO);
    lab.advance(80 * 86_400_000);
    expect(await codeOf((await lab.open()).run(agent, GO))).toBe("ALREADY_RUNNING");
    expect(await handle.result()).toMatchObject({ status: "completed", output: "in time" });
    await settle();
    expect(warnings).not.toContain("TimeoutOverflowWarning");
  });
});

describe.concurrent("closing", () => {
  it("does not wait for an initial state that never comes", async (context) => {
    const sp = await (await openLab(context)).open();
    const asked = createGate();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => (asked.open(), never<Notes>()),
      step: (run) => run.complete(),
    });
    sp.run(agent, GO).catch(() => {});
    await asked.promise;
    expect(await orHung(sp.close(), 4000)).toBeUndefined();
  });
});

/** Takes rejections that nobody handles from whoever else listens: they are what the test is about. */
function takeUnhandled({ onTestFinished }: TestContext): unknown[] {
  const others = process.listeners("unhandledRejection");
  const unhandled: unknown[] = [];
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => void unhandled.push(error));
  onTestFinished(() => {
    process.removeAllListeners("unhandledRejection");
    for (const other of others) process.on("unhandledRejection", other);
  });
  return unhandled;
}

// One after the other: they change who hears of rejections.
describe("what throws when it is looked at", () => {
  it("a tool may throw what throws when its prototype is looked at", async (context) => {
    takeUnhandled(context);
    await checkThrownByTool(hostile, context);
  });

  it("a step may throw what throws when its prototype is looked at", async (context) => {
    takeUnhandled(context);
    await checkThrownByStep(hostile, context);
  });

  it("a step may throw what throws when looked at", (context) => checkThrownByStep(blind, context));

  it("a step may leave a call alone that is refused", async (context) => {
    const unhandled = takeUnhandled(context);
    const sp = await (await openLab(context)).open();
    const agent = once(async (run) => {
      void run.tool({ id: "1", name: "t" }, () => "t", { onUnknown: "verify" });
      await run.effect("after", () => sleep(5));
      return "done";
    });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "done" });
    await settle();
    expect(unhandled).toEqual([]);
  });
});
