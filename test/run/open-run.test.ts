// Open runs: an outside loop calls Savepoint, not the other way round.
import { describe, expect, it } from "vitest";
import type { OpenRun, OpenRunOptions, Savepoint } from "../../src/index.js";
import { codeOf, createGate, errorOf, KINDS, useLab, World } from "./lab.js";

interface State {
  said: string[];
}

const options: OpenRunOptions<State> = { session: "s", agent: "shop", initial: () => ({ said: [] }) };

const open = (sp: Savepoint, more: Partial<OpenRunOptions<State>> = {}): Promise<OpenRun<State>> =>
  sp.openRun({ ...options, ...more });

/** A loop that calls a model, charges, calls the model again and is done. */
async function loop(run: OpenRun<State>, world: World, ask: "ask" | "retry" | "fail" = "ask"): Promise<string> {
  const first = await run.llm(() => world.do("model 1", "call"), { input: [] });
  run.state.said.push(first);
  const call = { id: "c1", name: "charge", arguments: { amount: 7 } };
  const receipt = await run.tool(call, () => world.do("charge", "receipt"), { onUnknown: ask });
  run.state.said.push(receipt);
  await run.stepDone();
  const second = await run.llm(() => world.do("model 2", "done"), { input: [first, receipt] });
  run.state.said.push(second);
  return second;
}

describe.each(KINDS)("open runs on $name", (kind) => {
  const lab = useLab(kind);

  /** Executes a turn until the world hangs in the given action, and lets the lease expire. */
  async function interruptIn(world: World, name: string, more: Partial<OpenRunOptions<State>> = {}): Promise<void> {
    const reached = world.hangIn(name);
    const run = await open(await lab.open(), more);
    loop(run, world).catch(() => {});
    await reached;
    await lab.idle();
    lab.crash();
  }

  it("an open run records a turn, takes a checkpoint after each step, and ends with the output of the loop", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await open(sp);
    expect([run.session, run.branch, run.turn, run.finished]).toEqual(["s", "main", 1, undefined]);
    const output = await loop(run, world);
    expect(await run.complete(output)).toMatchObject({ status: "completed", output: "done", steps: 2 });
    const history = await sp.session("s").history().all();
    expect(history.map(({ step, status, trigger }) => [step, status, trigger])).toEqual([
      [2, "completed", "end"],
      [1, "running", "step"],
      [0, "running", "start"],
    ]);
    expect((await sp.session<State>("s").load({ step: 1 }))?.state).toEqual({ said: ["call", "receipt"] });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "completed", agent: "shop" });
    expect(await codeOf(run.llm(() => "more"))).toBe("RUN_ENDED");
  });

  it.each(["model 1", "model 2"])(
    "an open run resumes after a crash in %s, and executes no recorded effect again",
    async (at) => {
      const world = new World();
      await interruptIn(world, at);
      const run = await open(await lab.open());
      expect(run.turn).toBe(1);
      await run.complete(await loop(run, world));
      expect(world.count(at)).toBe(2);
      expect(world.log.length).toBe(4);
    },
  );

  it("an open run waits for an answer about an interrupted tool, and throws OUTCOME_UNKNOWN to the loop", async () => {
    const world = new World();
    await interruptIn(world, "charge");
    const sp = await lab.open();
    const run = await open(sp);
    const error = await errorOf(loop(run, world));
    expect(error).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { questions: [{ call: { name: "charge" } }] } });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
    // All further calls of the loop fail in the same way.
    expect(await codeOf(run.llm(() => world.do("model 2")))).toBe("OUTCOME_UNKNOWN");
    expect(await codeOf(run.complete("done"))).toBe("OUTCOME_UNKNOWN");
    expect(await codeOf(run.fail("another reason"))).toBe("OUTCOME_UNKNOWN");
    // A loop that passes on what it has caught does not fail again.
    expect(await run.fail(error)).toMatchObject({ status: "waiting" });
    expect(await run.fail(new Error("the turn failed", { cause: error }))).toMatchObject({ status: "waiting" });
    await sp.answer("s", { happened: true, result: "from the bank" });
    const again = await open(sp);
    expect(await loop(again, world)).toBe("done");
    expect((await again.complete()).state).toEqual({ said: ["call", "from the bank", "done"] });
    expect([world.count("charge"), world.count("model 1"), world.count("model 2")]).toEqual([1, 1, 1]);
  });

  it("an open run waits for the answers to its questions, keeps its state, and gets each answer once it is recorded", async () => {
    const world = new World();
    const ask = async (run: OpenRun<State>): Promise<unknown[]> => {
      run.state.said.push(await run.llm(() => world.do("model 1", "ask")));
      return Promise.all([run.ask("Which one?"), run.ask({ text: "Really?", data: { id: 1 } }), run.ask("Really?")]);
    };
    const work = async (): Promise<unknown> => ask(await open(await lab.open(), { turn: "one" }));
    const error = await errorOf(work());
    expect(error).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { questions: [{ kind: "ask" }, {}, {}] } });
    expect((error as Error).message).toMatch(
      /waits for a person: Which one\? Answer with sp\.answer\(session, value\)/,
    );
    const sp = await lab.open();
    expect(await sp.session("s").latest()).toMatchObject({ status: "waiting", state: { said: ["ask"] } });
    const [first, second, third] = (await sp.sessions.load("s"))?.questions ?? [];
    expect(second).toMatchObject({ text: "Really?", data: { id: 1 } });
    await sp.answer("s", "that one", { question: first?.id ?? "" });
    await sp.answer("s", "no", { question: third?.id ?? "" });
    // One answer is missing.
    expect(await codeOf(work())).toBe("OUTCOME_UNKNOWN");
    expect((await sp.sessions.load("s"))?.questions).toHaveLength(1);
    await sp.answer("s", "yes", { question: second?.id ?? "" });
    const run = await open(sp, { turn: "one" });
    expect(await ask(run)).toEqual(["that one", "yes", "no"]);
    expect((await run.complete()).state).toEqual({ said: ["ask"] });
    expect(await ask(await open(sp, { turn: "one" }))).toEqual(["that one", "yes", "no"]);
    expect(world.count("model 1")).toBe(1);
  });

  it.each([
    ["retry", 2, "receipt"],
    ["fail", 1, "OUTCOME_UNKNOWN"],
  ] as const)("an interrupted tool follows the policy %s", async (policy, times, outcome) => {
    const world = new World();
    const reached = world.hangIn("charge");
    loop(await open(await lab.open()), world, policy).catch(() => {});
    await reached;
    await lab.idle();
    lab.crash();
    const run = await open(await lab.open());
    const ended = await loop(run, world, policy).then(
      () => run.state.said[1],
      (error: { code?: string }) => error.code,
    );
    expect([ended, world.count("charge")]).toEqual([outcome, times]);
  });

  it("recorded results of tools are replayed in whatever order the loop requests them", async () => {
    const [world, gate] = [new World(), createGate()];
    const tools = (run: OpenRun<State>, ids: string[]): Promise<string>[] =>
      ids.map((id) => run.tool({ id, name: "look", arguments: {} }, async () => world.do(id, `${id}!`)));
    const first = await open(await lab.open());
    const [hangs, ...done] = [world.hangIn("b"), ...tools(first, ["a", "b", "c"])];
    await hangs;
    await Promise.all([done[0], done[2]]);
    gate.open();
    lab.crash();
    const run = await open(await lab.open());
    const [c, a] = await Promise.all(tools(run, ["c", "a"]));
    expect([c, a, world.log]).toEqual(["c!", "a!", ["a", "b", "c"]]);
  });

  it("a reply that is returned early is durable before the next effect begins, and after a flush", async () => {
    const recorded = async (session: string): Promise<string[]> => {
      const entries = await (await lab.open()).session(session).journal().all();
      return entries.map(({ name, outcome }) => `${name}: ${outcome}`);
    };
    const [sp, world] = [await lab.open(), new World()];
    const run = await open(sp);
    expect(await run.llm(() => "call", { input: [], early: true })).toBe("call");
    const reached = world.hangIn("charge");
    run.tool({ id: "c1", name: "charge", arguments: {} }, () => world.do("charge")).catch(() => {});
    await reached;
    expect(await recorded("s")).toEqual(["llm: recorded", "charge: running"]);
    const other = await open(sp, { session: "other" });
    await other.llm(() => "call", { input: [], early: true });
    await other.flush();
    expect(await recorded("other")).toEqual(["llm: recorded"]);
  });

  it("a model is called without waiting for the checkpoint of the step before, which contains nothing of the next step", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await open(sp);
    await run.llm(() => "first", { input: [] });
    run.state = { said: ["first"] };
    const saved = run.stepDone();
    const reached = world.hangIn("model 2");
    const second = run.llm(() => world.do("model 2", "second"), { input: ["first"] });
    run.state = { said: ["first", "later"] };
    await reached;
    await saved;
    expect((await sp.session<State>("s").latest())?.state).toEqual({ said: ["first"] });
    expect(await sp.session("s").journal({ all: true }).all()).toHaveLength(1);
    second.catch(() => {});
  });

  it("a checkpoint that cannot be stored is an error of stepDone, and the results before it are recorded", async () => {
    const run = await open(await lab.open());
    await run.llm(() => "first", { input: [], early: true });
    run.state = { said: [(() => {}) as never] };
    expect(await codeOf(run.stepDone())).toBe("INVALID_STATE");
    lab.crash();
    const again = await open(await lab.open());
    expect(await again.llm(() => "another", { input: [] })).toBe("first");
  });

  it("a failed model call is not recorded: the loop repeats it, and after a crash only the reply is replayed", async () => {
    const sp = await lab.open();
    const run = await open(sp);
    const failing = run.llm(() => Promise.reject(new TypeError("overloaded")), { input: [] });
    expect(await errorOf(failing)).toBeInstanceOf(TypeError);
    expect(await run.llm(() => "reply", { input: [] })).toBe("reply");
    lab.crash();
    const again = await open(await lab.open());
    expect(await again.llm(() => "another", { input: [] })).toBe("reply");
  });

  it("an error of a tool is recorded and replayed", async () => {
    const call = { id: "c", name: "charge", arguments: {} };
    const declined = Object.assign(new RangeError("declined"), { code: "E_CARD" });
    const run = await open(await lab.open());
    await errorOf(run.tool(call, () => Promise.reject(declined)));
    lab.crash();
    const again = await open(await lab.open());
    const error = await errorOf(again.tool(call, () => "charged"));
    expect(error).toMatchObject({ name: "RangeError", message: "declined", code: "E_CARD" });
  });

  it("the outcome of a tool that the loop has stopped is unknown", async () => {
    const call = { id: "c", name: "charge", arguments: {} };
    const stop = new AbortController();
    const run = await open(await lab.open());
    const stopped = run.tool(call, () => stop.signal.throwIfAborted(), { stopped: stop.signal });
    stop.abort(new Error("enough"));
    expect((await errorOf(stopped)).message).toBe("enough");
    await run.release();
    const again = await open(await lab.open());
    expect(await codeOf(again.tool(call, () => "charged"))).toBe("OUTCOME_UNKNOWN");
  });

  it("an open run halts where the loop differs from its journal, and loses no recorded effect", async () => {
    const world = new World();
    await interruptIn(world, "model 2");
    const sp = await lab.open();
    const run = await open(sp);
    await run.llm(() => "call", { input: [] });
    const error = await errorOf(run.tool({ id: "c1", name: "charge", arguments: { amount: 8 } }, () => "receipt"));
    expect(error).toMatchObject({ code: "NONDETERMINISM", details: { recorded: expect.stringContaining("7") } });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted" });
    const right = await open(sp);
    await right.complete(await loop(right, world));
    expect([world.count("charge"), world.count("model 2")]).toEqual([1, 2]);
  });

  it("a remembered value is replayed after a crash", async () => {
    const run = await open(await lab.open());
    expect(run.remember("input", () => ({ text: "one" }))).toEqual({ text: "one" });
    await run.llm(() => "reply");
    lab.crash();
    const again = await open(await lab.open());
    expect(again.remember("input", () => ({ text: "two" }))).toEqual({ text: "one" });
    expect(await codeOf((async () => again.remember("odd", () => Symbol("x")))())).toBe("INVALID_STATE");
  });

  it("a released turn can be resumed by the same process", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await open(sp);
    await run.llm(() => world.do("model 1", "call"), { input: [] });
    expect(await codeOf(open(sp))).toBe("ALREADY_RUNNING");
    expect(await codeOf(open(await lab.open()))).toBe("ALREADY_RUNNING");
    await run.release();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await codeOf(run.llm(() => "more"))).toBe("RUN_ENDED");
    await using again = await open(sp);
    await again.complete(await loop(again, world));
    expect(world.count("model 1")).toBe(1);
  });

  it("an open run ends when it is cancelled, and when another process has taken over", async () => {
    const sp = await lab.open();
    const run = await open(sp);
    const begun = createGate();
    const asked = run.llm(({ signal }) => {
      begun.open();
      return new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason as Error)));
    });
    await begun.promise;
    await Promise.all([sp.cancel("s", "enough"), errorOf(asked)]);
    expect(await codeOf(run.complete())).toBe("RUN_ENDED");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: enough" });

    const zombie = await open(sp);
    lab.crash();
    const other = await open(await lab.open());
    expect(await codeOf(zombie.llm(() => "late"))).toBe("LEASE_LOST");
    await other.complete();
  });

  it("an open run that another process has cancelled ends with RUN_ENDED where it notices while it saves a step", async () => {
    const run = await open(await lab.open());
    run.state.said.push("one");
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    expect(await codeOf(run.stepDone())).toBe("RUN_ENDED");
    expect(await (await lab.open()).sessions.load("s")).toMatchObject({
      status: "halted",
      reason: "cancelled: enough",
    });
  });

  describe("turns", () => {
    it("continue with the state of the previous turn, and are identified by their names", async () => {
      const sp = await lab.open();
      const first = await open(sp, { turn: "one" });
      first.state.said.push("hello");
      await first.complete("hi");
      const second = await open(sp, { turn: "two" });
      expect([second.turn, second.state]).toEqual([2, { said: ["hello"] }]);
      second.state.said.push("more");
      await second.complete("sure");
      const third = await open(sp);
      expect([third.turn, third.state]).toEqual([3, { said: ["hello", "more"] }]);
    });

    it("are resumed under the same name, and another name is rejected unless the unfinished turn is abandoned", async () => {
      const world = new World();
      await interruptIn(world, "model 2", { turn: "one" });
      const sp = await lab.open();
      const refused = await errorOf(open(sp, { turn: "two" }));
      expect(refused).toMatchObject({ code: "UNFINISHED_TURN", details: { unfinished: "one", wanted: "two" } });
      const same = await open(sp, { turn: "one" });
      expect(same.turn).toBe(1);
      await same.release();
      const unnamed = await open(sp);
      expect(unnamed.turn).toBe(1);
      await unnamed.release();
      const other = await open(sp, { turn: "two", abandon: true });
      expect([other.turn, other.state]).toEqual([2, { said: [] }]);
      await other.complete(await loop(other, world));
      expect(world.count("model 1")).toBe(2);
      expect((await sp.session("s").history().all()).map(({ step }) => step)).toContain(1);
    });

    it("that failed can be resumed under the same name, and do not block another turn", async () => {
      const [sp, world] = [await lab.open(), new World()];
      const first = await open(sp, { turn: "one" });
      await first.llm(() => world.do("model 1", "call"), { input: [] });
      expect(await first.fail(new Error("no network"))).toMatchObject({
        status: "failed",
        reason: "Error: no network",
      });
      expect(await sp.sessions.load("s")).toMatchObject({ status: "failed", reason: "Error: no network" });
      const again = await open(sp, { turn: "one" });
      await again.complete(await loop(again, world));
      expect(world.count("model 1")).toBe(1);
      const next = await open(sp, { turn: "two" });
      await next.fail("no");
      const third = await open(sp, { turn: "three" });
      expect(third.turn).toBe(3);
      await third.complete();
      const failed = await open(sp, { turn: "two" });
      expect(failed.finished).toMatchObject({ status: "failed", reason: "no" });
      expect(await codeOf(failed.complete())).toBe("RUN_ENDED");
    });

    it("that are completed are replayed from the journal, and reject new effects", async () => {
      const [sp, world] = [await lab.open(), new World()];
      for (const turn of ["one", "two"]) {
        const run = await open(sp, { turn });
        run.remember("turn", () => turn);
        await run.complete(await loop(run, world));
      }
      const before = world.log.length;
      const again = await open(await lab.open(), { turn: "one" });
      expect(again.finished).toMatchObject({ status: "completed", output: "done" });
      expect([again.turn, again.state, again.remember("turn", () => "x")]).toEqual([1, { said: [] }, "one"]);
      expect(await loop(again, world)).toBe("done");
      expect(await again.complete("other")).toMatchObject({ output: "done" });
      expect(await codeOf(again.llm(() => world.do("model 3"), { input: ["new"] }))).toBe("NONDETERMINISM");
      expect(await codeOf(again.fail("no"))).toBe("RUN_ENDED");
      expect(world.log.length).toBe(before);
    });
  });

  it("a branch that was forked in the middle of a turn resumes there", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await open(sp);
    await run.complete(await loop(run, world));
    const fork = await sp.session<State>("s").fork({ step: 1 });
    const whatIf = await open(sp, { branch: fork.branch, turn: "what if" });
    await whatIf.complete(await loop(whatIf, world));
    expect([world.count("model 1"), world.count("charge"), world.count("model 2")]).toEqual([1, 1, 2]);
    const replaced = await sp.session<State>("s").fork({ step: 1 }, { results: { c1: "declined" } });
    const other = await open(sp, { branch: replaced.branch });
    await other.complete(await loop(other, world));
    expect((await replaced.latest())?.state.said).toEqual(["call", "declined", "done"]);
    expect(world.count("charge")).toBe(1);
  });

  it("invalid options are rejected", async () => {
    const sp = await lab.open();
    const bad = [
      { session: "" },
      { agent: "" },
      { turn: "" },
      { abandon: "yes" as unknown as boolean },
      { initial: undefined as unknown as () => State },
    ];
    const codes = await Promise.all(bad.map((each) => codeOf(open(sp, each))));
    expect(codes).toEqual(["INVALID_ID", "INVALID_ID", "INVALID_ID", "INVALID_ARGUMENT", "INVALID_ARGUMENT"]);
    expect(await codeOf(sp.openRun(undefined as never))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(open(sp, { branch: "none" }))).toBe("BRANCH_NOT_FOUND");
    await (await open(sp)).release();
    expect(await codeOf(open(sp, { agent: "other" }))).toBe("AGENT_MISMATCH");
    await sp.close();
    expect(await codeOf(open(sp))).toBe("CLOSED");
  });
});
