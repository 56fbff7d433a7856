/** Errors of effects and steps are recorded and replayed, and never end the process. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, type TestContext } from "vitest";
import { SavepointError } from "../../src/index.js";
import { codeOf, errorOf, interruptIn, KINDS, type Lab, once, orHung, transient, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

const refuse = (): never => {
  throw new RangeError("do not look");
};
const BLIND: ProxyHandler<object> = { get: refuse, has: refuse, ownKeys: refuse, getOwnPropertyDescriptor: refuse };

/** Reading any of its properties throws. */
const blind = (): object => new Proxy({}, BLIND);

/** Every operation on it throws, even `instanceof`. */
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

const THROWN: { what: string; make: () => unknown }[] = [
  { what: "an error whose causes form a cycle", make: withCauseCycle },
  { what: "an error whose getters throw", make: withThrowingGetters },
  { what: "an object that cannot be read", make: blind },
  { what: "an object whose prototype cannot be read", make: hostile },
  { what: "an object without a prototype", make: () => Object.create(null) as unknown },
];

describe.each(KINDS)("errors of effects and steps on $name", (kind) => {
  const lab = useLab(kind);

  it.each([true, false])("attempts count for each effect, not for the step; in parallel: %s", async (isParallel) => {
    const world = new World();
    const fails = new Set(["a", "b", "c", "d"]);
    const flaky = (name: string) => (): unknown => {
      void world.do(name);
      if (fails.delete(name)) throw transient(`${name} is busy`);
      return name;
    };
    const agent = once(async (run) => {
      const call = (name: string) => run.effect(name, flaky(name), { retry: { attempts: 1 } });
      if (isParallel) return Promise.all(["a", "b", "c", "d"].map(call));
      return [await call("a"), await call("b"), await call("c"), await call("d")];
    }, 3);
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "completed", output: ["a", "b", "c", "d"] });
    for (const name of ["a", "b", "c", "d"]) expect(world.count(name)).toBe(2);
  });

  it("an error of an effect is recorded, and replayed with its name, message, code and cause", async () => {
    const world = new World();
    class OddError extends Error {
      override readonly name = "OddError";
      readonly code = "E_ODD";
    }
    const cause = Object.assign(new TypeError("deep"), { code: 7 });
    const thrown: unknown[] = [
      new OddError("odd", { cause }),
      new RangeError("range"),
      "a text",
      { plain: 1 },
      undefined,
      new SavepointError("BUSY", "later"),
    ];
    const agent = once(async (run) => {
      const seen: unknown[] = [];
      for (const [index, error] of thrown.entries()) {
        try {
          await run.effect(`e${index}`, () => {
            world.log.push(`e${index}`);
            throw error;
          });
        } catch (caught) {
          const { name, message, code, cause: why } = caught as Error & { code?: unknown };
          const { name: whyName, message: whyMessage, code: whyCode } = (why ?? {}) as Error & { code?: unknown };
          seen.push([
            caught instanceof Error,
            caught instanceof RangeError,
            name,
            message,
            code,
            whyName,
            whyMessage,
            whyCode,
          ]);
        }
      }
      run.state.notes.push(seen);
      await run.effect("last", () => world.do("last"));
      return seen;
    });
    const [live, replayed]: unknown[][] = [[], []];
    const sp = await lab.open();
    live?.push((await sp.run(agent, { session: "live", input: "go" })).output);
    await interruptIn(lab, sp, agent, "go", world, "last");
    replayed?.push((await (await lab.open()).run(agent, GO)).output);
    expect(replayed).toEqual(live);
    const none = undefined;
    expect(live?.[0]).toEqual([
      [true, false, "OddError", "odd", "E_ODD", "TypeError", "deep", 7],
      [true, true, "RangeError", "range", none, none, none, none],
      [true, false, "Error", "a text", none, none, none, none],
      [true, false, "Error", '{"plain":1}', none, none, none, none],
      [true, false, "Error", "undefined", none, none, none, none],
      [true, false, "SavepointError", "later", "BUSY", none, none, none],
    ]);
    expect(world.count("e0")).toBe(2);
  });

  it("a result that cannot be stored is recorded as an error, and its effect is not executed again", async () => {
    const world = new World();
    const agent = once(async (run) => {
      let code: unknown;
      try {
        await run.tool({ id: "1", name: "t" }, () => world.do("tool", { f: () => 1 }) as never);
      } catch (error) {
        ({ code } = error as { code: unknown });
      }
      await run.effect("last", () => world.do("last"));
      return code;
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    const result = await (await lab.open()).run(agent, GO);
    expect(result.output).toBe("INVALID_STATE");
    expect(world.count("tool")).toBe(1);
  });

  it("a tool whose result cannot be stored is executed once, and a person is asked for its result when the run is resumed", async () => {
    const world = new World();
    const sp = await lab.open();
    const agent = once((run) => run.tool({ id: "1", name: "pay" }, () => world.do("pay", { f: () => 1 }) as never), 3);
    expect(await sp.run(agent, GO)).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("cannot be stored") as unknown },
      needsResume: false,
    });
    expect(world.count("pay")).toBe(1);
    const asked = await (await lab.open()).run(agent, GO);
    expect(asked).toMatchObject({ status: "waiting", question: { kind: "unknown", call: { name: "pay" } } });
    await sp.answer("s", { happened: true, result: "paid" });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "paid" });
    expect(world.count("pay")).toBe(1);
  });

  it("an effect that fails with an error of Savepoint throws a SavepointError", async () => {
    const agent = once((run) => codeOf(run.effect("slow", () => new Promise(() => {}), { timeout: 5 })));
    expect((await (await lab.open()).run(agent, GO)).output).toBe("TIMEOUT");
  });

  it.each(THROWN)("a tool may throw $what: it is recorded and can be caught", async ({ make }) => {
    const unhandled = takeUnhandledRejections();
    try {
      await checkThrownByTool(lab, make);
    } finally {
      unhandled.restore();
    }
  });

  it.each(THROWN)("a step may throw $what: the run fails", async ({ make }) => {
    const unhandled = takeUnhandledRejections();
    try {
      await checkThrownByStep(lab, make);
    } finally {
      unhandled.restore();
    }
  });

  it("effects that fail and that the step does not await are no unhandled rejections", async (context) => {
    const { rejections } = restoredAfter(context);
    const sp = await lab.open();
    let failures = 1;
    const agent = once(async (run) => {
      const fail = (): never => {
        throw new Error("ignored");
      };
      void run.effect("e", fail);
      void run.tool({ id: "1", name: "t" }, fail);
      void run.llm(fail);
      await run.effect("after", () => nextTurn());
      // The same holds when the step is replayed.
      if (failures-- > 0) throw transient("a reason of its own");
      return "done";
    }, 3);
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "done" });
    await lab.idle();
    expect(rejections).toEqual([]);
  });

  it("a call that is rejected and that the step does not await is no unhandled rejection", async (context) => {
    const { rejections } = restoredAfter(context);
    const sp = await lab.open();
    const agent = once(async (run) => {
      void run.tool({ id: "1", name: "t" }, () => "t", { onUnknown: "verify" });
      await run.effect("after", () => nextTurn());
      return "done";
    });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed", output: "done" });
    await lab.idle();
    expect(rejections).toEqual([]);
  });
});

/** A tool throws the value; the step catches it, is interrupted, and catches the same value on replay. */
async function checkThrownByTool(lab: Lab, make: () => unknown): Promise<void> {
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
    return "continued";
  });
  const reached = world.hangIn("last");
  await (await lab.open()).start(agent, GO);
  expect(await orHung(reached)).toBeUndefined();
  await lab.idle();
  lab.crash();
  const result = await orHung((await lab.open()).run(agent, GO));
  expect(result).toMatchObject({ status: "completed", output: "continued" });
  expect(caught).toHaveLength(2);
  expect(caught[0]).toEqual([true, expect.any(String), expect.any(String), expect.anything()]);
  expect(caught[1]).toEqual(caught[0]);
  expect(world.log).toEqual(["tool", "last", "last"]);
}

/** A step throws the value in each attempt. */
async function checkThrownByStep(lab: Lab, make: () => unknown): Promise<void> {
  const sp = await lab.open();
  let attempts = 0;
  const agent = once(() => {
    attempts++;
    throw make();
  }, 3);
  const result = await orHung(sp.run(agent, GO));
  expect(result).toMatchObject({ status: "failed", error: { name: expect.any(String), message: expect.any(String) } });
  expect(attempts).toBe(1);
}

/** Removes other listeners of unhandled rejections, such as the test runner's, because the test counts the rejections. */
function takeUnhandledRejections(): { readonly rejections: unknown[]; restore(): void } {
  const others = process.listeners("unhandledRejection");
  const rejections: unknown[] = [];
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => void rejections.push(error));
  return {
    rejections,
    restore() {
      process.removeAllListeners("unhandledRejection");
      for (const other of others) process.on("unhandledRejection", other);
    },
  };
}

function restoredAfter({ onTestFinished }: TestContext): { readonly rejections: unknown[] } {
  const taken = takeUnhandledRejections();
  onTestFinished(() => taken.restore());
  return taken;
}
