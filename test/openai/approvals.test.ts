// Tools that need approval: the turn waits for a person, in any process, and resumes with the answers.
import { Agent, run, tool } from "@openai/agents-core";
import { functionCall } from "@openai/agents-core/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Savepoint } from "../../src/index.js";
import { durable, type OpenAiState } from "../../src/integrations/openai/index.js";
import { openLab, World } from "../run/lab.js";
import { call, dieIn, type Mode, MODES, say, scriptedModel, serve } from "./crew.js";

describe("approvals", () => {
  const charge = (world: World, needsApproval: unknown) =>
    tool({
      name: "charge",
      description: "charges a card",
      parameters: z.object({ amount: z.number().default(500), note: z.string().optional().nullable() }),
      needsApproval: needsApproval as boolean,
      execute: async ({ amount }) => world.do(`charge ${amount}`, `charged ${amount}`),
    });

  const createCashier = (world: World, needsApproval: unknown = true): Agent =>
    new Agent({
      name: "cashier",
      model: scriptedModel(world, "cashier", [
        [...call("c1", "charge", { amount: 1 }), ...call("c2", "charge", { amount: 2 })],
        call("c3", "charge", { amount: 3 }),
        say("Done."),
      ]),
      tools: [charge(world, needsApproval)],
    });

  /** Answers the questions of the session. @returns their texts */
  async function answer(sp: Savepoint, answers: readonly unknown[]): Promise<string[]> {
    const { questions = [] } = (await sp.sessions.load("s")) ?? {};
    for (const [index, { id }] of questions.entries()) await sp.answer("s", answers[index], { question: id });
    return questions.map(({ text }) => text);
  }

  it.for(MODES)("wait for a person in another process, and are not asked twice: %s", async (mode, test) => {
    const lab = await openLab(test);
    const world = new World();
    const work = async (sp: Savepoint, as: Mode = mode) =>
      serve(sp, world, { mode: as, turn: "one", agent: createCashier(world) });
    const first = await lab.open();
    const waiting = (await work(first)).end;
    expect(waiting).toMatchObject({ status: "waiting", session: "s", questions: [{ kind: "ask" }, { kind: "ask" }] });
    const saved = await first.session<OpenAiState>("s").latest();
    expect(saved).toMatchObject({
      status: "waiting",
      state: { run: { currentStep: { type: "next_step_interruption" } } },
    });
    expect(await answer(first, [true, { approved: false, message: "Not that one." }])).toEqual([
      'May cashier call charge({"amount":1})?',
      'May cashier call charge({"amount":2})?',
    ]);
    expect((await work(await lab.open())).end.status).toBe("waiting");
    expect(world.log).toEqual(["cashier 0", "charge 1", "cashier 1"]);
    expect(await answer(await lab.open(), ["yes"])).toEqual(['May cashier call charge({"amount":3})?']);
    const sp = await lab.open();
    expect((await work(sp)).end).toMatchObject({ status: "completed", output: "Done." });
    expect(world.log).toEqual(["cashier 0", "charge 1", "cashier 1", "charge 3", "cashier 2"]);
    const { state } = (await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState };
    expect(JSON.stringify(state)).toContain("Not that one.");
    expect(state.run).toBe(undefined);
    expect(state.messages.map(({ type }) => type)).toHaveLength(8);
    // The turn that is completed replays its answers too, in the other mode.
    expect((await work(sp, mode === "run" ? "stream" : "run")).end.output).toBe("Done.");
    expect(world.log).toHaveLength(5);
  });

  it("resume after a crash in an approved tool", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const options = { turn: "one", agent: createCashier(world), policies: { charge: { onUnknown: "retry" } } as const };
    const sp = await lab.open();
    await serve(sp, world, options);
    await answer(sp, [true, true]);
    await dieIn(lab, world, "charge 2", { ...options, agent: createCashier(world) });
    const again = await lab.open();
    await serve(again, world, { ...options, agent: createCashier(world) });
    await answer(again, [true]);
    const { end } = await serve(again, world, { ...options, agent: createCashier(world) });
    expect(end.output).toBe("Done.");
    expect(["charge 1", "charge 2", "charge 3"].map((each) => world.count(each))).toEqual([1, 2, 1]);
  });

  it("save the run state parsed, so that waiting again writes what has changed in it", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const sp = await lab.open();
    const long = "x".repeat(20_000);
    const work = async () => serve(sp, world, { turn: "one", input: long, agent: createCashier(world) });
    await work();
    const before = (await sp.stats()).bytes;
    await answer(sp, [true, true]);
    await work();
    const { state } = (await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState };
    expect(JSON.stringify(state.run).length).toBeGreaterThan(20_000);
    expect(((await sp.stats()).bytes ?? 0) - (before ?? 0)).toBeLessThan(20_000);
  });

  it("see the arguments as the tool parses them", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const seen: unknown[] = [];
    const agent = new Agent({
      name: "cashier",
      model: scriptedModel(world, "cashier", [[functionCall("charge", "{}", { callId: "c1" })], say("Done.")]),
      tools: [
        charge(
          world,
          async (_context: unknown, input: { amount: number }) => seen.push(input) > 0 && input.amount > 100,
        ),
      ],
    });
    const { end } = await serve(await lab.open(), world, { agent });
    expect(end.status).toBe("waiting");
    expect(seen[0]).toMatchObject({ amount: 500 });
  });

  it("of an agent that is used as a tool wait and resume too", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const createBoss = (): Agent =>
      new Agent({
        name: "boss",
        model: scriptedModel(world, "boss", [call("b1", "pay", { input: "Pay." }), say("Paid.")]),
        tools: [createCashier(world).asTool({ toolName: "pay", toolDescription: "Pays." })],
      });
    const work = async () => serve(await lab.open(), world, { turn: "one", agent: createBoss() });
    expect((await work()).end.status).toBe("waiting");
    await answer(await lab.open(), [true, false]);
    expect((await work()).end.status).toBe("waiting");
    await answer(await lab.open(), [true]);
    expect((await work()).end).toMatchObject({ status: "completed", output: "Paid." });
    expect(world.log).toEqual(["boss 0", "cashier 0", "charge 1", "cashier 1", "charge 3", "cashier 2", "boss 1"]);
  });

  it("save the run state without the context of the program", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const secret = { key: "secret", self: {} };
    secret.self = secret;
    const boss = new Agent({
      name: "boss",
      model: scriptedModel(new World(), "boss", [call("b1", "pay", { input: "Pay." })]),
      tools: [createCashier(new World()).asTool({ toolName: "pay", toolDescription: "Pays." })],
    });
    const { end } = await serve(sp, new World(), { agent: createCashier(new World()), more: { context: secret } });
    expect(end.status).toBe("waiting");
    const nested = { ...lab, turn: "one", session: "nested", agent: boss, more: { context: { key: "secret" } } };
    expect((await serve(sp, new World(), nested)).end.status).toBe("waiting");
    for (const id of ["s", "nested"]) {
      const state = (await sp.session<OpenAiState>(id).latest())?.state;
      expect(JSON.stringify(state)).toContain("next_step_interruption");
      expect(JSON.stringify(state)).not.toContain("secret");
    }
  });

  it("that the program decides itself do not ask, and complete() does not end a turn that needs one", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const world = new World();
    const turn = await durable(sp, { session: "s" });
    const agent = turn.agent(createCashier(world));
    let result = await run(agent, "Charge.", { session: turn.session });
    for (const item of result.interruptions) result.state.approve(item, { alwaysApprove: true });
    result = await run(agent, result.state, { session: turn.session });
    expect(result.interruptions).toEqual([]);
    expect((await turn.complete(result)).output).toBe("Done.");

    const other = await durable(sp, { session: "s" });
    const waiting = await run(other.agent(createCashier(world)), "Charge.", { session: other.session });
    expect(await other.complete(waiting)).toMatchObject({ status: "waiting", questions: [{}, {}] });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
  });

  it("are rejected by any answer that does not clearly approve", async (test) => {
    for (const given of [false, null, 1, "False", "Please not.", { approved: "yes" }, {}]) {
      const lab = await openLab(test);
      const [sp, world] = [await lab.open(), new World()];
      const agent = (): Agent =>
        new Agent({
          name: "cashier",
          model: scriptedModel(world, "cashier", [call("c1", "charge", { amount: 1 }), say("Done.")]),
          tools: [charge(world, true)],
        });
      await serve(sp, world, { turn: "one", agent: agent() });
      await answer(sp, [given]);
      const { end } = await serve(sp, world, { turn: "one", agent: agent() });
      expect(end.output).toBe("Done.");
      expect(world.count("charge 1")).toBe(0);
      if (given === "Please not.") expect(JSON.stringify((await sp.session("s").latest())?.state)).toContain(given);
    }
  });
});
