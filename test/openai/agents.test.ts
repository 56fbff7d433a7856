// Agents in a durable turn: everything that an agent can have is kept, and what it does is recorded.
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
import { assistantMessage, ScriptedModel } from "@openai/agents-core/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { durable, type OpenAiState, type ToolPolicies } from "../../src/integrations/openai/index.js";
import { openLab, World } from "../run/lab.js";
import { call, createClerk, dieIn, type Output, say, scriptedModel, serve, shopTools } from "./crew.js";

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
    const clerk = (): Agent =>
      new Agent({
        name: "clerk",
        model: scriptedModel(world, "clerk", [call("m1", "stock"), say("7 left.")]),
        mcpServers: [server()],
      });
    const boss = (): Agent =>
      new Agent({
        name: "boss",
        model: scriptedModel(world, "boss", [call("b1", "ask", { input: "?" }), say("7 left.")]),
        tools: [clerk().asTool({ toolName: "ask", toolDescription: "Asks." })],
      });
    const policies: ToolPolicies = { stock: { onUnknown: "retry" } };
    for (const [count, agent] of [clerk, boss].entries()) {
      const options = { turn: `${count}`, policies };
      await dieIn(lab, world, "clerk 1", { ...options, agent: agent() });
      const { end } = await serve(await lab.open(), world, { ...options, agent: agent() });
      expect(end.output).toBe("7 left.");
      expect(world.count("stock")).toBe(count + 1);
    }
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

  it("have guardrails, whose agents can be recorded outside of the conversation", async (test) => {
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

it("an agent without a call id in its tools, or of another kind, is rejected with what to do", async (test) => {
  const lab = await openLab(test);
  const turn = await durable(await lab.open(), { session: "s" });
  const wrapped = turn.agent(createClerk(new World()));
  const [look] = wrapped.tools as unknown as { invoke(context: unknown, input: string): Promise<unknown> }[];
  await expect(look?.invoke({}, "{}")).rejects.toThrow(/without a call id/);
});
