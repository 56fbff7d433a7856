// The chats of a server: durable turns of the AI SDK, whose replies are recorded and streamed to any number of clients. All servers
// in this folder use it.
//
// A reply belongs to the chat and not to the request that asked for it: if the client disconnects, the reply continues, and
// the client can follow it again, on any server. If the server is killed, the next one resumes the reply from its recorded parts.
import { convertToModelMessages, stepCountIs, streamText } from "ai";
import { isSavepointError, Savepoint } from "savepoint";
import { durable, resumeUIMessageStreamResponse, uiMessages } from "savepoint/ai";
import { model } from "./model.mjs";
import { policies, tools } from "./tools.mjs";

/** @import { UIMessage } from "ai" */
/** @import { Session } from "savepoint" */
/** @import { AiState } from "savepoint/ai" */

const AGENT = "support";

export class Chats {
  #sp;
  #sweep;

  /** @param {Savepoint} sp */
  constructor(sp) {
    this.#sp = sp;
    // Resumes replies of a server that was killed: at the start, and later those of other servers on the same store.
    this.#resumeInterrupted();
    this.#sweep = setInterval(() => this.#resumeInterrupted(), 2000);
    this.#sweep.unref();
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
    if (typeof id !== "string" || id === "" || !message?.id || message.role === "system") {
      const error = "Expected { id, messages }, of which the last message is from the user and has an id.";
      return Response.json({ error }, { status: 400 });
    }
    try {
      return await this.#reply(id, message);
    } catch (error) {
      if (!isSavepointError(error, "ALREADY_RUNNING") && !isSavepointError(error, "UNFINISHED_TURN")) throw error;
      const messages = await this.#messages(id);
      const isSame = messages.at(-1)?.id === message.id && isSavepointError(error, "ALREADY_RUNNING");
      return isSame ? this.follow(id) : this.#refuse(id, messages);
    }
  }

  /** GET /api/chat/:id/stream: follows the reply in progress, from its first part. 204 if there is none. @param {string} id */
  async follow(id) {
    return resumeUIMessageStreamResponse(this.#sp, id);
  }

  /** GET /api/chat/:id: the status of a chat, its questions, and its messages for useChat(). @param {string} id */
  async show(id) {
    const info = await this.#sp.sessions.load(id);
    if (!info) return Response.json({ error: `There is no chat ${JSON.stringify(id)}.` }, { status: 404 });
    const { status, reason, questions } = info;
    return Response.json({ id, status, reason, questions, messages: await this.#messages(id) });
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
      return await this.#reply(id);
    } catch (error) {
      if (isSavepointError(error)) return Response.json({ error: error.message, code: error.code }, { status: 409 });
      throw error;
    }
  }

  /** POST /api/chat/:id/stop: stops the reply in progress, on any server. @param {string} id */
  async stop(id) {
    return Response.json({ stopped: await this.#sp.cancel(id, "the user has stopped it") });
  }

  /**
   * Starts the reply to a message, or resumes the unfinished one.
   *
   * @param {string} id
   * @param {UIMessage} [message]
   */
  async #reply(id, message) {
    const input = message && { turn: message.id, messages: await convertToModelMessages([message]) };
    const run = await durable(this.#sp, { session: id, agent: AGENT, ...input });
    const result = streamText({
      model: run.model(model),
      tools: run.tools(tools, policies),
      messages: run.messages(),
      stopWhen: stepCountIs(10),
    });
    return run.toUIMessageStreamResponse(result, { onError: describeError });
  }

  /** @param {string} id @param {UIMessage[]} messages the stored messages */
  async #refuse(id, messages) {
    const { status, questions } = (await this.#sp.sessions.load(id)) ?? {};
    const path = `/api/chat/${encodeURIComponent(id)}`;
    const body = {
      error: `Chat ${JSON.stringify(id)} has not finished its last reply.`,
      status,
      messageId: messages.filter(({ role }) => role === "user").at(-1)?.id,
      ...(status === "waiting" ? { questions, answer: `${path}/answer` } : { follow: `${path}/stream` }),
    };
    return Response.json(body, { status: 409, headers: { "retry-after": "1" } });
  }

  /** The messages of a chat. The reply in progress is not among them. @param {string} id */
  async #messages(id) {
    /** @type {Session<AiState>} */
    const session = this.#sp.session(id);
    return uiMessages(session);
  }

  #resumeInterrupted() {
    const report = (/** @type {unknown} */ error) => {
      // Another server has claimed the chat, or the user has sent the message again.
      if (!isSavepointError(error, "ALREADY_RUNNING")) console.error("Cannot resume an interrupted chat:", error);
    };
    const resume = async () => {
      for await (const { id } of this.#sp.sessions.list({ agent: AGENT, status: "interrupted" })) {
        await this.#reply(id).catch(report);
      }
    };
    resume().catch(report);
  }
}

/** What the client gets to read about an error. @param {unknown} error */
function describeError(error) {
  return isSavepointError(error, "OUTCOME_UNKNOWN")
    ? "The reply waits for a person. GET /api/chat/:id has the question."
    : "The reply was interrupted. Send the message again to resume it.";
}
