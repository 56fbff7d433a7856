// Everything that models and tools of the AI SDK return is recorded and replayed unchanged.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type AiState, durable, idempotencyKeyOf } from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import { codeOf, createGate, errorOf, KINDS, useLab, World } from "../run/lab.js";
import { call, type Content, scriptedModel, text } from "./models.js";
import {
  generateObject,
  generateText,
  MockModel,
  stepCountIs,
  streamText,
  tool,
  ToolLoopAgent,
  VERSION,
} from "./sdk.js";
import { type Call, dieIn, MODES, runLoop, serve, shopTools } from "./shop.js";

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const stateOf = async (sp: Savepoint, session = "s"): Promise<AiState> =>
  (await sp.session<AiState>(session).latest())?.state as AiState;

const bytes = new Uint8Array([137, 80, 78, 71]);
const file = (data: unknown): unknown => (VERSION === 7 ? { type: "data", data } : data);

/** Reasoning with a signature, texts and files with metadata, sources, a provider tool, and three parallel calls. */
const RICH: readonly (readonly Content[])[] = [
  [
    {
      type: "reasoning",
      text: "Let me think.",
      providerMetadata: { anthropic: { signature: "c2ln", redacted: null } },
    },
    text("Here you are.", { providerMetadata: { openai: { itemId: "msg_1", nested: { list: [1, 2.5, "🦊"] } } } }),
    { type: "file", mediaType: "image/png", data: file(bytes) },
    { type: "file", mediaType: "image/png", data: file("aGVsbG8=") },
    { type: "source", sourceType: "url", id: "s1", url: "https://example.com/", title: "Example" },
    call("p1", "web_search", { query: "x" }, { providerExecuted: true, dynamic: true }),
    { type: "tool-result", toolCallId: "p1", toolName: "web_search", result: { hits: [{ a: 1 }] }, dynamic: true },
    call("p2", "web_search", { query: "y" }, { providerExecuted: true, dynamic: true }),
    {
      type: "tool-result",
      toolCallId: "p2",
      toolName: "web_search",
      result: { no: "luck" },
      isError: true,
      dynamic: true,
    },
    call("l1", "look", { what: "a" }, { providerMetadata: { google: { thoughtSignature: "dGg=" } } }),
    call("c1", "charge", { amount: 1 }),
    call("c2", "charge", { amount: 2 }),
  ],
  [text(""), text("Done.", { providerMetadata: { openai: { itemId: "msg_2" } } })],
];

describe.each(KINDS)(`what AI SDK ${VERSION} says, on $name`, (kind) => {
  const lab = useLab(kind);

  it.each(MODES)("is the same live and replayed, part by part: %s", async (mode) => {
    const bare = await runLoop(mode, {
      model: scriptedModel(new World(), RICH),
      tools: shopTools(new World()),
      prompt: "Charge me.",
    } as never);
    const stepsOf = async ({ result }: { result: object }): Promise<unknown> => {
      const { steps } = result as { steps: Promise<{ content: unknown; sources: unknown; files: unknown }[]> };
      return plain((await steps).map(({ content, sources, files }) => ({ content, sources, files })));
    };
    const world = new World();
    const live = await serve(await lab.open(), world, { mode, script: RICH, session: "live" });
    await dieIn(lab, world, "model 1", { mode, script: RICH });
    const sp = await lab.open();
    // Also if complete() gets only the text: then the messages are built from the recorded parts.
    const run = await durable(sp, { session: "s" });
    const again = await runLoop(mode, {
      model: run.model(scriptedModel(world, RICH)),
      tools: run.tools(shopTools(world)),
      messages: run.messages("Charge me."),
    } as Call);
    await run.complete(again.text);
    for (const done of [live, again]) {
      expect(await stepsOf(done)).toEqual(await stepsOf(bare));
      expect(plain(done.messages)).toEqual(plain(bare.messages));
    }
    const said = [{ role: "user", content: "Charge me." }, ...(plain(bare.messages) as unknown[])];
    expect((await stateOf(sp, "live")).messages).toEqual(said);
    expect((await stateOf(sp)).messages).toEqual(said);
    expect([world.count("model 0"), world.count("charge 1"), world.count("look a")]).toEqual([2, 2, 2]);
  });

  it.each([
    ["generate", "stream"],
    ["stream", "generate"],
  ] as const)("is the same if a turn that began with %s resumes with %s", async (first, second) => {
    const bare = await runLoop(second, {
      model: scriptedModel(new World(), RICH),
      tools: shopTools(new World()),
      prompt: "Charge me.",
    } as never);
    const stepsOf = async ({ result }: { result: object }): Promise<unknown> => {
      const { steps } = result as {
        steps: Promise<Record<"content" | "finishReason" | "usage" | "warnings", unknown>[]>;
      };
      return plain((await steps).map(({ content, finishReason, usage }) => ({ content, finishReason, usage })));
    };
    const world = new World();
    await dieIn(lab, world, "model 1", { mode: first, script: RICH, turn: "t" });
    const sp = await lab.open();
    const done = await serve(sp, world, { mode: second, script: RICH, turn: "t" });
    expect(await stepsOf(done)).toEqual(await stepsOf(bare));
    expect(plain(done.messages)).toEqual(plain(bare.messages));
    expect([world.count("model 0"), world.count("charge 1"), world.count("look a")]).toEqual([1, 1, 1]);
    // A completed turn is replayed in either mode.
    const again = await serve(sp, world, { mode: first, script: RICH, turn: "t" });
    expect(plain(again.messages)).toEqual(plain(bare.messages));
    expect(world.count("model 1")).toBe(2);
  });

  it("is replayed as a stream with the original parts", async () => {
    const world = new World();
    const script = [[text("Hello, dear customer."), call("l1", "look", { what: "a" })], [text("Bye.")]];
    const pieces = async (sp: Savepoint, turn: string): Promise<string[]> => {
      const run = await durable(sp, { session: "s", turn });
      const result = streamText({
        model: run.model(scriptedModel(world, script)),
        tools: run.tools(shopTools(world)),
        messages: run.messages("Hi."),
        stopWhen: stepCountIs(3),
      });
      const said: string[] = [];
      for await (const piece of result.textStream) said.push(piece);
      await run.complete(result);
      return said;
    };
    const sp = await lab.open();
    const first = await pieces(sp, "one");
    expect(first).toEqual(["Hello, dear", " customer.", "By", "e."]);
    expect(await pieces(sp, "one")).toEqual(first);
    expect(world.log).toEqual(["model 0", "look a", "model 1"]);
  });

  it("keeps approval requests with their signatures over restarts and crashes", async () => {
    const world = new World();
    const script = [
      [call("c1", "charge", { amount: 1 }), call("c2", "charge", { amount: 2 })],
      [text("Done.")],
      [text("Fine.")],
    ];
    const go = async (sp: Savepoint, input: unknown): Promise<{ text: string; result: object }> => {
      const run = await durable(sp, { session: "s" });
      const { charge } = shopTools(world);
      const done = await runLoop("generate", {
        model: run.model(scriptedModel(world, script)),
        tools: run.tools({ charge: { ...charge, needsApproval: true } }, { charge: { onUnknown: "retry" } }),
        messages: run.messages(input as never),
        experimental_toolApprovalSecret: "a secret",
      } as never);
      await run.complete(done.result);
      return done;
    };
    await go(await lab.open(), "Charge me.");
    expect(world.log).toEqual(["model 0"]);
    lab.crash();
    const sp = await lab.open();
    const asked = (await stateOf(sp)).messages.at(-1) as { content: { type: string; approvalId: string }[] };
    const requests = asked.content.filter(({ type }) => type === "tool-approval-request");
    expect(requests).toMatchObject([
      { toolCallId: "c1", approvalId: expect.any(String), signature: expect.any(String) },
      { toolCallId: "c2", approvalId: expect.any(String), signature: expect.any(String) },
    ]);
    const content = requests.map(({ approvalId }, index) => ({
      type: "tool-approval-response",
      approvalId,
      approved: index === 0,
      ...(index === 1 && { reason: "too much" }),
    }));
    const reached = world.hangIn("charge 1");
    go(sp, [{ role: "tool", content }]).catch(() => {});
    await reached;
    await lab.idle();
    lab.crash();
    const done = await go(await lab.open(), []);
    expect([done.text, world.count("charge 1"), world.count("charge 2"), world.count("model 1")]).toEqual([
      "Done.",
      2,
      0,
      1,
    ]);
    const last = await lab.open();
    const { messages } = await stateOf(last);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool", "assistant"]);
    expect(JSON.stringify(messages[3])).toContain("execution-denied");
    expect((await go(last, "Thanks.")).text).toBe("Fine.");
  });

  it("continues after unanswered tool calls, which are recorded as not executed", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const script = [[call("c1", "confirm", {})], [text("As you like.")]];
    const go = async (input: unknown): Promise<string> => {
      const run = await durable(sp, { session: "s" });
      const { text: said, result } = await runLoop("generate", {
        model: run.model(scriptedModel(world, script)),
        tools: run.tools({ confirm: tool({ inputSchema: z.object({}) }) }),
        messages: run.messages(input as never),
      } as never);
      await run.complete(result);
      return said;
    };
    await go("Do it.");
    expect(await go("Never mind.")).toBe("As you like.");
    const { messages } = await stateOf(sp);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
    expect(messages[2]).toMatchObject({ content: [{ toolCallId: "c1", output: { type: "execution-denied" } }] });
  });

  it("is recorded for generateObject and for agents", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const schema = z.object({ sum: z.number() });
    for (const expected of [1, 1]) {
      const run = await durable(sp, { session: "object", turn: "one" });
      const model = run.model(scriptedModel(world, [[text('{"sum":3}')]]));
      const result = await generateObject({ model, schema, prompt: "Add." });
      expect(result.object).toEqual({ sum: 3 });
      expect(await run.complete(result)).toMatchObject({ output: { sum: 3 } });
      expect(world.count("model 0")).toBe(expected);
    }
    const loops = ["generate", "stream"] as const;
    for (const how of loops) {
      const run = await durable(sp, { session: how });
      const script = [[call("l1", "look", { what: how })], [text("There are 7.")]];
      const agent = new ToolLoopAgent({
        model: run.model(scriptedModel(world, script)),
        tools: run.tools(shopTools(world)),
      });
      const result = await agent[how]({ messages: run.messages("How many?") });
      expect(await result.text).toBe("There are 7.");
      expect(await run.complete(result)).toMatchObject({ output: "There are 7.", steps: 2 });
      expect((await stateOf(sp, how)).messages).toHaveLength(4);
    }
  });

  it("stays out of the conversation for aside calls, and models can be called in parallel", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await durable(sp, { session: "s" });
    const model = scriptedModel(world, [[text("Yes.")]]);
    const [answer, title] = await Promise.all([
      generateText({ model: run.model(model), messages: run.messages("Is it?") }),
      generateText({ model: run.model(model, { name: "title", aside: true }), prompt: "A title for: Is it?" }),
    ]);
    await run.complete(answer);
    expect(title.text).toBe("Yes.");
    expect((await stateOf(sp)).messages).toHaveLength(2);
  });

  it("can include several questions in one turn, each with the messages before it", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const ask = async (turn: string): Promise<unknown[]> => {
      const run = await durable(sp, { session: "s", turn });
      const model = run.model(scriptedModel(world, [[text("One.")], [text("Two.")]]));
      const first = await generateText({ model, messages: run.messages("First?") });
      const second = await generateText({ model, messages: run.messages("Second?") });
      await run.complete(second);
      return [first.text, second.text];
    };
    expect(await ask("one")).toEqual(["One.", "Two."]);
    expect(await ask("one")).toEqual(["One.", "Two."]);
    expect(world.log).toEqual(["model 0", "model 1"]);
    expect((await stateOf(sp)).messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
  });

  it("is kept for a prompt that bypasses messages(), and for a caller with a history of its own", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const model = scriptedModel(world, [[text("Hi.")], [text("Hi again.")]]);
    const said = async (prompt: object): Promise<string[]> => {
      const run = await durable(sp, { session: "s" });
      const { text: reply } = await generateText({ model: run.model(model), system: "Be kind.", ...prompt } as never);
      await run.complete(reply);
      return (await stateOf(sp)).messages.map(({ role }) => role);
    };
    expect(await said({ prompt: "Hello." })).toEqual(["user", "assistant"]);
    expect(await said({ prompt: "And now?" })).toEqual(["user", "assistant", "user", "assistant"]);
    const own = [
      { role: "user", content: "Own." },
      { role: "assistant", content: "History." },
      { role: "user", content: "Now?" },
    ];
    expect(await said({ messages: own })).toEqual(["user", "assistant", "user", "assistant"]);
  });
});

describe.each(KINDS)(`what tools of AI SDK ${VERSION} do, on $name`, (kind) => {
  const lab = useLab(kind);

  it("reaches the model as toModelOutput formats it, even if no further model call follows", async () => {
    const sp = await lab.open();
    const weigh = tool({
      inputSchema: z.object({}),
      execute: async () => ({ grams: 12, at: new Date(0) }),
      toModelOutput: () => ({ type: "text" as const, value: "12 grams" }),
    });
    const fails = tool({
      inputSchema: z.object({}),
      execute: async (): Promise<string> => Promise.reject(new Error("It is broken.")),
    });
    const script = [[call("w1", "weigh", {}), call("f1", "fails", {})]];
    const run = await durable(sp, { session: "s" });
    const { text: said } = await generateText({
      model: run.model(scriptedModel(new World(), script)),
      tools: run.tools({ weigh, fails }),
      messages: run.messages("Weigh it."),
      stopWhen: stepCountIs(1),
    });
    await run.complete(said);
    expect((await stateOf(sp)).messages.at(-1)).toEqual({
      role: "tool",
      content: [
        { type: "tool-result", toolCallId: "w1", toolName: "weigh", output: { type: "text", value: "12 grams" } },
        {
          type: "tool-result",
          toolCallId: "f1",
          toolName: "fails",
          output: { type: "error-text", value: "It is broken." },
        },
      ],
    });
  });

  it("has the same idempotency key in every attempt, and streams preliminary results live", async () => {
    const world = new World();
    const keys: (string | undefined)[] = [];
    const pack = tool({
      inputSchema: z.object({}),
      async *execute(_: object, options: object) {
        keys.push(idempotencyKeyOf(options));
        yield "half";
        await world.do("pack");
        yield "packed";
      },
    });
    const script = [[call("p1", "pack", {})], [text("Packed.")]];
    const go = async (sp: Savepoint, turn = "one"): Promise<unknown[]> => {
      const run = await durable(sp, { session: "s", turn });
      const result = streamText({
        model: run.model(scriptedModel(world, script)),
        tools: run.tools({ pack }, { pack: { onUnknown: "retry" } }),
        messages: run.messages("Pack it."),
        stopWhen: stepCountIs(2),
      });
      const told: unknown[] = [];
      for await (const part of result.fullStream) if (part.type === "tool-result") told.push(part.output);
      await run.complete(result);
      return told;
    };
    const reached = world.hangIn("pack");
    go(await lab.open()).catch(() => {});
    await reached;
    await lab.idle();
    lab.crash();
    expect(await go(await lab.open())).toEqual(["half", "packed", "packed"]);
    // Replayed, the result is there at once.
    expect(await go(await lab.open())).toEqual(["packed", "packed"]);
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), keys[0]]);
    expect(idempotencyKeyOf({ toolCallId: "x" })).toBeUndefined();
  });

  it("may include another durable session, but no model call of its own turn", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await durable(sp, { session: "s" });
    const model = scriptedModel(world, [[call("d1", "delegate", { to: "helper" })], [text("Done.")]]);
    const helper = scriptedModel(world, [[text("Helped.")]]);
    const delegate = tool({
      inputSchema: z.object({ to: z.string() }),
      execute: async ({ to }, { toolCallId }) => {
        await expect(generateText({ model: run.model(helper), prompt: "Help." })).rejects.toMatchObject({
          code: "INVALID_ARGUMENT",
        });
        const inner = await durable(sp, { session: `s/${toolCallId}`, agent: to, turn: toolCallId });
        const result = await generateText({ model: inner.model(helper), messages: inner.messages("Help.") });
        await inner.complete(result);
        return result.text;
      },
    });
    const result = await generateText({
      model: run.model(model),
      tools: run.tools({ delegate }),
      messages: run.messages("Go."),
      stopWhen: stepCountIs(3),
    });
    await run.complete(result);
    expect(JSON.stringify((await stateOf(sp)).messages)).toContain("Helped.");
    expect(await sp.sessions.load("s/d1")).toMatchObject({ status: "completed", agent: "helper" });
  });
});

describe.each(KINDS)(`what goes wrong with AI SDK ${VERSION}, on $name`, (kind) => {
  const lab = useLab(kind);

  it.each(MODES)(
    "a failed model call is retried by the SDK, and only the reply is recorded: %s",
    async (mode) => {
      const world = new World();
      let failures = 0;
      const overloaded = (): never => {
        failures++;
        throw Object.assign(new Error("overloaded"), {
          name: "AI_APICallError",
          isRetryable: true,
          responseHeaders: { "retry-after-ms": "5" },
          [Symbol.for("vercel.ai.error.AI_APICallError")]: true,
        });
      };
      const good = scriptedModel(world, [[text("Hi.")]]);
      const model = new MockModel({
        doGenerate: async (options: never) => (failures === 0 ? overloaded() : good.doGenerate(options)),
        doStream: async (options: never) => (failures === 0 ? overloaded() : good.doStream(options)),
      } as never);
      const go = async (sp: Savepoint): Promise<string> => {
        const run = await durable(sp, { session: "s", turn: "one" });
        const messages = run.messages("Hello.");
        const { text: said, result } = await runLoop(mode, {
          model: run.model(model),
          messages,
          maxRetries: 1,
        } as never);
        await run.complete(result);
        return said;
      };
      expect(await go(await lab.open())).toBe("Hi.");
      expect(await go(await lab.open())).toBe("Hi.");
      expect([failures, world.count("model 0")]).toEqual([1, 1]);
    },
    15_000,
  );

  it("a stream that fails is not recorded, and its tool calls are not executed", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const { convertArrayToReadableStream } = await import("./sdk.js");
    const parts = [
      { type: "stream-start", warnings: [] },
      call("c1", "charge", { amount: 1 }),
      { type: "error", error: new Error("cut off") },
    ];
    const broken = new MockModel({ doStream: async () => ({ stream: convertArrayToReadableStream(parts) }) } as never);
    const run = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    const loop = { tools: run.tools(shopTools(world)), messages: run.messages("Hello.") };
    await errorOf(runLoop("stream", { ...loop, model: run.model(broken) } as never));
    await run.fail("cut off");
    expect(world.log).toEqual([]);
    expect((await serve(sp, world, { turn: "one", mode: "stream", prompt: "Hello." })).text).toBe("Charged twice.");
    expect(world.count("charge 1")).toBe(1);
  });

  it("a tool call of a stream is not executed before the stream is recorded", async () => {
    const [sp, world, gate] = [await lab.open(), new World(), createGate()];
    const model = new MockModel({
      doStream: async () => ({
        stream: new ReadableStream({
          async start(controller) {
            controller.enqueue(call("c1", "charge", { amount: 1 }));
            await gate.promise;
            controller.close();
          },
        }),
      }),
    } as never);
    const run = await durable(sp, { session: "s" });
    const { stream } = await run.model(model).doStream({ prompt: [] });
    const { charge } = run.tools(shopTools(world));
    await stream.getReader().read();
    const charged = charge.execute?.({ amount: 1 }, { toolCallId: "c1", messages: [] } as never);
    await lab.idle();
    expect(world.log).toEqual([]);
    gate.open();
    expect(await charged).toMatchObject({ charged: 1 });
    expect((await sp.journal("s").all()).map(({ kind }) => kind)).toEqual(["llm", "tool"]);
  });

  it("an aborted stream cancels the model", async () => {
    const sp = await lab.open();
    let cancelled: unknown;
    const endless = new MockModel({
      doStream: async () => ({
        stream: new ReadableStream({
          start: (controller) => {
            controller.enqueue({ type: "stream-start", warnings: [] });
            controller.enqueue({ type: "text-start", id: "1" });
          },
          pull: async (controller) => {
            await nextTurn();
            controller.enqueue({ type: "text-delta", id: "1", delta: "and on " });
          },
          cancel: (reason) => void (cancelled = reason),
        }),
      }),
    } as never);
    const run = await durable(sp, { session: "s" });
    const stop = new AbortController();
    const result = streamText({ model: run.model(endless), messages: run.messages("Go."), abortSignal: stop.signal });
    for await (const part of result.textStream) if (part) stop.abort();
    await run.release();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(cancelled).toBeDefined();
  });

  it("a stream that is aborted before the model returns it is cancelled", async () => {
    const [sp, called, gate] = [await lab.open(), createGate(), createGate()];
    let cancelled: unknown;
    const late = new MockModel({
      doStream: async () => {
        called.open();
        await gate.promise;
        // A stream without parts, of a model that ignores the signal.
        return { stream: new ReadableStream({ cancel: (reason) => void (cancelled = reason) }) };
      },
    } as never);
    const run = await durable(sp, { session: "s" });
    const stop = new AbortController();
    const streaming = run.model(late).doStream({ prompt: [], abortSignal: stop.signal });
    await called.promise;
    stop.abort(new Error("not needed any more"));
    gate.open();
    const { stream } = await streaming;
    expect((await errorOf(stream.getReader().read())).message).toBe("not needed any more");
    expect(cancelled).toBe(stop.signal.reason);
    await run.release();
  });

  it("an error in verify ends the loop, and the turn can be resumed", async () => {
    const world = new World();
    await dieIn(lab, world, "charge 1");
    const sp = await lab.open();
    const down = { onUnknown: "verify", verify: () => Promise.reject(new Error("the bank is closed")) } as const;
    expect((await errorOf(serve(sp, world, { policy: down }))).message).toBe("the bank is closed");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    const open = { onUnknown: "verify", verify: () => ({ happened: true, result: { charged: 1 } }) } as const;
    expect((await serve(sp, world, { policy: open })).text).toBe("Charged twice.");
    expect([world.count("charge 1"), world.count("model 0")]).toEqual([1, 1]);
  });

  it("if two callers open a turn at once, one of them gets ALREADY_RUNNING", async () => {
    const sp = await lab.open();
    const both = await Promise.allSettled([durable(sp, { session: "s" }), durable(sp, { session: "s" })]);
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(both.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "ALREADY_RUNNING" } });
  });

  it("a failed turn resumes under the same name and keeps its messages", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    const broken = new MockModel({ doGenerate: async () => Promise.reject(new Error("no network")) } as never);
    const asked = generateText({ model: run.model(broken), messages: run.messages("Hello."), maxRetries: 0 });
    const error = await errorOf(asked);
    expect(await run.fail(error)).toMatchObject({ status: "failed", reason: "Error: no network" });
    expect((await stateOf(sp)).messages).toEqual([{ role: "user", content: "Hello." }]);
    const again = await serve(sp, world, { turn: "one", script: [[text("Hi.")]] });
    expect([again.text, (await stateOf(sp)).messages[0]]).toEqual(["Hi.", { role: "user", content: "Hello." }]);
  });

  it("the turn after a failed turn continues its conversation and executes no tool again", async () => {
    const [sp, world] = [await lab.open(), new World()];
    const run = await durable(sp, { session: "s", agent: "shop", turn: "one" });
    await generateText({
      model: run.model(scriptedModel(world, [[call("c1", "charge", { amount: 1 }), call("r1", "remote", {})]])),
      tools: run.tools({ ...shopTools(world), remote: tool({ inputSchema: z.object({}) }) }) as never,
      messages: run.messages("Charge me."),
    });
    await run.fail("nobody answers for remote");
    const script = [[], [text("You are charged.")]];
    const done = await serve(sp, world, { turn: "two", prompt: "Did it work?", script });
    expect([done.text, world.count("charge 1")]).toEqual(["You are charged.", 1]);
    const { messages, turn } = await stateOf(sp);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool", "user", "assistant"]);
    expect([turn, messages[4]]).toEqual([
      { from: 3, done: true },
      { role: "user", content: "Did it work?" },
    ]);
  });

  it("invalid arguments are rejected before anything is done", async () => {
    const sp = await lab.open();
    expect(await codeOf(durable(undefined as never, { session: "s" }))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(durable(sp, {} as never))).toBe("INVALID_ARGUMENT");
    await sp.session("foreign", { agent: "shop" }).save({ todo: [] }, { status: "completed" });
    expect(await codeOf(durable(sp, { session: "foreign" }))).toBe("INVALID_STATE");
    expect(await codeOf(durable(sp, { session: "foreign" }))).toBe("INVALID_STATE");
    const run = await durable(sp, { session: "s" });
    const tools = shopTools(new World());
    const wrong: (() => unknown)[] = [
      () => run.model("openai/gpt-5" as never),
      () => run.model({}),
      () => run.tools(undefined as never),
      () => run.tools(tools, { chrage: {} } as never),
      () => run.tools({ ...tools, remote: {} }, { remote: {} }),
      () => run.tools(tools, { charge: { onUnknown: "guess" as never } }),
      () => run.tools(tools, { charge: { onUnknown: "verify" } }),
      () => run.messages(7 as never),
      () => run.messages([{ role: "user", parts: [] }] as never),
    ];
    for (const each of wrong) expect(await codeOf((async () => each())())).toBe("INVALID_ARGUMENT");
  });
});
