/** Agents with real runs for the tests of the inspector. */
import { defineAgent, message, type Message, type ToolCall } from "../../src/index.js";
import { until } from "../support/until.mjs";
import { atEnd } from "./lab.js";

export interface ShopState {
  messages: Message[];
  receipt?: string;
}

/** What the tools of {@link defineShop} do. */
export interface ShopTools {
  readonly stock?: () => unknown;
  readonly price?: () => unknown;
  readonly refund?: () => unknown;
}

const REFUND: ToolCall = { id: "call_refund", name: "refund", arguments: { order: "88", cents: 4200 } };

/** Three steps: two lookups in parallel, then a question to a person, then the refund and its confirmation. */
export function defineShop({ stock = () => 7, price = () => 4200, refund = () => "paid" }: ShopTools = {}) {
  return defineAgent({
    name: "shop",
    strategy: "everyStep",
    retry: { attempts: 1 },
    initial: (input: string): ShopState => ({ messages: [message.user(input)] }),
    async step(run) {
      const { messages } = run.state;
      if (messages.length === 1) {
        const calls: ToolCall[] = [
          { id: "call_stock", name: "stock", arguments: { sku: "cup" } },
          { id: "call_price", name: "price", arguments: { sku: "cup" } },
        ];
        await run.llm(() => "Let me look.", { input: messages, usage: () => ({ tokens: 120, cost: 0.01 }) });
        const results = await Promise.all([
          run.tool(calls[0] as ToolCall, stock, { onUnknown: "retry" }),
          run.tool(calls[1] as ToolCall, price, { onUnknown: "verify", verify: () => ({ happened: false }) }),
        ]);
        messages.push(message.assistant("Let me look.", calls));
        for (const [index, result] of results.entries())
          messages.push(message.toolResult(calls[index]?.id ?? "", result));
        return;
      }
      if (messages.length === 4) {
        const isAllowed = await run.ask<boolean>({ text: "Refund 42 €?", data: { cents: 4200 } });
        messages.push(message.user(isAllowed ? "Yes, refund it." : "No."));
        return;
      }
      run.state.receipt = String(await run.tool(REFUND, refund));
      messages.push(message.assistant("", [REFUND]), message.toolResult(REFUND.id, run.state.receipt));
      return run.complete(run.state.receipt);
    },
  });
}

/** A tool that hangs until the test ends, and a promise that resolves when it was called. */
export function hangingTool(): { readonly call: () => Promise<never>; readonly isCalled: Promise<void> } {
  let notify = (): void => {};
  const isCalled = new Promise<void>((resolve) => (notify = resolve));
  const call = (): Promise<never> => {
    notify();
    // A store that is closed waits for its effects.
    return new Promise((_, reject) => atEnd(() => reject(new Error("the test has ended"))));
  };
  return { call, isCalled };
}

/** Events of a stream of the inspector, as they arrive. */
export class EventReader {
  readonly events: { readonly id: string; readonly event: string; readonly data: Record<string, never> }[] = [];
  comments = 0;
  isEnded = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(response: Response) {
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
    // A connection that the test ends is an end like any other.
    void this.#read().catch(() => (this.isEnded = true));
  }

  /** Resolves with the first event of a name, from a position on, that meets a condition. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check its shape
  async next(name: string, matches: (data: any) => boolean = () => true, from = 0): Promise<any> {
    const find = () => this.events.slice(from).find(({ event, data }) => event === name && matches(data));
    await until(() => find() !== undefined, `an event ${name}`);
    return find()?.data;
  }

  get lastId(): string {
    return this.events.at(-1)?.id ?? "";
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        this.#add(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
    this.isEnded = true;
  }

  #add(block: string): void {
    if (block.startsWith(":")) {
      this.comments++;
      return;
    }
    const fields = Object.fromEntries(
      block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
    );
    this.events.push({
      id: fields["id"] ?? "",
      event: fields["event"] ?? "",
      data: JSON.parse(fields["data"] ?? "{}"),
    });
  }
}
