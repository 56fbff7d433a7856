// The recorded deltas of runs: any process reads them from the beginning and follows them, each part once.
import { describe, expect, it } from "vitest";
import {
  defineAgent,
  type Savepoint,
  type StreamEnd,
  type StreamEvent,
  type StreamOptions,
  toEventStream,
} from "../../src/index.js";
import { parsePlace } from "../../src/runs/streams/fingerprint.js";
import { codeOf, createGate, KINDS, openLab, until, useLab } from "./lab.js";

const GO = { session: "s", input: "go" };

/** A model that says words, and waits for the test before each of them. */
class Speaker {
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

const WORDS = ["one", "two", "three", "four"];
const ALL = "one two three four ";

/** Reads a stream in the background. */
class Reading {
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

describe.each(KINDS)("the recorded deltas of a run on $name", (kind) => {
  const lab = useLab(kind);

  it("are replayed and followed by this process and by another one, and end with the run", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const speaker = new Speaker(WORDS);
    const early = new Reading(other);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    await early.untilText("one two ");
    const [here, late] = [new Reading(sp), new Reading(other)];
    await Promise.all([here.untilText("one two "), late.untilText("one two ")]);
    speaker.say(4);
    for (const reading of [early, here, late]) {
      expect(await reading.ended).toEqual({ status: "completed", reason: undefined });
      expect(reading.text).toBe(ALL);
      expect(reading.resets).toBe(0);
      expect(reading.events.every((event) => event.type === "delta" && event.name === "llm")).toBe(true);
    }
    expect(await run.result()).toMatchObject({ status: "completed", output: ALL });
    // They are still there for a moment, for readers that learn of the end later.
    const afterwards = new Reading(other);
    await afterwards.ended;
    expect(afterwards.text).toBe(ALL);
  });

  it.each([
    { second: WORDS, resets: 0, what: "with the same words are continued" },
    { second: ["one", "zwei"], resets: 1, what: "with other words replace those of the call that was cut off" },
  ])("of a call that is made again $what", async ({ second, resets }) => {
    const [sp, reader] = [await lab.open(), await lab.open()];
    const first = new Speaker(WORDS);
    first.say(2);
    await sp.start(first.agent, GO);
    const live = new Reading(reader);
    await live.untilText("one two ");
    lab.crash();
    const late = new Reading(reader);
    const again = new Speaker(second);
    again.say(1);
    const resumed = await lab.open();
    const [run] = await resumed.recover([again.agent]);
    await late.untilText("one ");
    again.say(second.length);
    await run?.result();
    const all = second.map((word) => `${word} `).join("");
    for (const reading of [live, late]) {
      expect((await reading.ended).status).toBe("completed");
      expect(reading.text).toBe(all);
    }
    expect(live.resets).toBe(resets);
    expect(late.resets).toBe(0);
  });

  it("of recorded replies are kept when the run is resumed, although these calls are not made again", async () => {
    const sp = await lab.open();
    const reached = createGate();
    const create = (word: string, hangs: boolean) =>
      defineAgent({
        name: "two-calls",
        initial: (_input: string) => ({}),
        async step(run) {
          const first = await run.llm(({ emit }) => (emit(`${word} `), word), { name: "a" });
          const second = await run.llm(
            async ({ emit }) => {
              emit(`${word} again `);
              if (!hangs) return word;
              reached.open();
              return new Promise<string>(() => {});
            },
            { name: "b" },
          );
          return run.complete([first, second]);
        },
      });
    await sp.start(create("first", true), GO);
    await reached.promise;
    const live = new Reading(await lab.open());
    await live.untilText("first first again ");
    lab.crash();
    const [run] = await (await lab.open()).recover([create("second", false)]);
    expect(await run?.result()).toMatchObject({ output: ["first", "second"] });
    await live.ended;
    expect(live.text).toBe("first second again ");
    expect(live.resets).toBe(1);
  });

  it("of a call that fails and is tried again in the same process are replaced", async () => {
    const sp = await lab.open();
    let calls = 0;
    const seen = createGate();
    const agent = defineAgent({
      name: "flaky",
      initial: (_input: string) => ({}),
      async step(run) {
        const reply = await run.llm(
          async ({ emit }) => {
            calls++;
            emit(`attempt ${calls} `);
            if (calls > 1) return "done";
            await seen.promise;
            throw Object.assign(new Error("overloaded"), { status: 529 });
          },
          { retry: { attempts: 2, delay: 1 } },
        );
        return run.complete(reply);
      },
    });
    const run = await sp.start(agent, GO);
    const live = new Reading(sp);
    await live.untilText("attempt 1 ");
    seen.open();
    await run.result();
    await live.ended;
    expect(live.text).toBe("attempt 2 ");
    expect(live.resets).toBe(1);
  });

  it("continue behind the id of the last event, and start again if the id is of other deltas", async () => {
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    const live = new Reading(sp);
    await live.untilText("one two ");
    const after = live.events.at(-1)?.id as string;
    const continued = new Reading(await lab.open(), { after });
    speaker.say(4);
    await run.result();
    await continued.ended;
    expect(continued.text).toBe("three four ");
    expect(continued.resets).toBe(0);
    for (const id of [
      after.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
      "garbage",
      "999999-AAAAAAAAAAAAAAAA",
    ]) {
      const other = new Reading(sp, { after: id });
      await other.ended;
      expect([id, other.resets, other.text]).toEqual([id, 1, ALL]);
    }
    const whole = new Reading(sp, { after: "" });
    await whole.ended;
    expect([whole.resets, whole.text]).toEqual([0, ALL]);
  });

  it("are freed when the turn has ended: on close, and before the next turn", async () => {
    const sp = await lab.open();
    const store = lab.store();
    const speaker = new Speaker(WORDS);
    speaker.say(4);
    await sp.run(speaker.agent, GO);
    const countItems = async (): Promise<number> => {
      let count = 0;
      // The tapes of deltas have numbers from 2^32 on, which have seven digits in base 36.
      for (const tape of await store.tapes({ from: "1", to: "2" })) {
        if (!tape.slice(2).startsWith("7")) continue;
        const items = await store.items([{ tape, start: 0, count: 50 }]);
        count += items.filter((item) => "json" in item).length;
      }
      return count;
    };
    expect(await countItems()).toBeGreaterThan(0);
    await sp.compact();
    expect(await countItems()).toBe(0);
    const late = new Reading(sp);
    expect(await late.ended).toEqual({ status: "completed", reason: undefined });
    expect(late.events).toEqual([]);
    const next = await sp.start(speaker.agent, { session: "s", input: "again", key: "second" });
    const reading = new Reading(sp);
    await next.result();
    await reading.ended;
    expect(reading.text).toBe(ALL);
    expect(await codeOf(new Reading(sp, { turn: 1, after: reading.events[0]?.id }).ended)).toBe("STREAM_LOST");
  });

  it("survive a garbage collection while the run is in progress", async () => {
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    await new Reading(sp).untilText("one two ");
    await (await lab.open()).compact();
    expect(await (await lab.open()).verify({ deep: true })).toMatchObject({ ok: true });
    speaker.say(4);
    const late = new Reading(await lab.open());
    await run.result();
    await late.ended;
    expect(late.text).toBe(ALL);
  });
});

describe("the recorded deltas of a run", () => {
  it("end when the run waits for a person, when the session is deleted, and when the reader stops", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const asking = defineAgent({
      name: "asking",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(({ emit }) => (emit("think "), "thought"));
        return run.complete(await run.ask("Well?"));
      },
    });
    const waiting = new Reading(sp);
    await sp.run(asking, GO);
    expect(await waiting.ended).toMatchObject({ status: "waiting", reason: "Well?" });
    expect(waiting.text).toBe("think ");
    await sp.answer("s", "yes");
    expect(await sp.run(asking, { session: "s" })).toMatchObject({ status: "completed", output: "yes" });

    const speaker = new Speaker(WORDS);
    speaker.say(1);
    await sp.start(speaker.agent, { session: "t", input: "go" });
    const [deleted, stop] = [new Reading(sp, {}, "t"), new AbortController()];
    const stopped = new Reading(sp, { signal: stop.signal }, "t");
    await Promise.all([deleted.untilText("one "), stopped.untilText("one ")]);
    stop.abort();
    expect(await stopped.ended).toEqual({ status: "running", reason: undefined });
    const cancelled = sp.cancel("t", "enough");
    speaker.say(4);
    await cancelled;
    expect(await deleted.ended).toEqual({ status: "halted", reason: "cancelled: enough" });
    const gone = new Reading(sp, { turn: 1 }, "t");
    await sp.sessions.delete("t");
    await gone.ended;
    await sp.close();
    expect(await codeOf(Promise.resolve().then(() => sp.stream("s").next()))).toBe("CLOSED");
  });

  it("end after the patience if no process resumes an interrupted run, with what it has recorded", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    await sp.start(speaker.agent, GO);
    await new Reading(sp).untilText("one two ");
    lab.crash();
    const reading = new Reading(await lab.open(), { patience: 100 });
    expect(await reading.ended).toEqual({ status: "interrupted", reason: undefined });
    expect(reading.text).toBe("one two ");
  });

  it("may be any values that a state may contain; others are left out and reported", async (context) => {
    const lab = await openLab(context);
    const failures: string[] = [];
    const sp = await lab.open({ on: { backgroundFailure: ({ message }) => void failures.push(message) } });
    const deltas = [{ $: 1 }, new Date(5), new Map([["a", 1n]]), { $: ["x"] }, "\u0000\ud800", null, { text: "a" }];
    const agent = defineAgent({
      name: "any",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(({ emit }) => {
          for (const delta of [deltas[0], () => {}, ...deltas.slice(1)]) emit(delta);
          return "done";
        });
        return run.complete();
      },
    });
    await sp.run(agent, GO);
    const reading = new Reading(await lab.open());
    await reading.ended;
    expect(reading.events.map((event) => event.type === "delta" && event.delta)).toEqual(deltas);
    expect(failures).toHaveLength(1);
    expect(failures[0]).toContain("cannot be stored");
  });

  it("are bounded: of a turn with too many, readers get an error, and the run completes", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const part = "x".repeat(2 ** 20);
    const agent = defineAgent({
      name: "long",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(async ({ emit }) => {
          for (let index = 0; index < 40; index++) {
            emit(part);
            await new Promise((resolve) => setImmediate(resolve));
          }
          return "done";
        });
        return run.complete("done");
      },
    });
    const reading = new Reading(sp);
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed" });
    expect(await codeOf(reading.ended)).toBe("STREAM_LOST");
    expect(reading.text.length).toBeLessThanOrEqual(16 * 2 ** 20);
    expect(await sp.bytes()).toBeLessThan(20 * 2 ** 20);
  });

  it("are server-sent events with ids, kept alive by comments", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    const reader = toEventStream(sp.stream("s"), { keepAlive: 5 }).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const readUntil = async (part: string): Promise<void> => {
      while (!text.includes(part)) {
        const { done, value } = await reader.read();
        if (done) throw new Error(`It ended without ${part}: ${text}`);
        text += value;
      }
    };
    await readUntil("two ");
    await readUntil(": waiting\n\n");
    speaker.say(4);
    await run.result();
    await readUntil("event: end");
    text = text.replaceAll(": waiting\n\n", "");
    expect(text).toMatch(/^id: \d+-[\w-]{16}\nevent: delta\ndata: \{"name":"llm","delta":"one /);
    expect(text).toMatch(/\n\nid:\nevent: end\ndata: \{"status":"completed"\}\n\n$/);
    const id = /id: (\S+)/.exec(text)?.[1] as string;
    expect(parsePlace(id)).toBeDefined();
    expect((await reader.read()).done).toBe(true);
    const cancelled = toEventStream(sp.stream("s", { after: id }));
    await cancelled.cancel();
  });
});
