/**
 * The conversation of a session as the SDK's own messages.
 *
 * It is put together from the model calls: a prompt contains the user and tool messages since the previous call, and a reply
 * is the assistant's message. If `complete()` gets the SDK's result, the messages in it replace those of the loop.
 */
import { SavepointError } from "../../index.js";
import { keepAnswers } from "./answers.js";
import { appendInput, cleanMessage, findUnansweredCalls, partsOf, replyToMessage } from "./messages.js";
import { type AiState, isObject, type ModelMessage, type PromptMessage, type SdkPart } from "./sdk.js";

/** The output of a tool, in the form in which a model gets it. */
interface ToolOutput {
  readonly toolName: string;
  readonly output: () => unknown;
}

/** The messages of a session while a turn runs. */
export class Transcript {
  /** The messages before this turn. */
  readonly #history: readonly ModelMessage[];
  #messages: ModelMessage[];
  /** Where the messages of this turn begin. */
  readonly #from: number;
  /** Whether `#messages` contains the input of this turn. It does if the state was forked in the middle of a turn. */
  #hasInput: boolean;
  /** Whether {@link start} got the input of the next model call. If so, user messages in the prompt of that call are not new. */
  #isInputGiven = false;
  /** Where the messages of the SDK's loop begin. */
  #loopFrom: number | undefined;
  /** How often the SDK's loop was called. */
  #calls = 0;
  #replies = 0;
  /** The list that was last searched for tool calls without a result, the number of messages that were searched, and the calls that were found. */
  #searched: { readonly messages: readonly ModelMessage[]; count: number; readonly open: Set<string> };
  /** Outputs of the tools that the last reply has called, by the id of the call. */
  readonly #outputs = new Map<string, ToolOutput>();

  /** See {@link AiState.ids}. */
  readonly #ids: Readonly<Record<string, string>>;
  /** The id of the message that the turn adds; `undefined` if it is not streamed to a user interface. */
  replyId: string | undefined;

  constructor(session: string, state: unknown) {
    const { messages, turn, ids = {} } = parseState(session, state);
    this.#ids = ids;
    this.#history = messages;
    this.#messages = [...messages];
    this.#searched = { messages: this.#messages, count: 0, open: new Set() };
    this.#hasInput = !turn.done;
    this.#from = turn.done ? messages.length : turn.from;
  }

  /**
   * The id of the message that the reply of this turn continues: the user has answered an approval, and has said nothing since.
   * `undefined` if the reply is a message of its own.
   */
  get continuedId(): string | undefined {
    const at = findContinuedReply(this.#messages, this.#from);
    return at === undefined ? undefined : this.#ids[at];
  }

  /** Adds the input of the turn. Returns the messages to call the SDK with. */
  start(input: readonly ModelMessage[]): ModelMessage[] {
    if (!this.#hasInput) this.#messages = appendInput(this.#history, input);
    else if (!this.#isInputGiven && this.#replies > 0) this.#messages = appendInput(this.#messages, input);
    this.#hasInput = this.#isInputGiven = true;
    return [...this.#messages];
  }

  /** Adds what is new in the prompt of a model call. Returns whether a step of the loop ends with it. */
  addPrompt(prompt: readonly PromptMessage[]): boolean {
    // The search starts at the end, because a conversation can be long.
    let afterReply = prompt.length;
    while (afterReply > 0 && prompt[afterReply - 1]?.role !== "assistant") afterReply--;
    const sinceReply = withoutSystem(prompt.slice(afterReply));
    if (!this.#hasInput) {
      const messages = withoutSystem(prompt);
      const cleaned = messages.map(cleanMessage);
      const isComplete = messages.some(({ role }) => role !== "user");
      this.#messages = isComplete ? cleaned : appendInput(this.#history, cleaned);
      this.#hasInput = true;
    } else this.#addNew(sinceReply);
    this.#isInputGiven = false;
    if (this.#loopFrom === undefined || sinceReply.some(({ role }) => role === "user")) this.#calls++;
    this.#loopFrom ??= this.#messages.length;
    return this.#replies > 0;
  }

  /** Adds a model's reply. */
  addReply(content: readonly SdkPart[]): void {
    this.#replies++;
    const message = replyToMessage(content);
    if (message) this.#push(message);
    this.#outputs.clear();
  }

  /** Keeps the output of a tool that the last reply has called. The next prompt contains it, if there is one. */
  addToolOutput(toolCallId: string, output: ToolOutput): void {
    this.#outputs.set(toolCallId, output);
  }

  /** The state in the middle of the turn. */
  get state(): AiState {
    return { messages: [...this.#messages], turn: { from: this.#from, done: false }, ...this.#withIds() };
  }

  /**
   * The state after the turn.
   *
   * @param messages those that the SDK's loop has added, if the SDK's result is known
   */
  async finish(messages: readonly ModelMessage[] | undefined): Promise<AiState> {
    if (messages && this.#calls === 1) {
      this.#messages = [...this.#messages.slice(0, this.#loopFrom), ...fromFirstReply(messages).map(cleanMessage)];
    } else await this.#addOutputs();
    return { messages: this.#messages, turn: { from: this.#from, done: true }, ...this.#withIds() };
  }

  #withIds(): Pick<AiState, "ids"> {
    const { replyId } = this;
    const at =
      replyId === undefined
        ? -1
        : this.#messages.findIndex(({ role }, index) => index >= this.#from && role === "assistant");
    const ids = replyId === undefined || at < 0 ? this.#ids : { ...this.#ids, [at]: replyId };
    return Object.keys(ids).length > 0 ? { ids } : {};
  }

  /** Adds those user and tool messages since the last reply that are new. */
  #addNew(sinceReply: readonly (PromptMessage & ModelMessage)[]): void {
    const open = this.#findUnanswered();
    for (const message of sinceReply) {
      if (message.role === "user") {
        if (this.#replies > 0 && !this.#isInputGiven) this.#push(message);
        continue;
      }
      const parts = partsOf(message).filter(
        ({ toolCallId, type }) => type !== "tool-result" || open.has(String(toolCallId)),
      );
      if (parts.length > 0) this.#push({ ...message, content: parts } as unknown as ModelMessage);
    }
  }

  /** The tool calls without a result. Only messages that were added since the last time are searched. */
  #findUnanswered(): ReadonlySet<string> {
    const messages = this.#messages;
    if (this.#searched.messages !== messages) this.#searched = { messages, count: 0, open: new Set() };
    const { count, open } = this.#searched;
    findUnansweredCalls(messages.slice(count), open);
    this.#searched.count = messages.length;
    return new Set(open);
  }

  #push(message: ModelMessage): void {
    this.#messages.push(cleanMessage(message));
  }

  /** Adds the outputs of tools that no prompt has contained, because no model was called after them. */
  async #addOutputs(): Promise<void> {
    const content: unknown[] = [];
    for (const toolCallId of this.#findUnanswered()) {
      const answer = this.#outputs.get(toolCallId);
      if (!answer) continue;
      content.push({ type: "tool-result", toolCallId, toolName: answer.toolName, output: await answer.output() });
    }
    if (content.length > 0) this.#push({ role: "tool", content } as unknown as ModelMessage);
  }
}

/** The messages of a prompt that belong to the conversation. */
function withoutSystem(prompt: readonly PromptMessage[]): readonly (PromptMessage & ModelMessage)[] {
  return prompt.filter(({ role }) => role !== "system") as unknown as readonly (PromptMessage & ModelMessage)[];
}

/**
 * The index of the message with which the reply begins that a turn continues: the user has said nothing since. `undefined` if the
 * reply of the turn is a message of its own.
 *
 * @param from where the messages of the turn begin
 */
export function findContinuedReply(messages: readonly ModelMessage[], from: number): number | undefined {
  const end = messages.map(({ role }) => role).lastIndexOf("user") + 1;
  const at = messages.findIndex(({ role }, index) => index >= end && role === "assistant");
  return at >= 0 && at < from ? at : undefined;
}

/** The SDK runs approved tools before it calls a model; the first prompt contains their results already. */
function fromFirstReply(messages: readonly ModelMessage[]): readonly ModelMessage[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return first > 0 ? messages.slice(first) : messages;
}

/**
 * The state with which a turn starts: the conversation so far, without an unfinished turn, and the input.
 *
 * @param name the name of the turn: the id of the user's message
 */
export function startTurn(
  state: AiState,
  input: readonly ModelMessage[] | undefined,
  name: string | undefined,
): AiState {
  const { messages, turn, ids = {} } = state;
  if (!input && turn.done) return state;
  const history = turn.done ? messages : messages.slice(0, turn.from);
  const kept = Object.entries(ids).filter(([index]) => Number(index) < history.length);
  const from = history.length;
  const all = input ? appendInput(history, keepAnswers(history, input).map(cleanMessage)) : history;
  const asked = input ? all.map(({ role }) => role).lastIndexOf("user") : -1;
  if (name !== undefined && asked >= from) kept.push([String(asked), name]);
  return {
    messages: all,
    turn: { from, done: !input },
    ...(kept.length > 0 && { ids: Object.fromEntries(kept) }),
  };
}

/** A state that a turn has saved, or the user. */
export function parseState(session: string, state: unknown): AiState {
  const { messages, turn, ids } = isObject(state) ? state : {};
  if (!Array.isArray(messages)) {
    throw new SavepointError(
      "INVALID_STATE",
      `The state of session ${JSON.stringify(session)} has no array "messages", so no turn of the AI SDK can continue it. Use another session.`,
    );
  }
  const { from, done } = isObject(turn) ? turn : {};
  const isTurn = typeof from === "number" && typeof done === "boolean";
  return {
    messages: messages as ModelMessage[],
    turn: isTurn ? { from, done } : { from: messages.length, done: true },
    ...(isIds(ids) && { ids }),
  };
}

function isIds(ids: unknown): ids is Readonly<Record<string, string>> {
  return isObject(ids) && Object.values(ids).every((id) => typeof id === "string");
}
