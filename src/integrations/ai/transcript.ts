/**
 * Everything said in a session, as the SDK's own messages.
 *
 * It is put together from what passes by: what a model is asked tells what people and tools have said since it was asked
 * before, its reply what the assistant says. Where `complete()` is given the SDK's result, its own messages count.
 */
import { replyToMessage } from "./reply-message.js";
import { type AiState, isObject, type ModelMessage, type SdkPart, type PromptMessage } from "./sdk.js";
import { tidyMessage } from "./tidy.js";
import { answerCalls, partsOf, unanswered } from "./tool-calls.js";
import { SavepointError } from "../../index.js";

/** What a tool has answered, by the id of its call. */
interface ToolAnswer {
  readonly toolName: string;
  readonly output: () => unknown;
}

export class Transcript {
  readonly #history: readonly ModelMessage[];
  #messages: ModelMessage[];
  /** Where this turn's messages begin. */
  readonly #from: number;
  /** Is what was said at its beginning known? */
  #begun: boolean;
  /** Is what people say next known from {@link begin}? */
  #told = false;
  /** Did a turn that was forked with another state have its beginning in it? */
  readonly #goesOn: boolean;
  /** Where the loop's own messages begin. */
  #loopFrom: number | undefined;
  /** How often the SDK was called. */
  #calls = 0;
  #replies = 0;
  readonly #answers = new Map<string, ToolAnswer>();

  constructor(session: string, state: unknown) {
    const { messages, turn } = takeState(session, state);
    this.#history = messages;
    this.#messages = [...messages];
    this.#goesOn = !turn.done;
    this.#begun = this.#goesOn;
    this.#from = this.#goesOn ? turn.from : messages.length;
  }

  /** What was said before, and now: what the SDK is to be called with. */
  begin(said: readonly ModelMessage[]): ModelMessage[] {
    if (!this.#begun) this.#messages = answerCalls(this.#history, said);
    else if (!this.#told && this.#replies > 0) this.#messages = answerCalls(this.#messages, said);
    this.#begun = this.#told = true;
    return [...this.#messages];
  }

  /** A model is asked. Is one of the loop's steps done by that? */
  asked(prompt: readonly PromptMessage[]): boolean {
    const said = prompt.filter(({ role }) => role !== "system") as unknown as readonly (PromptMessage & ModelMessage)[];
    const tail = said.slice(said.map(({ role }) => role).lastIndexOf("assistant") + 1);
    if (!this.#begun) {
      const whole = said.some(({ role }) => role !== "user");
      this.#messages = whole ? said.map(tidyMessage) : answerCalls(this.#history, said.map(tidyMessage));
      this.#begun = true;
    } else this.#add(tail);
    this.#told = false;
    if (this.#loopFrom === undefined || tail.some(({ role }) => role === "user")) this.#calls++;
    this.#loopFrom ??= this.#messages.length;
    return this.#replies > 0;
  }

  /** A model has replied. */
  replied(content: readonly SdkPart[]): void {
    this.#replies++;
    const message = replyToMessage(content);
    if (message) this.#push(message);
    this.#answers.clear();
  }

  /** A tool has answered the last reply. */
  answered(toolCallId: string, answer: ToolAnswer): void {
    this.#answers.set(toolCallId, answer);
  }

  /** What was said so far, in a turn that is not over. */
  get state(): AiState {
    return { messages: [...this.#messages], turn: { from: this.#from, done: false } };
  }

  /**
   * What was said in all.
   *
   * @param messages those that the SDK's loop has added, where it says so
   */
  async end(messages: readonly ModelMessage[] | undefined): Promise<AiState> {
    if (messages && this.#calls === 1) {
      this.#messages = [...this.#messages.slice(0, this.#loopFrom), ...this.#withoutKnown(messages).map(tidyMessage)];
    } else await this.#addAnswers();
    return { messages: this.#messages, turn: { from: this.#from, done: true } };
  }

  /** What people and tools have said since the last reply, as far as it is new. */
  #add(tail: readonly (PromptMessage & ModelMessage)[]): void {
    const open = unanswered(this.#messages);
    for (const message of tail) {
      if (message.role === "user") {
        if (this.#replies > 0 && !this.#told) this.#push(message);
        continue;
      }
      const parts = partsOf(message).filter(
        ({ toolCallId, type }) => type !== "tool-result" || open.has(String(toolCallId)),
      );
      if (parts.length > 0) this.#push({ ...message, content: parts } as unknown as ModelMessage);
    }
  }

  #push(message: ModelMessage): void {
    this.#messages.push(tidyMessage(message));
  }

  /** The SDK has run tools that were approved before it asked a model: those are known from what it asked. */
  #withoutKnown(messages: readonly ModelMessage[]): readonly ModelMessage[] {
    const first = messages.findIndex(({ role }) => role === "assistant");
    return first > 0 ? messages.slice(first) : messages;
  }

  /** Where no model is asked any more, what tools have answered is here. */
  async #addAnswers(): Promise<void> {
    const open = unanswered(this.#messages);
    const content: unknown[] = [];
    for (const toolCallId of open) {
      const answer = this.#answers.get(toolCallId);
      if (!answer) continue;
      content.push({ type: "tool-result", toolCallId, toolName: answer.toolName, output: await answer.output() });
    }
    if (content.length > 0) this.#push({ role: "tool", content } as unknown as ModelMessage);
  }
}

/** A state that was saved by a turn, or by hand. */
function takeState(session: string, state: unknown): AiState {
  const { messages, turn } = isObject(state) ? state : {};
  if (!Array.isArray(messages)) {
    throw new SavepointError(
      "INVALID_STATE",
      `Session ${JSON.stringify(session)} has a state without a list "messages": it is not one of the AI SDK's. Use another session.`,
    );
  }
  const { from, done } = isObject(turn) ? turn : {};
  const known = typeof from === "number" && typeof done === "boolean";
  return { messages: messages as ModelMessage[], turn: known ? { from, done } : { from: messages.length, done: true } };
}
