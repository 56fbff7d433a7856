/** A page with `useChat()`, without React and a browser: the state machine of the SDK. */
import type { ChatStatus, UIMessage } from "ai";
import { until } from "../support/until.mjs";
import { textOf } from "./chat.js";
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "./sdk.js";

/** What `useChat()` keeps, without React. */
class ChatState {
  status: ChatStatus = "ready";
  error: Error | undefined;
  readonly pushMessage = (message: UIMessage): void => void (this.messages = [...this.messages, message]);
  readonly popMessage = (): void => void (this.messages = this.messages.slice(0, -1));
  readonly replaceMessage = (index: number, message: UIMessage): void =>
    void (this.messages = this.messages.map((each, at) => (at === index ? structuredClone(message) : each)));
  readonly snapshot = <T>(value: T): T => structuredClone(value);

  #messages: UIMessage[];

  /** @param onChange called with the messages when they have changed */
  constructor(
    messages: UIMessage[],
    readonly onChange: (messages: readonly UIMessage[]) => void,
  ) {
    this.#messages = messages;
  }

  get messages(): UIMessage[] {
    return this.#messages;
  }

  set messages(messages: UIMessage[]) {
    this.#messages = messages;
    this.onChange(messages);
  }
}

/** Stands for the URL of the server, which may change. */
const PLACE = "/api/chat";

/** A page with `useChat({ id: "s", messages })`. */
export class Page extends AbstractChat<UIMessage> {
  #api: string;

  constructor(api: string, messages: UIMessage[] = [], onChange: (messages: readonly UIMessage[]) => void = () => {}) {
    super({
      id: "s",
      state: new ChatState(messages, onChange),
      transport: new DefaultChatTransport({
        api: PLACE,
        fetch: (url, init) => fetch((url as string).replace(PLACE, this.#api), init),
      }),
      generateId: () => "m1",
      sendAutomaticallyWhen: (options) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(options) ||
        lastAssistantMessageIsCompleteWithToolCalls(options),
    });
    this.#api = api;
  }

  get api(): string {
    return this.#api;
  }

  /** Later requests go to another server. */
  move(api: string): void {
    this.#api = api;
  }

  get shown(): UIMessage[] {
    return this.messages;
  }

  /** The text of the last message. */
  get text(): string {
    const last = this.messages.at(-1);
    return last ? textOf(last) : "";
  }

  async untilReady(): Promise<void> {
    await until(
      () => this.status === "ready" || this.status === "error",
      () => `the reply, the page shows ${JSON.stringify(this.messages)}`,
    );
    if (this.error) throw this.error;
  }
}
