/** Chats for tests: a model that waits for the test before each word, a server's answer, and readers of it. */
import { onTestFinished } from "vitest";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline, Readable } from "node:stream";
import type { UIMessage, UIMessageChunk } from "ai";
import {
  type AiState,
  durable,
  type DurableOptions,
  type DurableRun,
  resumeUIMessageStreamResponse,
  uiMessages,
} from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import { createGate, type Gate, until } from "../run/lab.js";
import { type Content, text } from "./models.js";
import { MockModel, readUIMessageStream, stepCountIs, streamText } from "./sdk.js";

const USAGE = { inputTokens: { total: 3 }, outputTokens: { total: 2 } };

/** A model that streams a reply word by word, and waits for the test before each word. */
export class Teller {
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

export const REPLY = [[text("one two three four")]];
export const ALL = "one two three four";

type Settings = Partial<Parameters<typeof streamText>[0]>;

/** Answers as a server does. */
export async function answer(
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
export class Reading {
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

export const textOf = ({ parts }: UIMessage): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

/** Serves `POST /api/chat`, by a function, `GET /api/chat/:id/stream`, and `GET /api/chat`: the chat "s". Returns the URL of the first. */
export async function serveChats(
  sp: Savepoint,
  post: (body: { id: string; messages: UIMessage[] }) => Promise<Response>,
): Promise<string> {
  const server = createServer((request, response) => {
    const respond = async (): Promise<Response> => {
      const [, id = ""] = /^\/api\/chat\/([^/]+)\/stream$/.exec(request.url ?? "") ?? [];
      if (request.method === "GET" && id === "")
        return Response.json({ messages: await uiMessages(sp.session<AiState>("s")) });
      if (request.method === "GET") return resumeUIMessageStreamResponse(sp, decodeURIComponent(id));
      return post(JSON.parse(Buffer.concat(await request.toArray()).toString()) as never);
    };
    respond().then(
      ({ status, headers, body }) => {
        response.writeHead(status, Object.fromEntries(headers));
        if (body) pipeline(Readable.fromWeb(body as never), response, () => {});
        else response.end();
      },
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void (server.closeAllConnections(), server.close()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/chat`;
}
