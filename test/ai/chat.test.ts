// Chats with UI message streams of the AI SDK: the turn does not depend on its readers, and readers can come back at any time.
import { describe, expect, it, onTestFinished } from "vitest";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import type { UIMessage, UIMessageChunk } from "ai";
import { z } from "zod";
import {
  type AiState,
  durable,
  type DurableOptions,
  type DurableRun,
  resumeUIMessageStreamResponse,
  uiMessages,
} from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import {
  codeOf,
  createGate,
  errorOf,
  type Gate,
  KINDS,
  type Lab,
  openLab,
  until,
  untilStatus,
  useLab,
} from "../run/lab.js";
import { call, type Content, text } from "./models.js";
import {
  createUIMessageStream,
  DefaultChatTransport,
  MockModel,
  readUIMessageStream,
  stepCountIs,
  streamText,
  tool,
  VERSION,
} from "./sdk.js";

const USAGE = { inputTokens: { total: 3 }, outputTokens: { total: 2 } };

/** A model that streams a reply word by word, and waits for the test before each word. */
class Teller {
  calls = 0;
  readonly prompts: unknown[] = [];
  readonly #gates: Gate[] = [];

  constructor(readonly script: readonly (readonly Content[])[]) {}

  /** Lets it say all words up to this number, counted over all replies. */
  say(count: number): void {
    void this.#gate(count - 1);
    for (const gate of this.#gates.slice(0, count)) gate.open();
  }

  #gate(index: number): Promise<void> {
    while (this.#gates.length <= index) this.#gates.push(createGate());
    return (this.#gates[index] as Gate).promise;
  }

  #said = 0;

  readonly model = new MockModel({
    doStream: async ({ prompt }: { prompt: readonly { role: string }[] }) => {
      this.calls++;
      this.prompts.push(prompt);
      const since = prompt.map(({ role }) => role).lastIndexOf("user");
      const spoken = prompt.slice(since).filter(({ role }) => role === "assistant").length;
      const content = this.script[spoken] ?? [];
      const calls = content.some(({ type }) => type === "tool-call");
      const stream = new ReadableStream({
        start: async (controller) => {
          controller.enqueue({ type: "stream-start", warnings: [] });
          for (const [index, part] of content.entries()) {
            if (part.type !== "text") controller.enqueue(part);
            else {
              controller.enqueue({ type: "text-start", id: String(index) });
              for (const delta of String(part["text"]).split(/(?<= )/)) {
                await this.#gate(this.#said++);
                controller.enqueue({ type: "text-delta", id: String(index), delta });
              }
              controller.enqueue({ type: "text-end", id: String(index) });
            }
          }
          const finishReason = { unified: calls ? "tool-calls" : "stop", raw: undefined };
          controller.enqueue({ type: "finish", finishReason, usage: USAGE });
          controller.close();
        },
      });
      return { stream } as never;
    },
  } as never);
}

const REPLY = [[text("one two three four")]];
const ALL = "one two three four";

type Settings = Partial<Parameters<typeof streamText>[0]>;

/** Answers as a server does. */
async function answer(
  sp: Savepoint,
  teller: Teller,
  options: Partial<DurableOptions> = {},
  more: (run: DurableRun) => Settings = () => ({}),
): Promise<{ run: DurableRun; response: Response }> {
  const run = await durable(sp, { session: "s", turn: "m1", messages: "count", ...options });
  const result = streamText({
    model: run.model(teller.model),
    messages: run.messages(),
    maxRetries: 0,
    onError: () => {},
    stopWhen: stepCountIs(5),
    ...more(run),
  } as Parameters<typeof streamText>[0]);
  return { run, response: run.toUIMessageStreamResponse(result) };
}

/** The chunks of a response, read in the background. */
class Reading {
  readonly chunks: UIMessageChunk[] = [];
  readonly ended: Promise<this>;
  isDone = false;

  constructor({ body }: Response) {
    this.ended = this.#read(body as ReadableStream<Uint8Array>);
    this.ended.catch(() => {});
  }

  get text(): string {
    return this.chunks.map((chunk) => (chunk.type === "text-delta" ? chunk.delta : "")).join("");
  }

  async untilText(said: string): Promise<void> {
    await until(
      () => this.text.trim() === said,
      () => `the text ${JSON.stringify(said)}, it is ${JSON.stringify(this.chunks)}`,
    );
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<this> {
    let rest = "";
    for await (const part of body.pipeThrough(new TextDecoderStream())) {
      const events = (rest + part).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        if (event === "data: [DONE]") this.isDone = true;
        else this.chunks.push(JSON.parse(event.slice("data: ".length)) as UIMessageChunk);
      }
    }
    return this;
  }

  /** What the SDK shows. */
  async message(): Promise<UIMessage> {
    const chunks = (await this.ended).chunks;
    let last: UIMessage | undefined;
    for await (const message of readUIMessageStream({ stream: ReadableStream.from(chunks) as never })) last = message;
    return last as UIMessage;
  }
}

const textOf = ({ parts }: UIMessage): string => parts.map((part) => (part.type === "text" ? part.text : "")).join("");

describe.each(KINDS)(`chats with AI SDK ${VERSION} on $name`, (kind) => {
  const lab = useLab(kind);

  it("a turn that is killed before its model call has its input when it is resumed", async () => {
    const sp = await lab.open();
    const first = await durable(sp, { session: "s", turn: "m1", messages: [{ role: "user", content: "count" }] });
    expect(first.messages()).toEqual([{ role: "user", content: "count" }]);
    lab.crash();
    const next = await lab.open();
    expect((await next.session<AiState>("s").latest())?.state.messages).toEqual([{ role: "user", content: "count" }]);
    const teller = new Teller(REPLY);
    teller.say(4);
    const { response } = await answer(next, teller, { turn: undefined, messages: undefined } as never);
    expect(textOf(await new Reading(response).message())).toBe(ALL);
    const { status, state } = (await next.session<AiState>("s").latest()) ?? {};
    expect(status).toBe("completed");
    expect(state?.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  });

  it("the second turn has the whole conversation, and an abandoned turn leaves nothing", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(20);
    await new Reading((await answer(sp, teller)).response).ended;
    const abandoned = await durable(sp, { session: "s", turn: "m2", messages: "forget this" });
    await abandoned.release();
    const { run, response } = await answer(sp, teller, { turn: "m3", messages: "again", abandon: true });
    await new Reading(response).ended;
    await run.ended();
    const messages = (await sp.session<AiState>("s").latest())?.state.messages ?? [];
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
    expect(JSON.stringify(messages)).not.toContain("forget");
    expect(teller.prompts.at(-1)).toHaveLength(3);
    expect((await uiMessages(sp.session<AiState>("s"))).map(({ id }) => id)).toEqual([
      "m1",
      expect.stringMatching(/^reply-/),
      "m3",
      expect.stringMatching(/^reply-/),
    ]);
  });

  it("the turn completes without a reader, and whoever comes gets all of it", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const teller = new Teller(REPLY);
    const { run, response } = await answer(sp, teller);
    teller.say(2);
    await response.body?.cancel();
    const [here, elsewhere] = [
      new Reading(await resumeUIMessageStreamResponse(sp, "s")),
      new Reading(await resumeUIMessageStreamResponse(other, "s")),
    ];
    await Promise.all([here.untilText("one two"), elsewhere.untilText("one two")]);
    teller.say(4);
    await run.ended();
    expect((await other.sessions.load("s"))?.status).toBe("completed");
    for (const reading of [here, elsewhere]) {
      const message = await reading.message();
      expect([textOf(message), message.id]).toEqual([ALL, (await uiMessages(sp.session<AiState>("s"))).at(-1)?.id]);
      expect(reading.isDone).toBe(true);
      expect(reading.chunks.at(-1)?.type).toBe("finish");
    }
    expect(teller.calls).toBe(1);
    expect((await resumeUIMessageStreamResponse(sp, "s")).status).toBe(204);
  });

  it("a stream ends after its turn is completed", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(4);
    const reading = new Reading((await answer(sp, teller)).response);
    await until(() => reading.chunks.some(({ type }) => type === "finish"), "the last chunk");
    // The chunk itself is in the commit that completes the turn.
    expect((await sp.sessions.load("s"))?.status).toBe("completed");
    await reading.ended;
  });

  it("a turn that is cut off and resumed shows each part once", async () => {
    const sp = await lab.open();
    const first = new Teller(REPLY);
    first.say(2);
    const before = new Reading((await answer(sp, first)).response);
    await before.untilText("one two");
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    await live.untilText("one two");
    lab.crash();
    const late = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    const again = new Teller(REPLY);
    again.say(4);
    const { run } = await answer(await lab.open(), again, { turn: undefined, messages: undefined } as never);
    await run.ended();
    // Both attempts say the same, so the reader that has seen the first one need not notice.
    for (const reading of [live, late]) expect(textOf(await reading.message())).toBe(ALL);
    expect([first.calls, again.calls]).toEqual([1, 1]);
  });

  it("a reader of an attempt that was cut off is broken off if the next one says something else", async () => {
    const sp = await lab.open();
    const first = new Teller(REPLY);
    first.say(2);
    await answer(sp, first);
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    await live.untilText("one two");
    lab.crash();
    const again = new Teller([[text("uno due tre")]]);
    again.say(3);
    const { run } = await answer(await lab.open(), again, { turn: undefined, messages: undefined } as never);
    await run.ended();
    expect((await errorOf(live.ended)).code).toBe("STREAM_LOST");
    expect(live.text.trim()).toBe("one two");
    expect(live.isDone).toBe(false);
    expect(textOf((await uiMessages(sp.session<AiState>("s")))[1] as UIMessage)).toBe("uno due tre");
  });

  it("a reader of a turn that no process resumes is broken off after the patience", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(2);
    await answer(sp, teller);
    await untilStatus(sp, "running");
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s", { patience: 50 }));
    await live.untilText("one two");
    lab.crash();
    expect((await errorOf(live.ended)).code).toBe("STREAM_LOST");
    expect(live.isDone).toBe(false);
  });

  it("a cancel stops the turn, and its readers get the abort", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const teller = new Teller(REPLY);
    teller.say(2);
    const { run, response } = await answer(sp, teller);
    const readings = [new Reading(response), new Reading(await resumeUIMessageStreamResponse(other, "s"))];
    for (const reading of readings) await reading.untilText("one two");
    expect(await sp.cancel("s", "the user pressed stop")).toBe(true);
    for (const reading of readings) {
      await reading.ended;
      expect(reading.chunks.at(-1)).toMatchObject({ type: "abort", reason: "cancelled: the user pressed stop" });
      expect(reading.isDone).toBe(true);
    }
    await run.ended();
    expect((await sp.sessions.load("s"))?.status).toBe("halted");
    expect((await resumeUIMessageStreamResponse(sp, "s")).status).toBe(204);
  });

  it("a model that fails ends the turn as failed, and the reader gets the error; the same turn again resumes", async () => {
    const sp = await lab.open();
    const failing = new MockModel({
      doStream: async () => {
        throw new Error("secret details");
      },
    } as never);
    const { run, response } = await answer(
      sp,
      new Teller(REPLY),
      {},
      (opened) => ({ model: opened.model(failing) }) as never,
    );
    const reading = await new Reading(response).ended;
    await run.ended();
    expect(reading.chunks.at(-1)).toEqual({ type: "error", errorText: "An error occurred." });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "failed", reason: expect.stringContaining("secret") });
    const teller = new Teller(REPLY);
    teller.say(4);
    const again = await answer(sp, teller);
    expect(textOf(await new Reading(again.response).message())).toBe(ALL);
    // A completed turn is replayed.
    const replayed = await answer(sp, teller);
    expect(textOf(await new Reading(replayed.response).message())).toBe(ALL);
    expect(teller.calls).toBe(1);
  });

  it("a tool with an unknown outcome ends the stream, and the turn waits for a person", async () => {
    const script = [[text("I charge. "), call("c1", "charge", {})], [text("Done.")]];
    const tools = (execute: () => Promise<object>) => ({ charge: tool({ inputSchema: z.object({}), execute }) });
    const sp = await lab.open();
    const first = new Teller(script);
    first.say(9);
    const reached = createGate();
    const hang = async () => (reached.open(), new Promise<never>(() => {}));
    await answer(sp, first, {}, (run) => ({ tools: run.tools(tools(hang)) }) as never);
    await reached.promise;
    lab.crash();
    const next = await lab.open();
    const again = new Teller(script);
    again.say(9);
    const resumed = await answer(next, again, {}, (run) => ({ tools: run.tools(tools(async () => ({}))) }) as never);
    const reading = await new Reading(resumed.response).ended;
    await resumed.run.ended();
    expect((await next.sessions.load("s"))?.status).toBe("waiting");
    expect(reading.chunks.at(-1)?.type).toBe("error");
    expect((await resumeUIMessageStreamResponse(next, "s")).status).toBe(204);
    await next.answer("s", { happened: true, result: { charged: 1 } });
    const last = await answer(next, again, {}, (run) => ({ tools: run.tools(tools(async () => ({}))) }) as never);
    expect(textOf(await new Reading(last.response).message())).toBe("I charge. Done.");
    const [asked, reply] = await uiMessages(next.session<AiState>("s"));
    expect(asked).toEqual({ id: "m1", role: "user", parts: [{ type: "text", text: "count" }] });
    expect(reply?.parts).toEqual([
      { type: "step-start" },
      { type: "text", text: "I charge. ", state: "done" },
      { type: "tool-charge", toolCallId: "c1", state: "output-available", input: {}, output: { charged: 1 } },
      { type: "step-start" },
      { type: "text", text: "Done.", state: "done" },
    ]);
  });
});

describe(`chats with AI SDK ${VERSION}`, () => {
  it.each(["\u0000", "a\tb", "", "x".repeat(2000), "__proto__", "../../etc/passwd", "a%2Fb", "😀", "constructor"])(
    "the id %j of a chat that does not exist has no stream",
    async (id) => {
      const sp = await opened();
      expect((await resumeUIMessageStreamResponse(sp, id)).status).toBe(204);
    },
  );

  it.each(["__proto__", "../../etc/passwd", "a%2Fb?x=1#y", "😀", "constructor", "data: x"])(
    "the id %j is a chat like any other",
    async (session) => {
      const sp = await opened();
      const teller = new Teller(REPLY);
      teller.say(2);
      const { response } = await answer(sp, teller, { session, turn: session });
      const reading = new Reading(await resumeUIMessageStreamResponse(sp, session));
      await reading.untilText("one two");
      teller.say(4);
      const [message, same] = [await reading.message(), await new Reading(response).message()];
      expect(message).toEqual(same);
      expect((await uiMessages(sp.session<AiState>(session))).map(({ id }) => id)).toEqual([session, message.id]);
    },
  );

  it("the SDK's own transport reconnects over HTTP", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    const server = createServer((request, response) => {
      const respond = async (): Promise<Response> => {
        if (request.method !== "POST") return resumeUIMessageStreamResponse(sp, "s");
        const { messages } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as { messages: UIMessage[] };
        return (await answer(sp, teller, { turn: messages.at(-1)?.id as string })).response;
      };
      void respond().then(({ status, headers, body }) => {
        response.writeHead(status, Object.fromEntries(headers));
        if (body) pipeline(Readable.fromWeb(body as never), response, () => {});
        else response.end();
      });
    });
    const transport = new DefaultChatTransport({ api: `${await listen(server)}/api/chat` });
    const message: UIMessage = { id: "m1", role: "user", parts: [{ type: "text", text: "count" }] };
    const trigger = "submit-message" as const;
    const stream = await transport.sendMessages({
      chatId: "s",
      messageId: undefined,
      abortSignal: undefined,
      trigger,
      messages: [message],
    });
    teller.say(2);
    await stream.cancel();
    const back = await transport.reconnectToStream({ chatId: "s" });
    teller.say(4);
    let last: UIMessage | undefined;
    for await (const each of readUIMessageStream({ stream: back as never })) last = each;
    expect(textOf(last as UIMessage)).toBe(ALL);
    expect(await transport.reconnectToStream({ chatId: "s" })).toBeNull();
  });

  it("a slow reader makes neither the turn wait nor the memory grow: it reads what is stored", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const long = `${"word ".repeat(200)}`.repeat(50);
    const teller = new Teller([[{ type: "text", text: long.replaceAll(" ", "\u00a0") }]]);
    teller.say(1);
    const { run, response } = await answer(sp, teller);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await run.ended();
    let size = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
    }
    expect(size).toBeGreaterThan(long.length);
  });

  it("chunks of a stream of the user's own are recorded, with an id and data", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(4);
    const run = await durable(sp, { session: "s", turn: "m1", messages: "count" });
    const stream = createUIMessageStream({
      execute: ({ writer }) => {
        writer.write({ type: "start" });
        writer.write({ type: "data-note", data: { $: "x" } } as never);
        const result = streamText({ model: run.model(teller.model), messages: run.messages() });
        writer.merge(result.toUIMessageStream({ sendStart: false }) as never);
      },
    });
    const message = await new Reading(run.toUIMessageStreamResponse(stream)).message();
    expect([textOf(message), message.id]).toEqual([ALL, expect.stringMatching(/^reply-/)]);
    expect(message.parts.find(({ type }) => type === "data-note")).toEqual({ type: "data-note", data: { $: "x" } });
    await run.ended();
    expect((await sp.session<AiState>("s").latest())?.state.messages).toHaveLength(2);
  });

  it("invalid arguments are rejected before anything starts", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    expect(await codeOf(durable(sp, { session: "s", messages: [{ parts: [] }] as never }))).toBe("INVALID_ARGUMENT");
    expect(await sp.sessions.load("s")).toBeUndefined();
    const run = await durable(sp, { session: "s", messages: "hello" });
    expect(() => run.messages("again")).toThrow("was passed to durable()");
    expect(() => run.toUIMessageStreamResponse("text" as never)).toThrow("needs the result of streamText()");
    expect(await codeOf(uiMessages("s" as never))).toBe("INVALID_ARGUMENT");
    expect(await uiMessages(sp.session<AiState>("none"))).toEqual([]);
    const teller = new Teller(REPLY);
    const result = streamText({ model: run.model(teller.model), messages: run.messages() });
    run.toUIMessageStreamResponse(result);
    expect(() => run.toUIMessageStreamResponse(result)).toThrow("once in a turn");
    teller.say(4);
    await run.ended();
  });

  it("an approval and the reply after it are one message, with the id of the first turn", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller([[call("c1", "pay", {})], [text("Paid.")]]);
    teller.say(9);
    const pay = { pay: tool({ inputSchema: z.object({}), needsApproval: true, execute: async () => "paid" }) };
    const first = await answer(sp, teller, {}, (run) => ({ tools: run.tools(pay) }) as never);
    const shown = await new Reading(first.response).message();
    await first.run.ended();
    const stored = await uiMessages(sp.session<AiState>("s"));
    const { approval } = (stored[1]?.parts.at(-1) ?? {}) as { approval?: { id: string } };
    expect(stored[1]).toMatchObject({ id: shown.id, parts: [{ type: "step-start" }, { state: "approval-requested" }] });
    const response = { type: "tool-approval-response", approvalId: approval?.id, approved: true };
    const options = { turn: "m2", messages: [{ role: "tool", content: [response] }] as never };
    const second = await answer(sp, teller, options, (run) => ({ tools: run.tools(pay) }) as never);
    await new Reading(second.response).ended;
    await second.run.ended();
    const messages = await uiMessages(sp.session<AiState>("s"));
    expect(messages.map(({ id }) => id)).toEqual(["m1", shown.id]);
    expect(messages[1]?.parts).toMatchObject([
      { type: "step-start" },
      { type: "tool-pay", state: "output-available", output: "paid", approval: { approved: true } },
      { type: "step-start" },
      { type: "text", text: "Paid." },
    ]);
  });

  async function opened(): Promise<Savepoint> {
    let lab: Lab | undefined;
    lab = await openLab({ onTestFinished } as never);
    return lab.open();
  }
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void (server.closeAllConnections(), server.close()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
