/** Notifies the readers of deltas in this process of writes, and frees the deltas of ended turns. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "../../context.js";
import { type JournalRecord, streamTape, tapeName } from "../../records/index.js";

/**
 * How long the deltas of a completed turn are kept for readers in other processes, which notice the end of a turn a moment later.
 * In milliseconds.
 */
const KEEP_FOR = 3000;
/** How long they are kept for readers of this process that have not read them all. */
const KEEP_FOR_READERS = 60_000;

/** The key of a branch in the maps of writers and readers. */
export const streamKey = (session: string, branch: string): string => `${session}\t${branch}`;

/** Deltas to be freed. */
interface EndedStream {
  readonly key: string;
  readonly tape: string;
  readonly below: number;
  readonly endedAt: number;
}

export class StreamHub {
  static readonly #hubs = new WeakMap<object, StreamHub>();
  readonly #context: Context;
  readonly #wakes = new Map<string, Set<() => void>>();
  readonly #versions = new Map<string, number>();
  readonly #writers = new Map<string, number>();
  readonly #readers = new Map<string, number>();
  readonly #ended = new Set<EndedStream>();
  #timer: NodeJS.Timeout | undefined;
  #freeing: Promise<void> = Promise.resolve();

  static of(context: Context): StreamHub {
    const hub = StreamHub.#hubs.get(context.events) ?? new StreamHub(context);
    StreamHub.#hubs.set(context.events, hub);
    return hub;
  }

  private constructor(context: Context) {
    this.#context = context;
  }

  /** Notes that a run of this process writes deltas of a branch. Returns the function that ends that. */
  addWriter(key: string): () => void {
    return enter(this.#writers, key, () => this.notify(key));
  }

  /** Notes that this process reads the deltas of a branch. Returns the function that ends that. */
  addReader(key: string): () => void {
    return enter(this.#readers, key, () => this.#versions.delete(key));
  }

  /** Whether every change of a branch is notified here. */
  isWrittenHere(key: string): boolean {
    return this.#writers.has(key);
  }

  /** A number that rises with every notification, while the branch has readers. */
  versionOf(key: string): number {
    return this.#versions.get(key) ?? 0;
  }

  /** Wakes the readers of a branch. */
  notify(key: string): void {
    if (this.#readers.has(key)) this.#versions.set(key, this.versionOf(key) + 1);
    for (const wake of this.#wakes.get(key) ?? []) wake();
  }

  /** Resolves when {@link notify} was called since a version was read, a time has passed, or a signal is aborted. */
  async wait(key: string, version: number, time: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.versionOf(key) !== version || signal?.aborted) return;
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    const wakes = this.#wakes.get(key) ?? new Set();
    this.#wakes.set(key, wakes.add(wake));
    signal?.addEventListener("abort", wake);
    await sleep(time, undefined, { signal: woken.signal }).catch(() => {});
    signal?.removeEventListener("abort", wake);
    wakes.delete(wake);
    if (wakes.size === 0 && this.#wakes.get(key) === wakes) this.#wakes.delete(key);
  }

  /** Frees the deltas of an ended turn, after readers had time to read them. */
  freeLater(key: string, { number, tape, stream }: JournalRecord): void {
    if (!stream || stream.count === 0) return;
    const below = stream.first + stream.count;
    this.#ended.add({ key, tape: tapeName(number, streamTape(tape)), below, endedAt: performance.now() });
    this.#schedule();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const now = performance.now();
      void this.#free(({ key, endedAt }) => now - endedAt >= (this.#readers.has(key) ? KEEP_FOR_READERS : KEEP_FOR));
      if (this.#ended.size > 0) this.#schedule();
    }, KEEP_FOR).unref();
  }

  async #free(isDue: (ended: EndedStream) => boolean): Promise<void> {
    const due = [...this.#ended].filter(isDue);
    for (const ended of due) this.#ended.delete(ended);
    this.#freeing = this.#freeing.then(async () => {
      for (const { tape, below } of due) {
        // Otherwise the next turn or the next garbage collection frees them.
        await this.#context.store.retain(tape, [], { below }).catch((error: unknown) => {
          this.#context.events.emit("backgroundFailure", { message: "recorded deltas could not be freed", error });
        });
      }
    });
    return this.#freeing;
  }

  /** Frees the deltas of all ended turns. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#free(() => true);
  }
}

/** Counts an entry under a key. Returns the function that removes it, and that calls `onLeave` if it was the last one. */
function enter(counts: Map<string, number>, key: string, onLeave: () => unknown): () => void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
  let isLeft = false;
  return () => {
    if (isLeft) return;
    isLeft = true;
    const left = (counts.get(key) ?? 1) - 1;
    if (left > 0) counts.set(key, left);
    else counts.delete(key);
    onLeave();
  };
}
