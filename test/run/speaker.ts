/** A run that streams words, and readers of what it has recorded. */
import { defineAgent, type Savepoint, type StreamEnd, type StreamEvent, type StreamOptions } from "../../src/index.js";
import { createGate, until } from "./lab.js";

export const GO = { session: "s", input: "go" };

/** A model that says words, and waits for the test before each of them. */
export class Speaker {
  said = 0;
  calls = 0;
  readonly #gates = [createGate()];

  constructor(readonly words: readonly string[]) {}

  readonly agent = defineAgent({
    name: "speaker",
    retry: { attempts: 2, delay: 1 },
    initial: (_input: string) => ({ replies: [] as string[] }),
    receive: () => {},
    step: async (run) => {
      const reply = await run.llm(() => this.#speak());
      run.state.replies.push(reply);
      return run.complete(reply);
    },
  });

  /** Lets the model say all words up to this number. */
  say(count: number): void {
    while (this.#gates.length <= count) this.#gates.push(createGate());
    for (const gate of this.#gates.slice(0, count)) gate.open();
  }

  async *#speak(): AsyncGenerator<string> {
    this.calls++;
    for (const [index, word] of this.words.entries()) {
      while (this.#gates.length <= index) this.#gates.push(createGate());
      await this.#gates[index]?.promise;
      this.said++;
      yield `${word} `;
    }
  }
}

export const WORDS = ["one", "two", "three", "four"];
export const ALL = "one two three four ";

/** Reads a stream in the background. */
export class Reading {
  readonly events: StreamEvent[] = [];
  readonly ended: Promise<StreamEnd>;
  #failure: unknown;

  constructor(sp: Savepoint, options: StreamOptions = {}, session = "s") {
    this.ended = this.#read(sp.stream(session, options));
    this.ended.catch((error: unknown) => (this.#failure = error));
  }

  /** What a reader shows that obeys resets. */
  get text(): string {
    const from = this.events.map(({ type }) => type).lastIndexOf("reset") + 1;
    return this.events
      .slice(from)
      .reduce((text, event) => text + (event.type === "delta" ? String(event.delta) : ""), "");
  }

  get resets(): number {
    return this.events.filter(({ type }) => type === "reset").length;
  }

  async untilText(text: string): Promise<void> {
    await until(
      () => {
        if (this.#failure !== undefined) throw this.#failure as Error;
        return this.text === text;
      },
      () => `the text ${JSON.stringify(text)}, it is ${JSON.stringify(this.text)}`,
    );
  }

  async #read(events: AsyncGenerator<StreamEvent, StreamEnd>): Promise<StreamEnd> {
    for (;;) {
      const { done, value } = await events.next();
      if (done) return value;
      this.events.push(value);
    }
  }
}
