import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { runs } from "../../../test/support/runs.js";
import type { Context } from "../../context.js";
import { emptyJournal, itemsOfStream, type JournalRecord, tapeName } from "../../records/index.js";
import { ClassRegistry } from "../../state/index.js";
import { openStore } from "../../store/index.js";
import { type EffectPlace, fromEntry, fromItem } from "./entry.js";
import { StreamRecorder } from "./recorder.js";

const STEP = 3;
const MOMENTS = ["reading", "read", "refused"] as const;
type Moment = (typeof MOMENTS)[number];

/** A recorder with a store, and what a reader has to get: the words that were added and not removed since. */
class Recording {
  words: { readonly word: string; readonly effect: number | undefined }[] = [];
  journal: JournalRecord = { ...emptyJournal(1, 0, 0), epoch: 1 };
  #recorder: StreamRecorder;
  #count = 0;
  /** The effects with a recorded result. They are not executed again. */
  #recorded: ReadonlySet<number> = new Set();

  constructor(readonly context: Context) {
    this.#recorder = this.#start(new Set());
  }

  #start(recorded: ReadonlySet<number>): StreamRecorder {
    this.#recorded = recorded;
    const recorder = new StreamRecorder(this.context, this.journal);
    recorder.resume(STEP, recorded);
    return recorder;
  }

  /** @param effect the number of the effect that emits a word; 0 for none */
  add(effect: number): void {
    if (this.#recorded.has(effect)) return;
    const word = `${this.#count++} `;
    const place: EffectPlace | undefined = effect === 0 ? undefined : [STEP, effect];
    this.#recorder.add({ name: "llm", delta: word, effect: place });
    this.words.push({ word, effect: effect === 0 ? undefined : effect });
  }

  retract(effect: number): void {
    if (this.#recorded.has(effect)) return;
    this.#recorder.retract([STEP, effect]);
    this.words = this.words.filter((each) => each.effect !== effect);
  }

  /**
   * Writes what is recorded.
   *
   * @param meanwhile called when the write has begun to read what is stored; or before it is planned, or when it is refused
   */
  async write(
    meanwhile: () => void = () => {},
    { isEnd = false, when = "reading" }: { isEnd?: boolean; when?: Moment } = {},
  ): Promise<boolean> {
    const prepared = this.#recorder.prepare(this.journal);
    if (when === "reading") meanwhile();
    await prepared;
    if (when === "read") meanwhile();
    const write = this.#recorder.plan(this.journal, isEnd);
    if (when === "refused") {
      meanwhile();
      return true;
    }
    if (!write) return false;
    await this.context.store.commit({ items: write.items ? [write.items] : [] });
    this.journal = { ...this.journal, stream: write.position };
    this.#recorder.written(write);
    return true;
  }

  /** The process dies when everything is written, and another one resumes the run. */
  async crash(recorded: readonly number[]): Promise<void> {
    while (await this.write()) continue;
    this.#recorder.close();
    this.#recorder = this.#start(new Set(recorded));
    this.words = this.words.filter(({ effect }) => effect !== undefined && recorded.includes(effect));
  }

  async end(): Promise<string> {
    while (await this.write()) continue;
    const range = itemsOfStream(this.journal);
    await this.write(() => {}, { isEnd: true });
    this.#recorder.close();
    if (!range) return "";
    const { registry, store } = this.context;
    const frames = await store.items([{ ...range, tape: tapeName(1, range.tape) }]);
    const entries = frames.flatMap((frame) => ("json" in frame ? fromItem(frame, registry) : []));
    return entries.map((entry) => String(fromEntry(entry, registry).delta)).join("");
  }
}

const effect = fc.nat({ max: 3 });
const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ add: effect }) },
  { weight: 2, arbitrary: fc.record({ retract: fc.integer({ min: 1, max: 3 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      write: fc.constantFrom("add", "retract", "nothing"),
      of: fc.integer({ min: 1, max: 3 }),
      when: fc.constantFrom(...MOMENTS),
    }),
  },
  { weight: 1, arbitrary: fc.record({ crash: fc.uniqueArray(fc.integer({ min: 1, max: 3 })) }) },
);

describe("a recorder of deltas", () => {
  it("reads no more items than there are, whatever the record says", async () => {
    const store = await openStore("memory:");
    const recording = new Recording({ store, registry: new ClassRegistry() } as unknown as Context);
    recording.add(1);
    await recording.write();
    recording.journal = { ...recording.journal, stream: { epoch: 1, first: 0, count: 2 ** 50, isEnded: false } };
    recording.retract(1);
    recording.add(2);
    expect(await recording.write()).toBe(true);
    expect(recording.journal.stream).toEqual({ epoch: 1, first: 2 ** 50, count: 1, isEnded: false });
    await store.close();
  });

  it("has written what was added and not removed since, each once and in order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 30 }), async (operations) => {
        const store = await openStore("memory:");
        const recording = new Recording({ store, registry: new ClassRegistry() } as unknown as Context);
        for (const each of operations) {
          if ("add" in each) recording.add(each.add);
          else if ("retract" in each) recording.retract(each.retract);
          else if ("crash" in each) await recording.crash(each.crash);
          else {
            await recording.write(() => {
              if (each.write === "add") recording.add(each.of);
              if (each.write === "retract") recording.retract(each.of);
            }, each);
          }
        }
        const written = await recording.end();
        expect(written).toBe(recording.words.map(({ word }) => word).join(""));
        await store.close();
      }),
      { numRuns: runs(4000, 1000) },
    );
  });
});
