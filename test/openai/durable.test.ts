// The loop of the OpenAI Agents SDK, made durable: what is recorded, what is replayed, and what is kept of it.
import { Agent, type AgentInputItem, MemorySession, run, tool, Usage } from "@openai/agents-core";
import { assistantMessage, functionCall, modelError, ScriptedModel } from "@openai/agents-core/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { durable, idempotencyKeyOf, type OpenAiState } from "../../src/integrations/openai/index.js";
import { codeOf, errorOf, KINDS, openLab, useLab, World } from "../run/lab.js";
import { isFull } from "../support/runs.js";
import { call, createClerk, dieIn, EVERYTHING, MODES, runAgent, say, SCRIPT, scriptedModel, serve } from "./crew.js";

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** The error that Savepoint has thrown in a tool. */
const causeOf = (error: unknown): unknown => (error as { error?: unknown }).error ?? error;

describe.each(isFull ? KINDS : KINDS.slice(0, 1))("a durable turn on $name", (kind) => {
  const lab = useLab(kind);

  describe.each(MODES)("%s", (mode) => {
    it("does the same as the plain loop, and keeps the history as the SDK's own items", async () => {
      const session = new MemorySession();
      const bare = await runAgent(mode, createClerk(new World()), "Charge me." as never, { session });
      const [sp, world] = [await lab.open(), new World()];
      const { result, end } = await serve(sp, world, { mode });
      expect(result.finalOutput).toBe(bare.finalOutput);
      expect(end).toMatchObject({ status: "completed", output: "Charged twice." });
      expect([...world.log].sort()).toEqual([...EVERYTHING].sort());
      const latest = await sp.session<OpenAiState>("s").latest();
      expect(latest).toMatchObject({ status: "completed", step: 3 });
      const items = plain(await session.getItems());
      expect(plain(latest?.state)).toEqual({ messages: items, turn: { from: 0, done: true } });
    });

    it("makes each finished step a checkpoint with the items so far", async () => {
      const sp = await lab.open();
      await serve(sp, new World(), { mode });
      const session = sp.session<OpenAiState>("s");
      const history = (await session.history().all()).reverse();
      expect(history.map(({ step, status }) => [step, status])).toEqual([
        [0, "running"],
        [1, "running"],
        [2, "running"],
        [3, "completed"],
      ]);
      const lengths = [];
      for (const step of [0, 1, 2, 3]) lengths.push((await session.load({ step }))?.state.messages.length);
      expect(lengths).toEqual([0, 5, 7, 8]);
      expect(await sp.search("charged twice")).toMatchObject([{ source: "session", id: "s", path: "/messages/7" }]);
    });

    it.each(EVERYTHING)("resumes after a crash in %s, and repeats no recorded effect", async (at) => {
      const world = new World();
      const policies = { charge: { onUnknown: "retry" }, look: { onUnknown: "retry" } } as const;
      await dieIn(lab, world, at, { mode, policies });
      const sp = await lab.open();
      const { end } = await serve(sp, world, { mode, policies });
      expect(end.output).toBe("Charged twice.");
      for (const each of EVERYTHING) expect([each, world.count(each)]).toEqual([each, each === at ? 2 : 1]);
      const state = (await sp.session<OpenAiState>("s").latest())?.state;
      expect(state?.messages).toHaveLength(8);
    });

    it("asks a person by default: the loop throws, the session waits, and resumes with the answer", async () => {
      const world = new World();
      await dieIn(lab, world, "charge 1", { mode });
      const sp = await lab.open();
      const error = causeOf(await errorOf(serve(sp, world, { mode })));
      expect(error).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { questions: [{ call: { id: "c1" } }] } });
      expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
      expect(world.count("clerk 1")).toBe(0);
      await sp.answer("s", { happened: true, result: "charged by the bank" });
      const { end } = await serve(sp, world, { mode });
      expect(end.output).toBe("Charged twice.");
      expect(world.count("charge 1")).toBe(1);
      expect(JSON.stringify((await sp.session("s").latest())?.state)).toContain("charged by the bank");
    });

    it("resumes in the other mode", async () => {
      const world = new World();
      await dieIn(lab, world, "clerk 2", { mode });
      const other = mode === "run" ? "stream" : "run";
      const { end } = await serve(await lab.open(), world, { mode: other });
      expect(end.output).toBe("Charged twice.");
      expect([world.count("clerk 0"), world.count("charge 2"), world.count("clerk 2")]).toEqual([1, 1, 2]);
    });

    it("gives a later turn the history, and replays a turn that is completed", async () => {
      const [sp, world] = [await lab.open(), new World()];
      await serve(sp, world, { mode, turn: "one" });
      const done = [...world.log];
      const again = await serve(sp, world, { mode, turn: "one" });
      expect(again.turn.finished).toMatchObject({ status: "completed", output: "Charged twice." });
      expect(again.end).toEqual(again.turn.finished);
      expect(world.log).toEqual(done);
      await serve(sp, world, { mode, turn: "two", input: "Again.", script: [say("No.")] });
      const { state } = (await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState };
      expect(state.messages).toHaveLength(10);
      expect(state.turn).toEqual({ from: 8, done: true });
    });
  });

  it("shows the parts of a stream before the reply is recorded, and all of a replayed reply", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const live = await serve(sp, world, { mode: "stream", turn: "one" });
    const replayed = await serve(sp, world, { mode: "stream", turn: "one" });
    expect([live, replayed].map(({ result }) => (result as { shown?: string }).shown)).toEqual([
      "Charged twice.",
      "Charged twice.",
    ]);
    expect(replayed.result.runContext.usage).toEqual(live.result.runContext.usage);
  });

  it("resumes with an agent that was changed since, as long as its model is shown the same", async () => {
    const world = new World();
    await dieIn(lab, world, "clerk 2");
    const changed = createClerk(world, [...SCRIPT.slice(0, 2), say("Charged, with pleasure.")]);
    changed.instructions = "Be polite.";
    const { end } = await serve(await lab.open(), world, { agent: changed });
    expect(end.output).toBe("Charged, with pleasure.");
  });
});

describe("a durable turn", () => {
  it("reports an input of a model that differs from the recorded one", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    await dieIn(lab, world, "clerk 2");
    const sp = await lab.open();
    const turn = await durable(sp, { session: "s", agent: "shop" });
    const history = [...call("l1", "look", { what: "else" })];
    const error = await errorOf(run(turn.agent(createClerk(world)), history as never, { session: turn.session }));
    expect(error).toMatchObject({ code: "NONDETERMINISM" });
  });

  it("gives tools an idempotency key that is the same in each attempt", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const keys: (string | undefined)[] = [];
    const charge = tool({
      name: "charge",
      description: "charges",
      parameters: z.object({}),
      execute: async (_input, _context, details) => {
        keys.push(idempotencyKeyOf(details));
        return world.do("charge", "done");
      },
    });
    const agent = (): Agent =>
      new Agent({
        name: "clerk",
        model: scriptedModel(world, "clerk", [call("a", "charge"), say("Done.")]),
        tools: [charge],
      });
    const policies = { charge: { onUnknown: "retry" } } as const;
    await dieIn(lab, world, "charge", { agent: agent(), policies });
    await serve(await lab.open(), world, { agent: agent(), policies });
    expect(keys).toHaveLength(2);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(idempotencyKeyOf(undefined)).toBe(undefined);
  });

  it("reports an interrupted call to the model with the policy fail, and calls the function verify with the policy verify", async (test) => {
    for (const onUnknown of ["fail", "verify"] as const) {
      const lab = await openLab(test);
      const world = new World();
      const verify = () => ({ happened: true, result: "found" }) as const;
      const policies = { charge: { onUnknown, ...(onUnknown === "verify" && { verify }) } };
      await dieIn(lab, world, "charge 2", { policies });
      const sp = await lab.open();
      const { end } = await serve(sp, world, { policies });
      expect(end.output).toBe("Charged twice.");
      expect(world.count("charge 2")).toBe(1);
      const text = JSON.stringify((await sp.session("s").latest())?.state);
      expect(text).toContain(onUnknown === "fail" ? "Check whether it happened before you repeat it." : "found");
    }
  });

  it("continues after a turn that failed, and resumes that turn if it is opened again", async (test) => {
    const lab = await openLab(test);
    const [sp, world] = [await lab.open(), new World()];
    const turn = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    const error = await errorOf(
      run(turn.agent(createClerk(world)), "Charge me.", { session: turn.session, maxTurns: 2 }),
    );
    expect((error as Error).constructor.name).toBe("MaxTurnsExceededError");
    expect(await turn.fail(error)).toMatchObject({ status: "failed" });
    const failed = (await sp.session<OpenAiState>("s").latest())?.state;
    expect(failed?.messages.length).toBeGreaterThan(2);
    const { end } = await serve(sp, world, { turn: "one" });
    expect(end.output).toBe("Charged twice.");
    for (const each of EVERYTHING) expect([each, world.count(each)]).toEqual([each, 1]);
  });

  it("continues the conversation of a turn that failed in the next one", async (test) => {
    const lab = await openLab(test);
    const [sp, world] = [await lab.open(), new World()];
    const turn = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    const broken = createClerk(world, [call("c1", "charge", { amount: 1 }), call("x1", "no_such_tool")]);
    const error = await errorOf(run(turn.agent(broken), "Charge me.", { session: turn.session }));
    await turn.fail(error);
    const { messages } = ((await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState }).state;
    expect(messages.map(({ type }) => type).slice(0, 3)).toEqual(["message", "function_call", "function_call_result"]);
    const clerk = createClerk(world, [say("Sorry.")]);
    expect((await serve(sp, world, { turn: "two", input: "Again.", agent: clerk })).end.output).toBe("Sorry.");
    const shown = (clerk.model as ScriptedModel).firstCall?.request.input as AgentInputItem[];
    expect(shown.map(({ type }) => type)).toEqual(["message", "function_call", "function_call_result", "message"]);
  });

  it("abandons an unfinished turn, and starts with the history before it", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    await serve(await lab.open(), world, { turn: "one", script: [say("Hello.")] });
    await dieIn(lab, world, "charge 2", { turn: "two" });
    const sp = await lab.open();
    expect(await codeOf(serve(sp, world, { turn: "three" }))).toBe("UNFINISHED_TURN");
    await serve(sp, world, { turn: "three", abandon: true, script: [say("Instead.")] });
    expect((await sp.session<OpenAiState>("s").latest())?.state.messages).toHaveLength(4);
  });

  it("keeps the items of a run without the session", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    for (const name of ["one", "two"]) {
      const turn = await durable(sp, { session: "s", turn: name });
      await turn.complete(await run(turn.agent(createClerk(new World(), [say(name)])), "Hello."));
    }
    const { messages } = ((await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState }).state;
    expect(messages.map((item) => ("role" in item ? item.role : item.type))).toEqual([
      "user",
      "assistant",
      "user",
      "assistant",
    ]);
  });

  it("counts the tokens, and does not count those of replayed replies again", async (test) => {
    const lab = await openLab(test);
    const usage = new Usage({ inputTokens: 3, outputTokens: 2, totalTokens: 5 });
    const agent = (): Agent =>
      new Agent({ name: "clerk", model: new ScriptedModel([{ usage, output: [assistantMessage("Hello.")] }]) });
    const sp = await lab.open();
    for (let again = 0; again < 2; again++) await serve(sp, new World(), { turn: "one", agent: agent() });
    expect(await sp.session("s").latest()).toMatchObject({ usage: { tokens: 5 } });
  });

  it("records nothing of a model call that fails, so that the SDK's retries call the model again", async (test) => {
    const lab = await openLab(test);
    const overloaded = Object.assign(new Error("overloaded"), { status: 503 });
    const advice = { suggested: true, replaySafety: "safe" } as const;
    const model = new ScriptedModel([modelError(overloaded, advice), [assistantMessage("Hello.")]]);
    const retry = { maxRetries: 1, policy: () => true, backoff: { initialDelayMs: 1 } };
    const agent = new Agent({ name: "clerk", model, modelSettings: { retry } });
    const { end } = await serve(await lab.open(), new World(), { agent });
    expect(end.output).toBe("Hello.");
    expect(model.calls).toHaveLength(2);
  });

  it("stops the model when the reader of a stream leaves, and can be resumed", async (test) => {
    const lab = await openLab(test);
    const [sp, world] = [await lab.open(), new World()];
    const turn = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    const result = await run(turn.agent(createClerk(world)), "Charge me.", { session: turn.session, stream: true });
    for await (const event of result) if (event.type === "run_item_stream_event") break;
    await result.completed.catch(() => {});
    await turn.release();
    const policies = { charge: { onUnknown: "retry" }, look: { onUnknown: "retry" } } as const;
    const { end } = await serve(sp, world, { turn: "one", policies });
    expect(end.output).toBe("Charged twice.");
  });

  it("rejects invalid arguments, and says what to pass", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    await expect(durable({} as never, { session: "s" })).rejects.toThrow(/needs an open Savepoint/);
    await sp.session("mine").save({ mine: true });
    await expect(durable(sp, { session: "mine" })).rejects.toMatchObject({ code: "INVALID_STATE" });
    const turn = await durable(sp, { session: "s" });
    const clerk = createClerk(new World());
    expect(() => turn.agent({ name: "x", tools: [], handoffs: [] })).toThrow(/needs an Agent of the package/);
    expect(() => turn.agent(clerk, { chrge: {} })).toThrow(/policy for "chrge".*look, charge/);
    expect(() => turn.agent(clerk, { charge: { onUnknown: "never" as "ask" } })).toThrow(/onUnknown: "never"/);
    expect(() => turn.agent(clerk, { charge: { onUnknown: "verify" } })).toThrow(/needs both/);
    expect(() => turn.agent(turn.agent(clerk))).toThrow(/has returned before/);
    await expect(turn.complete({ text: "Hello." })).rejects.toThrow(/needs the result of run/);
    await turn.release();
  });

  it("reports invalid arguments to the model, as the SDK does", async (test) => {
    const lab = await openLab(test);
    const script = [[functionCall("charge", "{no json", { callId: "c1" })], say("Sorry.")];
    const { end } = await serve(await lab.open(), new World(), { script });
    expect(end.output).toBe("Sorry.");
  });
});
