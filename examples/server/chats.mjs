// The chats of a server: durable turns of the AI SDK, streamed to any number of clients. Both servers in this folder use it.
//
// A reply belongs to the chat and not to the request that asked for it: if the client disconnects, the reply continues, and
// the client can follow it again. If the server is killed, the next one resumes the reply from its recorded parts.
import { EventEmitter, once } from "node:events";
import { convertToModelMessages, createUIMessageStreamResponse, stepCountIs, streamText } from "ai";
import { isSavepointError, Savepoint } from "savepoint";
import { durable } from "savepoint/ai";
import { model } from "./model.mjs";
import { policies, tools } from "./tools.mjs";

/** @import { ModelMessage, UIMessage, UIMessageChunk } from "ai" */
/** @import { AiState, DurableRun } from "savepoint/ai" */

const AGENT = "support";

export class Chats {
  #sp;
  /** The replies that this process is streaming, by chat. @type {Map<string, Promise<Reply>>} */
  #replies = new Map();
  #sweep;

  /** @param {Savepoint} sp */
  constructor(sp) {
    this.#sp = sp;
    // Resumes replies of a server that was killed: at the start, and later those of other servers on the same store.
    this.#resumeInterrupted();
    this.#sweep = setInterval(() => this.#resumeInterrupted(), 5000);
  }

  /** Opens the store, by default the nearest `.savepoint` folder. */
  static async open() {
    return new Chats(await Savepoint.open());
  }

  /** On SIGTERM or Ctrl-C: stops the server, and releases the replies in progress, so that the next server resumes them. */
  closeOnSignal(/** @type {{ close(): unknown }} */ server) {
    const close = async () => {
      clearInterval(this.#sweep);
      server.close();
      await this.#sp.close();
      process.exit();
    };
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void close());
  }

  /**
   * POST /api/chat: streams the reply to the last message. The same message again follows the reply, or replays it. Another
   * message while a reply is unfinished gets 409, with what the chat is doing and where to follow it.
   *
   * In your server, check here that the chat belongs to the user.
   *
   * @param {{ id?: unknown; messages?: UIMessage[] }} body what useChat() sends
   */
  async post({ id, messages }) {
    const message = messages?.at(-1);
    if (typeof id !== "string" || id === "" || !message?.id || message.role !== "user") {
      return Response.json(
        { error: "Expected { id, messages }, the last message with an id and of the user." },
        { status: 400 },
      );
    }
    try {
      const reply = await (this.#replies.get(id) ?? this.#start(id, message));
      return reply.messageId === message.id ? reply.toResponse() : await this.#refuse(id, reply);
    } catch (error) {
      if (isSavepointError(error, "ALREADY_RUNNING") || isSavepointError(error, "UNFINISHED_TURN"))
        return this.#refuse(id);
      throw error;
    }
  }

  /** GET /api/chat/:id/stream: follows the reply in progress, from its first part. 204 if there is none. @param {string} id */
  async follow(id) {
    const reply = await this.#replies.get(id);
    return reply ? reply.toResponse() : new Response(null, { status: 204 });
  }

  /** GET /api/chat/:id: the status of a chat, its questions, and its messages for useChat(). @param {string} id */
  async show(id) {
    const info = await this.#sp.sessions.load(id);
    if (!info) return Response.json({ error: `There is no chat ${JSON.stringify(id)}.` }, { status: 404 });
    /** @type {import("savepoint").Session<AiState>} */
    const session = this.#sp.session(id);
    const messages = (await session.latest())?.state.messages ?? [];
    const { status, reason, questions } = info;
    return Response.json({ id, status, reason, questions, messages: messages.flatMap(toUIMessage) });
  }

  /**
   * POST /api/chat/:id/answer: answers the question about an interrupted tool call, and streams the rest of the reply.
   *
   * @param {string} id
   * @param {unknown} answer `{ happened: true, result }` or `{ happened: false }`
   */
  async answer(id, answer) {
    try {
      await this.#sp.answer(id, answer);
    } catch (error) {
      if (isSavepointError(error)) return Response.json({ error: error.message, code: error.code }, { status: 409 });
      throw error;
    }
    const reply = await (this.#replies.get(id) ?? this.#start(id));
    return reply.toResponse();
  }

  /** @param {string} id @param {Reply} [reply] the reply in progress, if this process streams it */
  async #refuse(id, reply) {
    const { status, questions } = (await this.#sp.sessions.load(id)) ?? {};
    const path = `/api/chat/${encodeURIComponent(id)}`;
    const body = {
      error: `Chat ${JSON.stringify(id)} has not finished its last reply.`,
      status,
      ...(reply && { messageId: reply.messageId, follow: `${path}/stream` }),
      ...(status === "waiting" && { questions, answer: `${path}/answer` }),
    };
    return Response.json(body, { status: 409, headers: { "retry-after": "1" } });
  }

  #resumeInterrupted() {
    const report = (/** @type {unknown} */ error) => console.error("Cannot resume an interrupted chat:", error);
    const resume = async () => {
      for await (const { id } of this.#sp.sessions.list({ agent: AGENT, status: "interrupted" })) {
        if (!this.#replies.has(id)) await this.#start(id).catch(report);
      }
    };
    resume().catch(report);
  }

  /**
   * Starts the reply to a message, or resumes the unfinished one.
   *
   * @param {string} id
   * @param {UIMessage} [message]
   */
  #start(id, message) {
    const starting = this.#open(id, message);
    this.#replies.set(id, starting);
    starting.catch(() => this.#replies.delete(id));
    return starting;
  }

  /** @param {string} id @param {UIMessage} [message] */
  async #open(id, message) {
    const input = message && (await toModelMessages(message));
    const run = await durable(this.#sp, { session: id, agent: AGENT, ...(message && { turn: message.id }) });
    const messages = run.messages(input);
    const asked = messages.filter(({ role }) => role === "user").at(-1);
    const reply = new Reply(asked?.providerOptions?.["chat"]?.["messageId"]);
    this.#stream(run, messages, reply).catch((error) => console.error(`Chat ${JSON.stringify(id)} has failed:`, error));
    return reply;
  }

  /** Runs the SDK's loop to its end, whether a client reads the reply or not. @param {DurableRun} run @param {ModelMessage[]} messages @param {Reply} reply */
  async #stream(run, messages, reply) {
    /** @type {unknown} */
    let failure;
    /** @type {UIMessageChunk | undefined} */
    let last;
    try {
      const result = streamText({
        model: run.model(model),
        tools: run.tools(tools, policies),
        messages,
        stopWhen: stepCountIs(10),
        onError: ({ error }) => void (failure ??= error),
      });
      for await (const part of result.toUIMessageStream({ onError: describeError })) {
        // The client gets the end of the reply when the reply is saved, so that it can send the next message at once.
        if (part.type === "finish") last = part;
        else reply.add(part);
      }
      if (failure === undefined) await run.complete(result);
      else if (isReleased(failure)) await run.release();
      else await run.fail(failure); // the same message again resumes the reply; another one continues without it
    } finally {
      this.#replies.delete(run.session);
      if (last) reply.add(last);
      reply.end();
    }
  }
}

/** A reply in progress: its parts so far, for any number of readers, who may come at any time. */
class Reply extends EventEmitter {
  /** @type {UIMessageChunk[]} */
  #parts = [];
  #hasEnded = false;

  /** @param {unknown} messageId the message that it answers */
  constructor(messageId) {
    super();
    this.setMaxListeners(0);
    this.messageId = typeof messageId === "string" ? messageId : undefined;
  }

  /** @param {UIMessageChunk} part */
  add(part) {
    this.#parts.push(part);
    this.emit("change");
  }

  end() {
    this.#hasEnded = true;
    this.emit("change");
  }

  async *#read() {
    for (let next = 0; ; next++) {
      while (next === this.#parts.length && !this.#hasEnded) await once(this, "change");
      const part = this.#parts[next];
      if (!part) return;
      yield part;
    }
  }

  toResponse() {
    return createUIMessageStreamResponse({ stream: ReadableStream.from(this.#read()) });
  }
}

/** A message of the client with its id, which is stored with it. @param {UIMessage} message @returns {Promise<ModelMessage[]>} */
async function toModelMessages(message) {
  const messages = await convertToModelMessages([message]);
  return messages.map((each) => ({ ...each, providerOptions: { chat: { messageId: message.id } } }));
}

/** The texts of a stored message, for the client. @param {AiState["messages"][number]} message @param {number} index @returns {UIMessage[]} */
function toUIMessage({ role, content, ...rest }, index) {
  if (role !== "user" && role !== "assistant") return [];
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const texts = parts.flatMap((part) =>
    part.type === "text" && "text" in part ? [{ type: /** @type {const} */ ("text"), text: String(part.text) }] : [],
  );
  const id = rest.providerOptions?.["chat"]?.["messageId"];
  return texts.length === 0 ? [] : [{ id: typeof id === "string" ? id : `message-${index}`, role, parts: texts }];
}

/** Whether this process does not run the reply any more: it waits for an answer, or the server is closing. @param {unknown} error */
function isReleased(error) {
  return isSavepointError(error) && ["OUTCOME_UNKNOWN", "RUN_ENDED", "LEASE_LOST", "CLOSED"].includes(error.code);
}

/** What the client gets to read about an error. @param {unknown} error */
function describeError(error) {
  return isSavepointError(error, "OUTCOME_UNKNOWN")
    ? "The reply waits for a person. GET /api/chat/:id has the question."
    : "The reply was interrupted. Send the message again to resume it.";
}
