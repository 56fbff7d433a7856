import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { ALL_KINDS, codeOf, createGate, errorOf, interruptIn, once, orHung, useLab, World } from "./lab.js";

/** Counts to the number in its input, one step per number. */
function counter(world = new World()) {
  return defineAgent({
    name: "counter",
    initial: (input: { to: number }) => {
      world.log.push("initial");
      return { to: input.to, at: 0 };
    },
    async step(run) {
      run.state.at = await run.effect("count", () => world.do(`count ${run.state.at + 1}`, run.state.at + 1));
      if (run.state.at >= run.state.to) return run.complete({ counted: run.state.at });
      return undefined;
    },
  });
}

const historyOf = (sp: Savepoint, session: string) => sp.session(session).history().all();

describe.each(ALL_KINDS)("running on $name", (kind) => {
  const lab = useLab(kind);

  it("a run starts a new session with its input, and resolves with output, state, usage and steps", async () => {
    const sp = await lab.open();
    const result = await sp.run(counter(), { session: "s", input: { to: 3 } });
    expect(result).toStrictEqual({
      session: "s",
      branch: "main",
      status: "completed",
      output: { counted: 3 },
      state: { to: 3, at: 3 },
      usage: { tokens: 0, cost: 0 },
      steps: 3,
    });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "completed", agent: "counter", questions: [] });
    expect((await sp.session("s").latest())?.state).toEqual({ to: 3, at: 3 });
  });

  it("running a completed session returns its recorded result and executes nothing", async () => {
    const world = new World();
    const first = await (await lab.open()).run(counter(world), { session: "s", input: { to: 2 } });
    const done = [...world.log];
    const sp = await lab.open();
    expect(await sp.run(counter(world), { session: "s", input: { to: 2 } })).toEqual(first);
    expect(await sp.run(counter(world), { session: "s" })).toEqual(first);
    expect(await (await sp.start(counter(world), { session: "s", input: { to: 2 } })).result()).toEqual(first);
    expect(world.log).toEqual(done);
    expect(await sp.recover([counter(world)])).toEqual([]);
  });

  it("a run resumes an interrupted session, and does not start it again", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), counter(world), { to: 4 }, world, "count 3");
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    const result = await sp.run(counter(world), { session: "s", input: { to: 4 } });
    expect(result).toMatchObject({ status: "completed", output: { counted: 4 }, steps: 4 });
    expect(world.log).toEqual(["initial", "count 1", "count 2", "count 3", "count 3", "count 4"]);
  });

  it("an interrupted session rejects another input, and resumes with the same one", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), counter(world), { to: 2 }, world, "count 2");
    const sp = await lab.open();
    const error = await errorOf(sp.run(counter(world), { session: "s", input: { to: 3 } }));
    expect(error.code).toBe("INPUT_MISMATCH");
    expect(error.details).toEqual({ sessionId: "s", branch: "main" });
    expect(await sp.run(counter(world), { session: "s", input: { to: 2 } })).toMatchObject({ status: "completed" });
  });

  it("simultaneous runs of a session in one process share one execution", async () => {
    const world = new World();
    const sp = await lab.open();
    const results = await Promise.all(
      Array.from({ length: 5 }, () => sp.run(counter(world), { session: "s", input: { to: 2 } })),
    );
    for (const result of results) expect(result).toEqual(results[0]);
    expect(world.log).toEqual(["initial", "count 1", "count 2"]);
  });

  it("a run with another input or another agent does not join a run under way", async () => {
    const gate = createGate<number>();
    const slow = defineAgent({
      name: "slow",
      initial: (input: number) => ({ input }),
      async step(run) {
        return run.complete(await run.effect("wait", () => gate.promise));
      },
    });
    const sp = await lab.open();
    const running = sp.run(slow, { session: "s", input: 1 });
    expect(await codeOf(sp.run(slow, { session: "s", input: 2 }))).toBe("INPUT_MISMATCH");
    expect(await codeOf(sp.run(counter(), { session: "s", input: { to: 1 } }))).toBe("AGENT_MISMATCH");
    const joined = sp.run(slow, { session: "s", input: 1 });
    gate.open(7);
    expect((await running).output).toBe(7);
    expect(await joined).toEqual(await running);
  });

  it("a run of a session that belongs to another agent is rejected, whether the session has ended or not", async () => {
    const sp = await lab.open();
    await sp.run(counter(), { session: "s", input: { to: 1 } });
    const other = defineAgent({ name: "other", initial: () => ({}), step: (run) => run.complete() });
    expect(await codeOf(sp.run(other, { session: "s", input: undefined }))).toBe("AGENT_MISMATCH");
    await sp.session("theirs", { agent: "somebody" }).save({});
    expect(await codeOf(sp.run(other, { session: "theirs", input: undefined }))).toBe("AGENT_MISMATCH");
    expect((await sp.sessions.load("theirs"))?.agent).toBe("somebody");
  });

  it("a run whose initial function fails writes nothing, and can be tried again", async () => {
    let broken = true;
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => {
        if (broken) throw new RangeError("no such order");
        return { input };
      },
      step: (run) => run.complete(run.state.input),
    });
    const sp = await lab.open();
    const error = await errorOf(sp.run(agent, { session: "s", input: "x" }));
    expect(error).toMatchObject({ code: "AGENT_FAILED", cause: new RangeError("no such order") });
    expect(await sp.sessions.load("s")).toBeUndefined();
    expect(await sp.recover([agent])).toEqual([]);
    broken = false;
    expect(await sp.run(agent, { session: "s", input: "x" })).toMatchObject({ status: "completed", output: "x" });
  });

  it("unsupported values in inputs and initial states are rejected, and nothing is written", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (input: unknown) => (input === "bad" ? { f: () => 1 } : { input }),
      step: (run) => run.complete(),
    });
    const sp = await lab.open();
    expect(await codeOf(sp.run(agent, { session: "s", input: () => 1 }))).toBe("INVALID_STATE");
    expect(await codeOf(sp.run(agent, { session: "s", input: "bad" }))).toBe("INVALID_STATE");
    expect(await sp.sessions.load("s")).toBeUndefined();
  });

  it("the initial function receives a copy of the input, with all values that states support", async () => {
    const input = { when: new Date(5), big: 7n, raw: new Uint8Array(3000).fill(7), map: new Map([["a", [1]]]) };
    let got: unknown;
    const agent = defineAgent({
      name: "a",
      initial: (given: typeof input) => {
        got = given;
        return { given };
      },
      step: (run) => run.complete(run.state.given),
    });
    const sp = await lab.open();
    const result = await sp.run(agent, { session: "s", input });
    expect(got).toStrictEqual(input);
    expect(got).not.toBe(input);
    expect(result.output).toStrictEqual(input);
    expect((await (await lab.open()).run(agent, { session: "s", input })).output).toStrictEqual(input);
  });

  it("large and small outputs are recorded and returned unchanged", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (input: unknown) => ({ input }),
      step: (run) => run.complete(run.state.input),
    });
    const outputs = [undefined, null, 0, "", "x".repeat(1e6), { a: [1, { b: 2n }] }, new Uint8Array(1e5), [undefined]];
    for (const [index, input] of outputs.entries()) {
      await (await lab.open()).run(agent, { session: `s${index}`, input });
      const again = await (await lab.open()).run(agent, { session: `s${index}` });
      expect(again.output).toStrictEqual(input);
    }
  });

  it("an output that cannot be stored fails the run", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      step: (run) => run.complete(() => 1),
    });
    const result = await (await lab.open()).run(agent, { session: "s", input: "x" });
    expect(result).toMatchObject({ status: "failed", needsResume: false });
    expect(result.reason).toContain("The output");
  });

  it("a run whose state cannot be stored fails like one whose step throws, and resumes when the code is fixed", async () => {
    let broken = true;
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}) as { f?: unknown },
      step(run) {
        run.state.f = broken ? () => 1 : "fine";
        return run.complete("done");
      },
    });
    const sp = await lab.open();
    const errors: unknown[] = [];
    sp.on("runError", ({ error }) => errors.push(error));
    const result = await sp.run(agent, { session: "s", input: "x" });
    expect(result).toMatchObject({ status: "failed", needsResume: false, error: { name: "SavepointError" } });
    expect(result.reason).toContain("/f is a function");
    expect(errors).toMatchObject([{ code: "INVALID_STATE", details: { path: "/f" } }]);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "failed", reason: result.reason });
    broken = false;
    expect(await sp.run(agent, { session: "s", input: "x" })).toMatchObject({ status: "completed", output: "done" });
  });

  it("a run whose state has a class that is not registered here halts, and keeps its state", async (test) => {
    class Money {
      constructor(readonly cents: number) {}
    }
    const money = {
      name: "Money",
      class: Money,
      encode: ({ cents }: Money) => cents,
      decode: (cents: number) => new Money(cents),
    };
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ price: new Money(5) }),
      step: async (run) => run.complete([await run.ask("?"), run.state.price.cents]),
    });
    const sp = await lab.open({ classes: [money] });
    await sp.run(agent, { session: "s", input: "x" });
    await sp.answer("s", "yes");
    if (sp.url.startsWith("memory:")) return test.skip();
    const other = await lab.open();
    expect(await codeOf(other.run(agent, { session: "s" }))).toBe("INVALID_STATE");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted" });
    const done = await sp.run(agent, { session: "s" });
    expect(done).toMatchObject({ status: "completed", output: ["yes", 5] });
  });

  it("a failed or halted run resolves with its reason, each time it is run", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (input: "fail" | "halt") => ({ input }),
      step: (run) => (run.state.input === "fail" ? run.fail("OOM") : run.halt("look at it")),
    });
    const sp = await lab.open();
    for (const [input, status, reason] of [
      ["fail", "failed", "OOM"],
      ["halt", "halted", "look at it"],
    ] as const) {
      const result = await sp.run(agent, { session: input, input });
      expect(result).toStrictEqual({
        session: input,
        branch: "main",
        status,
        reason,
        error: undefined,
        needsResume: true,
        state: { input },
        usage: { tokens: 0, cost: 0 },
        steps: 1,
      });
      expect(await (await lab.open()).run(agent, { session: input, input })).toEqual(result);
      expect(await sp.sessions.load(input)).toMatchObject({ status, reason });
      expect(await sp.sessions.list({ status }).all()).toHaveLength(1);
      expect(await sp.session(input).head()).toMatchObject({ status, reason });
    }
  });

  it("a step that calls complete() without returning it completes the run", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      step(run) {
        run.complete("said");
      },
    });
    expect(await (await lab.open()).run(agent, { session: "s", input: "" })).toMatchObject({ status: "completed" });
  });

  it("a session that was saved by hand runs from the saved state", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.session("s").save({ to: 3, at: 2 });
    const result = await sp.run(counter(world), { session: "s", input: { to: 99 } });
    expect(result).toMatchObject({ status: "completed", output: { counted: 3 } });
    expect(world.log).toEqual(["count 3"]);
    expect((await sp.sessions.load("s"))?.agent).toBe("counter");
  });

  it("a session that was saved by hand resumes after an interruption", async () => {
    const world = new World();
    const first = await lab.open();
    await first.session("s").save({ to: 3, at: 1 });
    await interruptIn(lab, first, counter(world), { to: 99 }, world, "count 3");
    const result = await (await lab.open()).run(counter(world), { session: "s", input: { to: 99 } });
    expect(result).toMatchObject({ status: "completed", state: { to: 3, at: 3 } });
    expect(world.log).toEqual(["count 2", "count 3", "count 3"]);
  });

  it("a state that is saved by hand after a completed run is the state of the next run", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(counter(world), { session: "s", input: { to: 1 } });
    const session = sp.session<{ to: number; at: number }>("s");
    await session.save({ to: 3, at: 2 });
    const result = await sp.run(counter(world), { session: "s", input: { to: 1 } });
    expect(result).toMatchObject({ status: "completed", output: { counted: 3 } });
    expect(world.log).toEqual(["initial", "count 1", "count 3"]);
  });

  it("a fork and main run independently, each with its own result", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(counter(world), { session: "s", input: { to: 3 } });
    const session = sp.session<{ to: number; at: number }>("s");
    const start = (await historyOf(sp, "s")).at(-1);
    await session.fork(start?.id as string, { branch: "what if", state: { to: 5, at: 0 } });
    const result = await sp.run(counter(world), { session: "s", branch: "what if", input: { to: 3 } });
    expect(result).toMatchObject({ branch: "what if", status: "completed", output: { counted: 5 } });
    const main = await sp.run(counter(world), { session: "s", input: { to: 3 } });
    expect(main).toMatchObject({ branch: "main", output: { counted: 3 } });
    expect((await session.latest())?.state).toEqual({ to: 3, at: 3 });
    expect(await codeOf(sp.run(counter(world), { session: "s", branch: "none", input: { to: 3 } }))).toBe(
      "BRANCH_NOT_FOUND",
    );
  });

  it("interrupted branches are recovered independently of each other", async () => {
    const world = new World();
    const first = await lab.open();
    await first.run(counter(world), { session: "s", input: { to: 1 } });
    const start = (await historyOf(first, "s")).at(-1);
    const forked = first.session<{ to: number; at: number }>("s");
    await forked.fork(start?.id as string, { branch: "b", state: { to: 8, at: 6 } });
    const reached = world.hangIn("count 8");
    await first.start(counter(world), { session: "s", branch: "b", input: { to: 1 } });
    await reached;
    await lab.idle();
    lab.crash();
    const sp = await lab.open();
    const handles = await sp.recover([counter(world)]);
    expect(handles.map(({ session, branch }) => [session, branch])).toEqual([["s", "b"]]);
    expect(await handles[0]?.result()).toMatchObject({ status: "completed", output: { counted: 8 } });
    expect(world.count("count 7")).toBe(1);
  });

  it("an interrupted run is recovered once, however many processes recover at the same time", async () => {
    const world = new World();
    const first = await lab.open();
    for (let index = 0; index < 5; index++) {
      const reached = world.hangIn("count 2");
      await first.start(counter(world), { session: `s${index}`, input: { to: 2 } });
      await reached;
    }
    await lab.idle();
    const others = [await lab.open(), await lab.open(), await lab.open()];
    expect((await Promise.all(others.map((sp) => sp.recover([counter(world)])))).flat()).toEqual([]);
    lab.crash();
    const other = defineAgent({ name: "other", initial: () => ({}), step: (run) => run.complete() });
    expect(await others[0]?.recover([other])).toEqual([]);
    const handles = (await Promise.all(others.map((sp) => sp.recover([other, counter(world)])))).flat();
    expect(handles.map(({ session }) => session).sort()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    for (const handle of handles) expect(await handle.result()).toMatchObject({ status: "completed" });
    expect(world.count("count 1")).toBe(5);
    expect(world.count("count 2")).toBe(10);
    expect(await others[1]?.recover([counter(world)])).toEqual([]);
  });

  it.each(["a/b", "../up", "s#1", "ünï 😀", "a%00b", "main", "~", "__proto__", "x".repeat(200), "a:b|c*?"])(
    "%o is accepted as the id of a session, the id of a call, the name of a tool and a key",
    async (id) => {
      const world = new World();
      const agent = defineAgent({
        name: id,
        initial: (_input: string) => ({}) as Record<string, unknown>,
        async step(run) {
          run.state["got"] = await run.tool({ id, name: id, arguments: { [id]: id } }, () => world.do("tool", id));
          await run.effect(id, () => world.do("effect"));
          return run.complete(run.state["got"]);
        },
      });
      await interruptIn(lab, await lab.open(), agent, "x", world, "effect", id);
      const sp = await lab.open();
      expect(await sp.run(agent, { session: id, input: "x", key: id })).toMatchObject({ output: id });
      expect(world.count("tool")).toBe(1);
    },
  );

  it.each(["", "a\tb", "a\nb", "\u0000", "\ud800"])("%o is rejected as an id", async (id) => {
    const sp = await lab.open();
    expect(await codeOf(sp.run(counter(), { session: id, input: { to: 1 } }))).toBe("INVALID_ID");
    expect(await codeOf(sp.run(counter(), { session: "s", key: id, input: { to: 1 } }))).toBe("INVALID_ID");
    expect(await codeOf(sp.send(id, 1))).toBe("INVALID_ID");
    expect(await codeOf(sp.answer(id, 1))).toBe("INVALID_ID");
    expect(await codeOf(sp.cancel(id))).toBe("INVALID_ID");
    expect(() => defineAgent({ name: id, initial: () => 1, step: () => {} })).toThrow();
    expect(await sp.sessions.list().all()).toEqual([]);
  });

  it.each(["", "a\tb", "\u0000"])("%o is rejected as the branch of a run", async (branch) => {
    const sp = await lab.open();
    await sp.run(counter(), { session: "s", input: { to: 1 } });
    const code = await codeOf(sp.run(counter(), { session: "s", branch, input: { to: 1 } }));
    expect(["INVALID_ID", "BRANCH_NOT_FOUND"]).toContain(code);
  });

  it("a run has its session, branch, step, turn and usage", async () => {
    const seen: unknown[] = [];
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }),
      step(run) {
        seen.push([run.session, run.branch, run.step, run.turn, run.usage, run.loop, run.signal.aborted]);
        run.update((state) => ({ n: state.n + 1 }));
        run.update((state) => void (state.n += 0));
        if (run.state.n === 2) return run.complete();
        return undefined;
      },
    });
    await (await lab.open()).run(agent, { session: "s", input: "" });
    expect(seen).toEqual([
      ["s", "main", 1, 1, { tokens: 0, cost: 0 }, "none", false],
      ["s", "main", 2, 1, { tokens: 0, cost: 0 }, "none", false],
    ]);
  });

  it.each([
    { what: "a string", returned: "done" },
    { what: "0", returned: 0 },
    { what: "null", returned: null },
    { what: "an object of its own", returned: { status: "completed" } },
  ])("a step that returns $what fails, and the reason names what to return", async ({ returned }) => {
    const sp = await lab.open();
    let attempts = 0;
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      retry: { attempts: 3, delay: 1 },
      step: () => (attempts++, returned as never),
    });
    const result = await orHung(sp.run(agent, { session: "s", input: "go" }));
    expect(result).toMatchObject({ status: "failed" });
    expect(result).toHaveProperty("reason", expect.stringContaining("run.complete("));
    expect(attempts).toBe(1);
  });

  it("a step cannot run its own session, which would wait for itself", async () => {
    const sp = await lab.open();
    const own = { session: "s", input: "go" } as never;
    const codes: string[] = [];
    const agent = once(async (run) => {
      codes.push(await codeOf(sp.run(agent as never, own)));
      await run.effect("e", async () => void codes.push(await codeOf(sp.run(agent as never, own))));
      return "done";
    });
    expect(await orHung(sp.run(agent, own))).toMatchObject({ status: "completed", output: "done" });
    expect(codes).toEqual(["ALREADY_RUNNING", "ALREADY_RUNNING"]);
  });

  it("the state of a result is a copy that the caller may change", async () => {
    const sp = await lab.open();
    const result = await sp.run(counter(), { session: "s", input: { to: 1 } });
    result.state.at = 77;
    expect((await sp.session("s").latest())?.state).toEqual({ to: 1, at: 1 });
    expect((await sp.run(counter(), { session: "s", input: { to: 1 } })).state).toEqual({ to: 1, at: 1 });
  });

  it("invalid agents and options are rejected before anything runs", () => {
    const good = { name: "a", initial: () => ({}), step: () => {} };
    const bad = [
      { step: 1 },
      { initial: undefined },
      { receive: "x" },
      { strategy: "sometimes" },
      { strategy: { everyN: 0 } },
      { limits: { steps: 0 } },
      { limits: { tokens: NaN } },
      { limits: { time: "soon" } },
      { retry: { attempts: 0 } },
      { loop: { window: 3, threshold: 3 } },
    ];
    for (const part of bad) {
      expect(() => defineAgent({ ...good, ...part } as never), JSON.stringify(part)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });

  it("a run on a closed Savepoint is rejected", async () => {
    const sp = await lab.open();
    await sp.run(counter(), { session: "s", input: { to: 1 } });
    await sp.close();
    expect(await codeOf(sp.run(counter(), { session: "s", input: { to: 1 } }))).toBe("CLOSED");
    expect(await codeOf(sp.recover([counter()]))).toBe("CLOSED");
    expect(await codeOf(sp.send("s", 1))).toBe("CLOSED");
    expect(await codeOf(sp.cancel("s"))).toBe("CLOSED");
  });

  it("a deleted session can be started anew", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(counter(world), { session: "s", input: { to: 2 } });
    await sp.sessions.delete("s");
    const result = await sp.run(counter(world), { session: "s", input: { to: 1 } });
    expect(result).toMatchObject({ status: "completed", output: { counted: 1 }, steps: 1 });
    expect(world.count("initial")).toBe(2);
    expect(await sp.recover([counter(world)])).toEqual([]);
  });

  it("a session that another process has deleted can be started anew", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(counter(world), { session: "s", input: { to: 2 } });
    await (await lab.open()).sessions.delete("s");
    const result = await sp.run(counter(world), { session: "s", input: { to: 1 } });
    expect(result).toMatchObject({ status: "completed", output: { counted: 1 }, steps: 1 });
    expect(world.count("initial")).toBe(2);
  });

  it("a result has the branch that was run, even if its head was saved on another one", async () => {
    const sp = await lab.open();
    await sp.run(counter(), { session: "s", input: { to: 1 } });
    const session = sp.session("s");
    await session.fork((await session.head())?.id as string, { branch: "fork" });
    const result = await sp.run(counter(), { session: "s", branch: "fork", input: { to: 1 } });
    expect(result).toMatchObject({ status: "completed", branch: "fork" });
  });
});
