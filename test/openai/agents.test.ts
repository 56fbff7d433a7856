// Crews of agents in a durable turn: handoffs, agents as tools, approvals, and everything else that an agent can have.
import type * as Core from "@openai/agents-core";
import {
  Agent,
  applyPatchTool,
  type Editor,
  handoff,
  type MCPServer,
  run,
  Runner,
  type Shell,
  shellTool,
  tool,
} from "@openai/agents-core";
import { createRequire } from "node:module";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents-core/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Savepoint } from "../../src/index.js";
import { durable, type OpenAiState, type ToolPolicies } from "../../src/integrations/openai/index.js";
import { openLab, World } from "../run/lab.js";
import { isFull } from "../support/runs.js";
import {
  call,
  createClerk,
  dieIn,
  type Mode,
  MODES,
  type Output,
  runAgent,
  say,
  scriptedModel,
  serve,
  shopTools,
} from "./crew.js";

/** A clerk who asks an adviser, and hands off to a cashier, who charges twice and hands back. */
function createCrew(world: World): Agent {
  const adviser = new Agent({
    name: "adviser",
    model: scriptedModel(world, "adviser", [call("l1", "look", { what: "price" }), say("It costs 7.")]),
    tools: shopTools(world).slice(0, 1),
  });
  const cashier = new Agent({
    name: "cashier",
    // The history of the turn has the replies of all agents.
    model: scriptedModel(world, "cashier", [
      [],
      [],
      call("c1", "charge", { amount: 7 }),
      call("b1", "transfer_to_clerk"),
    ]),
    tools: shopTools(world).slice(1),
  });
  const clerk = new Agent({
    name: "clerk",
    model: scriptedModel(world, "clerk", [
      [
        ...call("a1", "ask_adviser", { input: "What does it cost?" }),
        ...call("a2", "ask_adviser", { input: "Really?" }),
      ],
      call("h1", "transfer_to_cashier"),
      [],
      [],
      say("Charged 7."),
    ]),
    tools: [adviser.asTool({ toolName: "ask_adviser", toolDescription: "Asks." })],
    handoffs: [cashier],
  });
  cashier.handoffs = [handoff(clerk)];
  return clerk;
}

const POINTS = [
  "clerk 0",
  "adviser 0",
  "look price",
  "adviser 1",
  "clerk 1",
  "cashier 2",
  "charge 7",
  "cashier 3",
  "clerk 4",
];

const RETRY: ToolPolicies = { charge: { onUnknown: "retry" }, look: { onUnknown: "retry" } };

describe.each(MODES)("handoffs and agents as tools: %s", (mode) => {
  it("records the calls of all agents, in the order and under the names of the journal", async (test) => {
    const lab = await openLab(test);
    const [sp, world] = [await lab.open(), new World()];
    const agent = createCrew(world);
    const bare = await runAgent(mode, createCrew(new World()), "Charge me." as never);
    const turn = await durable(sp, { session: "s" });
    const wrapped = turn.agent(agent, RETRY);
    const result = await runAgent(mode, wrapped, "Charge me." as never, { session: turn.session });
    const journal = await sp.journal("s").all();
    expect((await turn.complete(result)).output).toBe("Charged 7.");
    expect(result.history).toEqual(bare.history);
    expect(result.lastAgent?.name).toBe("clerk");
    const names = journal.map(({ kind, name, callId }) => [kind, name, callId ?? ""].join(" ").trim());
    expect([...new Set(names)].sort()).toEqual([
      "llm adviser (a1)",
      "llm adviser (a2)",
      "llm cashier",
      "llm clerk",
      "tool charge c1",
      "tool look a1/l1",
      "tool look a2/l1",
    ]);
    // Outside of the turn, the agents are as they were.
    expect((await run(agent, "What does it cost?")).finalOutput).toBe("Charged 7.");
  });

  it.for(isFull || mode === "run" ? POINTS : ["adviser 1", "charge 7"])(
    "resumes after a crash in %s, and repeats no recorded effect",
    async (at, test) => {
      const lab = await openLab(test);
      const world = new World();
      await dieIn(lab, world, at, { mode, agent: createCrew(world), policies: RETRY });
      const before = [...world.log];
      const { end } = await serve(await lab.open(), world, { mode, agent: createCrew(world), policies: RETRY });
      expect(end.output).toBe("Charged 7.");
      for (const each of POINTS) {
        const times = each.startsWith("adviser") || each === "look price" ? 2 : 1;
        // Beside the call that hung, the same call of the parallel agent may have hung too.
        const repeated = each === at ? [times + 1, times + 2] : [times];
        const isBeside = before.includes(each) && world.count(each) === times + 1 && at.startsWith("adviser");
        expect(isBeside || repeated.includes(world.count(each)), `${each}: ${world.log.join(", ")}`).toBe(true);
      }
    },
  );
});

describe("agents of a durable turn", () => {
  it("can be made with the copy of the SDK that require() loads, and can be wrapped before they become tools", async (test) => {
    const required = createRequire(import.meta.url)("@openai/agents-core") as typeof Core;
    required.setTracingDisabled(true);
    const lab = await openLab(test);
    for (const sdk of [required, { Agent, run }]) {
      const [sp, world] = [await lab.open(), new World()];
      for (let again = 0; again < 2; again++) {
        const turn = await durable(sp, { session: sdk === required ? "required" : "imported", turn: "one" });
        const tools = shopTools(world).slice(0, 1);
        const adviser = new sdk.Agent({
          name: "adviser",
          model: scriptedModel(world, "adviser", [call("l1", "look", { what: "price" }), say("It costs 7.")]),
          tools,
        });
        const asked = sdk === required ? adviser : turn.agent(adviser, { look: { onUnknown: "retry" } });
        const clerk = new sdk.Agent({
          name: "clerk",
          model: scriptedModel(world, "clerk", [call("a1", "ask", { input: "?" }), say("7.")]),
          tools: [asked.asTool({ toolName: "ask", toolDescription: "Asks." })],
        });
        const result = await sdk.run(turn.agent(clerk), "How much?", { session: turn.session });
        expect((await turn.complete(result)).output).toBe("7.");
      }
      expect(world.log).toEqual(["clerk 0", "adviser 0", "look price", "adviser 1", "clerk 1"]);
    }
  });

  it("have handoffs that choose their agent, and agents that refer to each other", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const last = new Agent({ name: "last", model: scriptedModel(world, "last", [[], say("Hello from the last.")]) });
    const chosen = handoff(new Agent({ name: "next" }));
    const first = new Agent({
      name: "first",
      model: scriptedModel(world, "first", [call("h", "transfer_to_next")]),
      handoffs: [chosen],
    });
    chosen.onInvokeHandoff = async () => last;
    last.handoffs = [first];
    const sp = await lab.open();
    for (let again = 0; again < 2; again++) {
      const { end } = await serve(sp, world, { agent: first, turn: "one" });
      expect(end.output).toBe("Hello from the last.");
    }
    expect(world.log).toEqual(["first 0", "last 1"]);
  });

  it("keep their class, event listeners, instructions and structured outputs", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const agent = new Agent({
      name: "clerk",
      instructions: (_context, { name }) => `You are ${name}.`,
      outputType: z.object({ total: z.number() }),
      model: scriptedModel(world, "clerk", [say('{"total":7}')]),
    });
    const seen: unknown[] = [];
    agent.on("agent_end", (_context, output) => seen.push(output));
    const sp = await lab.open();
    const turn = await durable(sp, { session: "s" });
    const wrapped = turn.agent(agent);
    expect(wrapped).toBeInstanceOf(Agent);
    const result = await run(wrapped, "How much?", { session: turn.session });
    expect(result.finalOutput?.total).toBe(7);
    expect((agent.model as ScriptedModel).lastCall?.request.systemInstructions).toBe("You are clerk.");
    expect((await turn.complete(result)).output).toEqual({ total: 7 });
    expect(seen).toEqual(['{"total":7}']);
  });

  it("use the tools of MCP servers, whose calls are recorded", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const server = (): MCPServer =>
      ({
        name: "shop",
        cacheToolsList: false,
        connect: async () => {},
        close: async () => {},
        invalidateToolsCache: async () => {},
        listTools: async () => [
          { name: "stock", inputSchema: { type: "object", properties: {}, required: [], additionalProperties: false } },
        ],
        callTool: async () => [{ type: "text", text: await world.do("stock", "7 left") }],
      }) as unknown as MCPServer;
    const agent = (): Agent =>
      new Agent({
        name: "clerk",
        model: scriptedModel(world, "clerk", [call("m1", "stock"), say("7 left.")]),
        mcpServers: [server()],
      });
    const policies: ToolPolicies = { stock: { onUnknown: "retry" } };
    await dieIn(lab, world, "clerk 1", { agent: agent(), policies });
    const { end } = await serve(await lab.open(), world, { agent: agent(), policies });
    expect(end.output).toBe("7 left.");
    expect(world.count("stock")).toBe(1);
  });

  it("use a local shell and editor, whose calls are recorded, and hosted tools, which are part of the reply", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const shell: Shell = {
      run: async ({ commands }) => {
        await world.do(commands.join(" "));
        return { output: [{ stdout: "done", stderr: "", outcome: { type: "exit", exitCode: 0 } }] };
      },
    };
    const edit = async (): Promise<{ status: "completed" }> => world.do("edit", { status: "completed" });
    const editor: Editor = { createFile: edit, updateFile: edit, deleteFile: edit };
    const items = (turn: number): Output =>
      [
        [
          { type: "shell_call", callId: "s1", action: { commands: ["ls"] } },
          {
            type: "hosted_tool_call",
            name: "web_search_call",
            id: "w1",
            status: "completed",
            providerData: { type: "web_search" },
          },
        ],
        [
          {
            type: "apply_patch_call",
            callId: "p1",
            status: "completed",
            operation: { type: "create_file", path: "a", diff: "+a" },
          },
        ],
        say("Edited."),
      ][turn] as Output;
    const agent = (): Agent => {
      const model = new ScriptedModel();
      for (let turn = 0; turn < 3; turn++) model.enqueue([...items(turn)]);
      return new Agent({ name: "clerk", model, tools: [shellTool({ shell }), applyPatchTool({ editor })] });
    };
    const sp = await lab.open();
    const models: ScriptedModel[] = [];
    for (let again = 0; again < 2; again++) {
      const made = agent();
      models.push(made.model as ScriptedModel);
      const { end } = await serve(sp, world, { agent: made, turn: "one" });
      expect(end.output).toBe("Edited.");
    }
    expect(world.log).toEqual(["ls", "edit"]);
    expect(models.map(({ calls }) => calls.length)).toEqual([3, 0]);
    const { messages } = ((await sp.session<OpenAiState>("s").latest()) as { state: OpenAiState }).state;
    expect(messages.some(({ type }) => type === "hosted_tool_call")).toBe(true);
  });

  it("have models by name, from the runner, with the settings that the SDK gives to them", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const requests: unknown[] = [];
    for (const isDurable of [false, true]) {
      const models = new Map<string, ScriptedModel>();
      const runner = new Runner({
        tracingDisabled: true,
        modelSettings: { temperature: 0.5 },
        modelProvider: {
          getModel: (name = "default") => {
            const model =
              models.get(name) ??
              new ScriptedModel([call("h", "transfer_to_second"), say("Hello.")].map((each) => [...each]));
            if (name === "gpt-4.1") return new ScriptedModel([[assistantMessage("Hello.")]]);
            models.set(name, model);
            return model;
          },
        },
      });
      const second = new Agent({ name: "second", model: "gpt-4.1" });
      const first = new Agent({ name: "first", handoffs: [second] });
      if (isDurable) {
        const turn = await durable(sp, { session: "s", runner });
        const result = await runner.run(turn.agent(first), "Hello?", { session: turn.session });
        expect((await turn.complete(result)).output).toBe("Hello.");
      } else await runner.run(first, "Hello?");
      expect([...models.keys()]).toEqual([""]);
      const { modelSettings, overridePromptModel, systemInstructions } = models.get("")?.firstCall?.request ?? {};
      requests.push({ modelSettings, overridePromptModel, systemInstructions });
    }
    expect(requests[1]).toEqual(requests[0]);
  });

  it("run nested agents whose models have names with the provider of the run around them", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const nested = new ScriptedModel([[assistantMessage("7.")]]);
    const adviser = new Agent({ name: "adviser", model: "gpt-5" });
    const runner = new Runner({ tracingDisabled: true, modelProvider: { getModel: () => nested } });
    for (let again = 0; again < 2; again++) {
      const turn = await durable(sp, { session: "s", turn: "one", runner });
      const script = [call("a1", "ask", { input: "?" }), say("It costs 7.")];
      const clerk = new Agent({
        name: "clerk",
        model: scriptedModel(new World(), "clerk", script),
        tools: [adviser.asTool({ toolName: "ask", toolDescription: "Asks." })],
      });
      const result = await runner.run(turn.agent(clerk), "?", { session: turn.session });
      if (again === 0) expect((await sp.journal("s").all()).map(({ name }) => name)).toContain("adviser (a1)");
      expect((await turn.complete(result)).output).toBe("It costs 7.");
    }
    expect(nested.calls).toHaveLength(1);
  });

  it("have timeouts whose message is recorded as the result", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const slow = (): Agent =>
      new Agent({
        name: "clerk",
        model: scriptedModel(world, "clerk", [call("s1", "slow"), say("It took too long.")]),
        tools: [
          tool({
            name: "slow",
            description: "never ends",
            parameters: z.object({}),
            timeoutMs: 5,
            execute: () => {
              world.log.push("slow");
              return new Promise<string>(() => {});
            },
          }),
        ],
      });
    const sp = await lab.open();
    for (let again = 0; again < 2; again++) await serve(sp, world, { agent: slow(), turn: "one" });
    expect(world.log).toEqual(["clerk 0", "slow", "clerk 1"]);
    expect(JSON.stringify((await sp.session("s").latest())?.state)).toContain("timed out");
  });

  it("have guardrails, whose own agents can be recorded aside", async (test) => {
    const lab = await openLab(test);
    const world = new World();
    const sp = await lab.open();
    for (const [name, isBad] of [
      ["good", false],
      ["bad", true],
      ["bad", true],
    ] as const) {
      const turn = await durable(sp, { session: "s", turn: name, abandon: true });
      const judge = turn.agent(
        new Agent({ name: "judge", model: scriptedModel(world, "judge", [say(isBad ? "bad" : "good")]) }),
        {},
        { aside: true },
      );
      const clerk = new Agent({
        name: "clerk",
        model: scriptedModel(world, "clerk", [say("Hello.")]),
        inputGuardrails: [
          {
            name: "judge",
            runInParallel: false,
            execute: async ({ input }) => {
              const { finalOutput } = await run(judge, input);
              return { outputInfo: {}, tripwireTriggered: finalOutput === "bad" };
            },
          },
        ],
      });
      const running = run(turn.agent(clerk), "Hello?", { session: turn.session });
      if (isBad) {
        await expect(running).rejects.toThrow(/guardrail/i);
        await turn.fail(new Error("bad"));
      } else await turn.complete(await running);
    }
    expect(world.log).toEqual(["judge 0", "clerk 0", "judge 0"]);
  });
});

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
    for (const given of [false, null, 1, "no", "Please not.", { approved: "yes" }, {}]) {
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

it("an agent without a call id in its tools, or of another kind, is rejected with what to do", async (test) => {
  const lab = await openLab(test);
  const turn = await durable(await lab.open(), { session: "s" });
  const wrapped = turn.agent(createClerk(new World()));
  const [look] = wrapped.tools as unknown as { invoke(context: unknown, input: string): Promise<unknown> }[];
  await expect(look?.invoke({}, "{}")).rejects.toThrow(/without a call id/);
});
