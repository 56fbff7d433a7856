import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  defineAgent,
  type Run,
  type RunEvent,
  Savepoint,
  type SavepointEvents,
  type WorkerEventOf,
} from "../../src/index.js";
import { codeOf, createGate, KINDS, until, untilStatus, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" } as const;

afterEach(() => vi.restoreAllMocks());

/** An agent of two steps. Its second step uses a tool and then throws what `fail` throws. */
const twoSteps = (world: World, fail: () => void, attempts = 3) =>
  defineAgent({
    name: "a",
    retry: { attempts, delay: 0 },
    initial: (_input: string) => ({ n: 0 }),
    async step(run) {
      run.state.n++;
      await run.tool({ id: `t${run.step}`, name: "pay" }, () => world.do(`pay ${run.step}`));
      if (run.step < 2) return undefined;
      world.log.push("own code");
      fail();
      return run.complete(run.state.n);
    },
  });

const typo = (): void => {
  const missing = undefined as unknown as { price: number };
  missing.price.toFixed(2);
};

function throwValue(value: unknown): never {
  throw value;
}

describe.each(KINDS)("an error of the step's own code, on $name", (kind) => {
  const lab = useLab(kind);

  it("ends the run at once as failed, with its reason and its stack", async () => {
    const world = new World();
    const sp = await lab.open();
    const result = await sp.run(twoSteps(world, typo), GO);
    expect(result).toMatchObject({
      status: "failed",
      reason: "TypeError: Cannot read properties of undefined (reading 'price')",
      error: { name: "TypeError", message: "Cannot read properties of undefined (reading 'price')" },
      needsResume: false,
      steps: 1,
    });
    expect(result.error?.stack).toContain("step-failures.test.ts");
    expect(world.log).toEqual(["pay 1", "pay 2", "own code"]);
  });

  it("is stored, and another process can read it", async () => {
    await (await lab.open()).run(twoSteps(new World(), typo), GO);
    lab.crash();
    const other = await lab.open();
    const info = await other.sessions.load("s");
    expect(info).toMatchObject({ status: "failed", error: { name: "TypeError" } });
    expect(info?.reason).toMatch(/^TypeError: Cannot read/);
    expect(info?.error?.stack).toContain("step-failures.test.ts");
    expect(await other.sessions.list({ status: "failed" }).all()).toMatchObject([{ id: "s", error: info?.error }]);
    expect(await other.session("s").head()).toMatchObject({ status: "failed", trigger: "error", reason: info?.reason });
  });

  it("is resumed by running the session again once the code is fixed, without repeating a tool", async () => {
    const world = new World();
    let broken = true;
    const agent = twoSteps(world, () => broken && typo());
    await (await lab.open()).run(agent, GO);
    // The process dies before it runs the session again.
    lab.crash();
    const sp = await lab.open();
    expect(await sp.run(agent, GO)).toMatchObject({ status: "failed", needsResume: false });
    broken = false;
    expect(await sp.run(agent, { session: "s" })).toMatchObject({ status: "completed", output: 2 });
    expect(world.log).toEqual(["pay 1", "pay 2", "own code", "own code", "own code"]);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "completed", error: undefined, reason: undefined });
  });

  it("is not resumed by recover(), by a worker, or by an input, but by enqueueing the session again", async () => {
    const world = new World();
    let broken = true;
    const agent = twoSteps(world, () => broken && typo());
    const sp = await lab.open();
    await sp.run(agent, GO);
    broken = false;
    await sp.send("s", "more");
    expect(await sp.recover([agent])).toEqual([]);
    const worker = sp.worker([agent], { poll: 10, signals: false });
    await worker.start();
    await sp.enqueue(agent, { session: "other", input: "go" });
    await untilStatus(sp, "completed", "other");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "failed" });
    expect(await codeOf(sp.enqueue(agent, { session: "s", input: "another" }))).toBe("INPUT_MISMATCH");
    expect(await sp.enqueue(agent, GO)).toBe(true);
    await untilStatus(sp, "completed");
    await worker.stop();
    expect(world.count("pay 2")).toBe(2);
    expect(await sp.enqueue(agent, GO)).toBe(false);
  });

  it("lets a fork of the failed session run without { resume: true }", async () => {
    const world = new World();
    let broken = true;
    const agent = twoSteps(world, () => broken && typo());
    const sp = await lab.open();
    await sp.run(agent, GO);
    broken = false;
    const session = sp.session("s");
    const fork = await session.fork((await session.head())?.id ?? "");
    expect(await sp.run(agent, { session: "s", branch: fork.branch })).toMatchObject({ status: "completed" });
    expect(world.count("pay 2")).toBe(1);
  });

  it("of an effect is retried as often again after a resume, even if the state could not be stored", async () => {
    let calls = 0;
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 3, delay: 0 },
      initial: (_input: string) => ({}) as { f?: unknown },
      async step(run: Run<{ f?: unknown }>) {
        run.state.f = () => {};
        await run.effect("call", () => {
          calls++;
          throw Object.assign(new Error("busy"), { status: 503 });
        });
      },
    });
    const sp = await lab.open({ on: { run: () => {}, runError: () => {} } });
    expect(await sp.run(agent, GO)).toMatchObject({ status: "halted", needsResume: true });
    expect(calls).toBe(3);
    expect(await sp.run(agent, { session: "s", resume: true })).toMatchObject({ status: "halted" });
    expect(calls).toBe(6);
  });

  it("is reported as itself even if the step has put an unsupported value into its state before", async () => {
    const world = new World();
    let broken = true;
    const agent = twoSteps(world, () => broken && typo());
    const spoiled = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }) as { n: number; f?: unknown },
      async step(run: Run<{ n: number; f?: unknown }>) {
        if (broken) run.state.f = () => {};
        return agent.definition.step(run as never) as ReturnType<Run["complete"]>;
      },
    });
    const sp = await lab.open();
    // The first step ends with an unsupported value: that is the error of its checkpoint.
    const first = await sp.run(spoiled, { session: "s", input: "go" });
    expect(first).toMatchObject({ status: "failed", error: { name: "SavepointError" } });
    const failing = defineAgent({
      name: "b",
      initial: (_input: string) => ({}) as { f?: unknown },
      step(run: Run<{ f?: unknown }>) {
        if (broken) {
          run.state.f = () => {};
          typo();
        }
        return run.complete("done");
      },
    });
    expect(await sp.run(failing, { session: "b", input: "go" })).toMatchObject({
      status: "failed",
      error: { name: "TypeError" },
      needsResume: false,
    });
    expect(await sp.sessions.load("b")).toMatchObject({ status: "failed", error: { name: "TypeError" } });
    broken = false;
    expect(await sp.run(failing, { session: "b" })).toMatchObject({ status: "completed", output: "done" });
  });

  it.each([
    ["an invalid return value", () => 42, /^SavepointError: A step returned 42/],
    ["a string", () => throwValue("no luck"), /^no luck$/],
    ["an error of several lines", () => Promise.reject(new Error("a\n  b\nc")), /^Error: a b c$/],
    [
      "an invalid call of run.tool()",
      (run: Run) => run.tool({} as never, () => 1).then(() => undefined),
      /run\.tool\(\)/,
    ],
  ])("is %s: the reason is one line", async (_, step, reason) => {
    const sp = await lab.open();
    const agent = defineAgent({ name: "a", initial: (_input: string) => ({}), step: step as never });
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({ status: "failed", needsResume: false });
    expect(result.reason).toMatch(reason);
    expect(result.reason).not.toContain("\n");
  });

  it("is stored with a bounded length", async () => {
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      step() {
        throw new Error("x".repeat(1_000_000));
      },
    });
    await sp.run(agent, GO);
    const info = await sp.sessions.load("s");
    expect(JSON.stringify(info?.error).length).toBeLessThan(8000);
    expect(info?.error?.stack).toContain("    at ");
  });
});

describe.each(KINDS)("an error that is not of the step's own code, on $name", (kind) => {
  const lab = useLab(kind);

  it("is retried if an effect threw it, and halts the run with the error when the attempts are used up", async () => {
    const world = new World();
    const sp = await lab.open();
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 3, delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        await run.effect("bank", () => {
          world.log.push("bank");
          throw new Error("the bank is closed");
        });
      },
    });
    const result = await sp.run(agent, GO);
    expect(result).toMatchObject({
      status: "halted",
      error: { name: "Error", message: "the bank is closed" },
      needsResume: true,
    });
    expect(result.reason).toBe(
      "3 attempts in a row have failed, the last one with Error: the bank is closed (to try again, run it with { resume: true })",
    );
    expect(result.error?.stack).toContain("step-failures.test.ts");
    expect(world.count("bank")).toBe(3);
    const other = await lab.open();
    expect(await other.sessions.load("s")).toMatchObject({ status: "halted", error: { name: "Error" } });
    expect(await other.run(agent, GO)).toMatchObject({
      status: "halted",
      needsResume: true,
      error: { name: "Error", message: "the bank is closed" },
    });
    expect(world.count("bank")).toBe(3);
  });

  it("is retried if the step throws it as the cause of another error", async () => {
    const world = new World();
    let left = 2;
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 3, delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        try {
          await run.effect("bank", () => {
            world.log.push("bank");
            if (left-- > 0) throw new Error("closed");
          });
        } catch (cause) {
          throw new Error("the refund failed", { cause });
        }
        return run.complete("done");
      },
    });
    expect(await (await lab.open()).run(agent, GO)).toMatchObject({ status: "completed" });
    expect(world.count("bank")).toBe(3);
  });

  it("is retried if a connection was refused", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await until(() => server.listening, "the server to listen");
    const { port } = server.address() as AddressInfo;
    await new Promise((closed) => server.close(closed));
    const events: RunEvent[] = [];
    const sp = await lab.open({ on: { run: (event) => void events.push(event) } });
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 2, delay: 0 },
      initial: (_input: string) => ({}),
      async step() {
        await fetch(`http://127.0.0.1:${port}/`);
      },
    });
    expect(await sp.run(agent, GO)).toMatchObject({
      status: "halted",
      needsResume: true,
      error: { name: "TypeError" },
    });
    expect(events.filter(({ type }) => type === "retry")).toMatchObject([{ name: "step 1", attempt: 1, attempts: 2 }]);
  });

  it("is not a failure of the agent if the store was closed while the step used it", async () => {
    const [isWaiting, isClosing] = [createGate(), createGate()];
    const first = await lab.open();
    const agent = defineAgent({
      name: "a",
      retry: { delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        isWaiting.open();
        await isClosing.promise;
        await first.session("notes").save({ n: 1 });
        return run.complete("done");
      },
    });
    const handle = await first.start(agent, GO);
    await isWaiting.promise;
    const closed = first.close();
    isClosing.open();
    await closed;
    expect(await codeOf(handle.result())).toBe("CLOSED");
    expect(await (await lab.open()).sessions.load("s")).toMatchObject({ status: "interrupted" });
  });
});

describe.each(KINDS)("needsResume, on $name", (kind) => {
  const lab = useLab(kind);

  it("is true after run.fail(), run.halt(), a limit and a cancel, also from another process", async () => {
    const sp = await lab.open();
    const ending = (name: string, step: (run: Run<object>) => unknown, limits = {}) =>
      defineAgent({ name, initial: (_input: string) => ({}), step: step as never, limits });
    const agents = [
      ending("failed", (run) => run.fail("no")),
      ending("halted", (run) => run.halt("stop")),
      ending("limited", () => undefined, { steps: 2 }),
    ];
    for (const agent of agents) {
      const options = { session: agent.name, input: "go" } as never;
      expect(await sp.run(agent, options)).toMatchObject({ needsResume: true, error: undefined });
      expect(await (await lab.open()).run(agent, options)).toMatchObject({ needsResume: true, error: undefined });
    }
    const asking = ending("asking", (run) => run.ask("?"));
    await sp.run(asking, { session: "c", input: "go" } as never);
    await sp.cancel("c", "enough");
    expect(await sp.run(asking, { session: "c" })).toMatchObject({ status: "halted", needsResume: true });
  });

  it("is absent from completed and waiting results", async () => {
    const sp = await lab.open();
    const agent = defineAgent({ name: "a", initial: (_input: string) => ({}), step: (run) => run.complete(1) });
    const result = await sp.run(agent, GO);
    expect("needsResume" in result || "error" in result).toBe(false);
  });
});

describe.each(KINDS)("a listener of a worker that throws, on $name", (kind) => {
  const lab = useLab(kind);

  it("is reported, and changes neither the run nor its status", async () => {
    const printed = vi.spyOn(console, "error").mockImplementation(() => {});
    const world = new World();
    const sp = await lab.open();
    const agent = twoSteps(world, () => {});
    const worker = sp.worker([agent], { signals: false });
    const types = ["effect", "step", "checkpoint", "status"] as const;
    for (const type of types) worker.on(type, () => throwValue(new Error(`listener of ${type}`)));
    await sp.enqueue(agent, GO);
    await worker.start();
    await untilStatus(sp, "completed");
    await worker.stop();
    expect(world.count("pay 1")).toBe(1);
    expect(world.count("pay 2")).toBe(1);
    const reported = printed.mock.calls.map(([text]) => String(text));
    for (const type of types) expect(reported).toContain(`savepoint: a listener for "${type}" of a worker failed:`);
  });
});

describe("reports on stderr", () => {
  const lab = useLab(KINDS[0] as (typeof KINDS)[number]);
  const silent = { run: undefined, runError: undefined } as never;
  const spy = () => vi.spyOn(console, "error").mockImplementation(() => {});
  const printed = (calls: ReturnType<typeof spy>): string =>
    calls.mock.calls
      .map((args) => args.map((arg) => (arg instanceof Error ? arg.stack : String(arg))).join(" "))
      .join("\n");

  it("show an error that ended a run, with its stack, if nothing listens to it", async () => {
    const stderr = spy();
    const sp = await lab.open({ on: silent });
    await sp.run(twoSteps(new World(), typo), GO);
    expect(printed(stderr)).toMatch(/savepoint: session "s": step 2 failed/);
    expect(printed(stderr)).toContain("step-failures.test.ts");
  });

  it("are replaced by a listener for runError", async () => {
    const stderr = spy();
    const events: SavepointEvents["runError"][] = [];
    const sp = await lab.open({ on: { run: undefined as never, runError: (event) => void events.push(event) } });
    await sp.run(twoSteps(new World(), typo), GO);
    expect(events).toMatchObject([{ sessionId: "s", branch: "main", step: 2, status: "failed" }]);
    expect(events[0]?.error).toBeInstanceOf(TypeError);
    expect(printed(stderr)).toBe("");
  });

  it("show the error of a run in a worker, unless the worker has a listener for it", async () => {
    const stderr = spy();
    const sp = await lab.open({ on: silent });
    const worker = sp.worker([twoSteps(new World(), typo)], { poll: 10, signals: false });
    await worker.start();
    await sp.enqueue("a", GO);
    await untilStatus(sp, "failed");
    expect(printed(stderr)).toMatch(/savepoint: session "s": step 2 failed/);
    const events: WorkerEventOf<"runError">[] = [];
    worker.on("runError", (event) => void events.push(event));
    stderr.mockClear();
    await sp.enqueue("a", { session: "t", input: "go" });
    await untilStatus(sp, "failed", "t");
    await worker.stop();
    expect(events).toMatchObject([{ type: "runError", sessionId: "t", step: 2 }]);
    expect(printed(stderr)).toBe("");
  });

  it("show a retry of a step or an effect in one line, unless a listener gets the events of the run", async () => {
    const stderr = spy();
    let left = 0;
    const flaky = () => {
      if (left-- > 0) throw Object.assign(new Error("overloaded\nsee the log"), { status: 529 });
      return "fine";
    };
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 3, delay: 5, jitter: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        await run.effect("bank", flaky);
        await run.llm(flaky, { retry: { attempts: 2, delay: 3, jitter: 0 } });
        return run.complete("done");
      },
    });
    const sp = await lab.open({ on: silent });
    left = 1;
    await sp.run(agent, GO);
    expect(printed(stderr)).toBe(
      'savepoint: session "s": step 1 failed (Error: overloaded see the log); attempt 2 of 3 in 0.0 s',
    );
    stderr.mockClear();
    left = 1;
    await sp.run(agent, { session: "t", input: "go", onEvent: () => {} });
    expect(printed(stderr)).toBe("");
    // A listener for another session does not count.
    const waiting = defineAgent({ name: "w", initial: (_input: string) => ({}), step: (run) => run.ask("?") as never });
    const other = await sp.start(waiting, { session: "w", input: "go", wait: true, onEvent: () => {} });
    left = 1;
    await sp.run(agent, { session: "u", input: "go" });
    expect(printed(stderr)).toContain('session "u": step 1 failed');
    await other.cancel();
  });

  it("show that a run ended with an error of Savepoint if nobody asks for its result", async () => {
    const warnings = vi.spyOn(console, "warn").mockImplementation(() => {});
    const sp = await lab.open({ on: { backgroundFailure: undefined } as never });
    const agent = (migrations: []) =>
      defineAgent({
        name: "a",
        initial: (_input: string) => ({}),
        step: async (run) => run.complete(await run.ask("?")),
        migrations,
      });
    await sp.run(agent([(state: unknown) => state] as never), GO);
    await sp.answer("s", "yes");
    // An older version of the agent.
    await sp.start(agent([]), { session: "s" });
    await untilStatus(sp, "halted");
    await until(() => warnings.mock.calls.length > 0, "the warning");
    expect(JSON.stringify(warnings.mock.calls)).toContain('session \\"s\\"');
    expect(await sp.sessions.load("s")).toMatchObject({ error: { name: "SavepointError" } });
  });
});

describe("an error that nothing listens to", () => {
  it("prints once how to try again after the last attempt", async () => {
    const stderr = vi.spyOn(console, "error").mockImplementation(() => {});
    const sp = await Savepoint.open("memory:");
    const failing = defineAgent({
      name: "failing",
      initial: () => ({}),
      retry: { attempts: 1 },
      step: (run) => run.effect("mail", () => Promise.reject(new Error("service is down")), { retry: { attempts: 1 } }),
    });
    expect(await sp.run(failing, { session: "s", input: {} })).toMatchObject({ status: "halted" });
    const [line] = stderr.mock.calls.map(([text]) => String(text));
    stderr.mockRestore();
    await sp.close();
    expect(line).toContain("service is down");
    expect(line?.match(/\{ resume: true \}/g)).toHaveLength(1);
  });
});
