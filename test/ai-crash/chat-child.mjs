// A server of chats over HTTP, as on docs/chat.md, that may be killed wherever a reply passes. Jobs come from standard input.
import { writeSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pipeline, Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { isSavepointError, Savepoint } from "savepoint";
import { durable, resumeUIMessageStreamResponse, uiMessages } from "savepoint/ai";
import { z } from "zod";
import { World } from "../run-crash/world.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";

/** @import { Death } from "../run-crash/world.mjs" */

/**
 * @typedef {object} ChatVariant
 * @property {6 | 7} sdk
 * @property {"same" | "other"} words whether a model that is called again says the same words
 */

/** What the model says: words, then a call, then words. */
const REPLIES = [
  { words: 5, calls: true },
  { words: 8, calls: false },
];

/** Where stores are killed: before a commit, and when it is durable but not acknowledged. */
const WRITES = new Set(["commit", "durable"]);

class ChatServer {
  /** @param {string} folder @param {ChatVariant} variant @param {Death} [death] */
  static async start(folder, variant, death) {
    const world = new World(folder, death);
    const probe = (/** @type {string} */ point) => void (WRITES.has(point) && world.pass(`store ${point}`));
    const sp = await Savepoint.open(
      world.url,
      withTestHooks({ probe }, { durability: /** @type {const} */ ("process") }),
    );
    const server = new ChatServer(sp, world, variant);
    await new Promise((resolve) => server.http.listen(0, "127.0.0.1", () => resolve(undefined)));
    return server;
  }

  /** @param {Savepoint} sp @param {World} world @param {ChatVariant} variant */
  constructor(sp, world, { sdk, words }) {
    this.sp = sp;
    this.world = world;
    this.sdk = sdk;
    this.mark = words === "same" ? "x" : String(process.pid);
    this.http = createServer((request, response) => {
      this.#route(request).then(
        ({ status, headers, body }) => {
          response.writeHead(status, Object.fromEntries(headers));
          if (body) pipeline(Readable.fromWeb(/** @type {any} */ (body)), response, () => {});
          else response.end();
        },
        (error) => response.writeHead(500).end(String(error)),
      );
    });
  }

  get url() {
    const address = /** @type {import("node:net").AddressInfo} */ (this.http.address());
    return `http://127.0.0.1:${address.port}/api/chat`;
  }

  /** @param {import("node:http").IncomingMessage} request */
  async #route(request) {
    if (request.url?.endsWith("/stream")) return resumeUIMessageStreamResponse(this.sp, "s", { patience: "20s" });
    if (request.method === "GET") {
      const status = (await this.sp.sessions.load("s"))?.status ?? "none";
      return Response.json({ status, messages: await uiMessages(this.sp.session("s")) });
    }
    const { messages } = JSON.parse(Buffer.concat(await request.toArray()).toString());
    return this.answer(messages.at(-1));
  }

  /** @param {import("ai").UIMessage} [message] */
  async answer(message) {
    const { convertToModelMessages, stepCountIs, streamText, tool } = await this.#load("ai");
    const input = message && { turn: message.id, messages: await convertToModelMessages([message]) };
    const run = await durable(this.sp, { session: "s", ...input });
    const charge = tool({
      inputSchema: z.object({ euros: z.number() }),
      execute: async () => {
        this.world.pass("tool");
        this.world.note("charged");
        this.world.pass("tool");
        return "charged";
      },
    });
    const result = streamText({
      model: run.model(await this.#createModel()),
      tools: run.tools({ charge }, { charge: { onUnknown: "retry" } }),
      messages: run.messages(),
      stopWhen: stepCountIs(5),
      maxRetries: 0,
    });
    return run.toUIMessageStreamResponse(result);
  }

  /** Resumes the reply that a killed server has left. Returns whether there was one. */
  async resume() {
    let count = 0;
    for await (const _ of this.sp.sessions.list({ status: "interrupted" })) {
      await this.answer();
      count++;
    }
    return count > 0;
  }

  async close() {
    this.http.closeAllConnections();
    this.http.close();
    await this.sp.close();
    return [...this.world.passed];
  }

  /** @param {"ai" | "ai/test"} name @returns {Promise<any>} */
  async #load(name) {
    return import(this.sdk === 7 ? name.replace("ai", "ai7") : name);
  }

  async #createModel() {
    const test = await this.#load("ai/test");
    const Model = this.sdk === 7 ? test.MockLanguageModelV4 : test.MockLanguageModelV3;
    return new Model({
      doStream: async (/** @type {{ prompt: { role: string }[] }} */ { prompt }) => {
        const call = prompt.filter(({ role }) => role === "assistant").length;
        this.world.note(`asked ${call}`);
        return { stream: ReadableStream.from(this.#speak(call)) };
      },
    });
  }

  /** @param {number} call */
  async *#speak(call) {
    const { words, calls } = REPLIES[call] ?? { words: 0, calls: false };
    yield { type: "stream-start", warnings: [] };
    yield { type: "text-start", id: "t" };
    for (let n = 0; n < words; n++) {
      // So long that a part of the words is written before the last one is said.
      await pause(15);
      this.world.pass("part");
      yield { type: "text-delta", id: "t", delta: `${call}.${n}.${this.mark} ` };
    }
    yield { type: "text-end", id: "t" };
    if (calls) yield { type: "tool-call", toolCallId: "c1", toolName: "charge", input: '{"euros":12}' };
    this.world.pass("part");
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    yield { type: "finish", finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage };
    this.world.pass("part");
  }
}

/** @type {ChatServer | undefined} */
let server;
const jobs = {
  serve: async (/** @type {[string, ChatVariant, Death?]} */ ...args) => {
    server = await ChatServer.start(...args);
    return server.url;
  },
  resume: async () => {
    for (;;) {
      try {
        return await server?.resume();
      } catch (error) {
        if (!isSavepointError(error, "ALREADY_RUNNING")) throw error;
      }
    }
  },
  close: async () => server?.close(),
};

for await (const line of createInterface(process.stdin)) {
  const [job, ...args] = /** @type {[keyof typeof jobs, ...never[]]} */ (JSON.parse(line));
  try {
    writeSync(1, `${JSON.stringify({ done: (await /** @type {Function} */ (jobs[job])(...args)) ?? null })}\n`);
  } catch (error) {
    writeSync(1, `${JSON.stringify({ error: error instanceof Error ? error.stack : String(error) })}\n`);
  }
}
