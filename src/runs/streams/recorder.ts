/**
 * Records the deltas of a run. They are kept in memory until the next write of the journal, which contains all of them; without
 * one, they cause a write of their own, at most every 40 ms.
 *
 * The deltas of a call that was interrupted, or that is made again, are removed: the remaining ones are written again as a new range. So
 * a reader that begins later never gets the deltas of both attempts of a call.
 */
import { isSavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import { type JournalRecord, streamTape, type StreamPosition, tapeName } from "../../records/index.js";
import type { ClassRegistry, Frame, Unreadable } from "../../state/index.js";
import type { ItemBatch } from "../../store/index.js";
import {
  continues,
  type Delta,
  type EffectPlace,
  fromItem,
  sizeOf,
  type StreamEntry,
  toEntry,
  toItems,
} from "./entry.js";

/** The shortest time between two writes that contain nothing but deltas, in milliseconds. */
const INTERVAL = 40;
/** The characters that wait for a write before {@link StreamRecorder.room} waits for it, too. */
const MAX_PENDING = 262_144;
/** The most characters of a turn. Later deltas are not recorded, and readers get an error. */
const MAX_RECORDED = 16 * 2 ** 20;
/** Items that are read with one request. */
const PAGE_ITEMS = 64;
/** The name of the entry after the last one that was recorded. */
export const OVERFLOW = "\toverflow";

/** The part of a commit that contains deltas. */
export interface StreamWrite {
  readonly position: StreamPosition;
  readonly items: ItemBatch | undefined;
  /** The number of pending entries that it contains. */
  readonly entries: number;
}

interface PendingEntry extends StreamEntry {
  /** Its call has failed, or is made again. */
  isRetracted?: boolean;
}

/** The entries of an item. Unreadable entries are skipped: the complete replies are in the journal. */
function readItem(frame: Frame | Unreadable, registry: ClassRegistry): StreamEntry[] {
  if (!("json" in frame)) return [];
  try {
    return fromItem(frame, registry);
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return [];
    throw error;
  }
}

const keyOf = ([step, index]: EffectPlace): string => `${step}/${index}`;

export class StreamRecorder {
  readonly #context: Context;
  readonly #epoch: number;
  #pending: PendingEntry[] = [];
  /** Entries that only the commit that ends the turn contains, behind all others. */
  readonly #last: StreamEntry[] = [];
  /** How many of the pending entries are part of a write in progress. */
  #taken = 0;
  #pendingSize = 0;
  #recorded = 0;
  /** Whether the next write starts a new range. */
  #isNew = true;
  /** Whether the pending entries include those of the stored range, which the next write replaces. */
  #hasRead = false;
  /** The effects of the newest step that deltas were recorded of. Those of earlier steps are not executed again. */
  readonly #effects = new Set<string>();
  #step = 0;
  /** Decides which of the stored entries the next write keeps; `undefined` to keep all. */
  #keep: ((entry: StreamEntry) => boolean) | undefined;
  /** Whether what the previous attempt has stored is part of the range. */
  #hasAdopted = false;
  #timer: NodeJS.Timeout | undefined;
  #writtenAt = 0;
  #isClosed = false;
  #waiting: (() => void)[] = [];
  /** Causes a write of the journal. */
  #write: () => Promise<void> = async () => {};

  constructor(context: Context, { epoch }: JournalRecord) {
    this.#context = context;
    this.#epoch = epoch;
  }

  /** @param write makes a write of the journal */
  connect(write: () => Promise<void>): void {
    this.#write = write;
  }

  /**
   * Removes the deltas of effects of a step that have no recorded outcome, and, at the start of an attempt, those that were
   * emitted outside of effects: the loop emits them again.
   */
  resume(step: number, recorded: ReadonlySet<number>): void {
    if (this.#hasAdopted) {
      for (const key of this.#effects) {
        const [ofStep, index] = key.split("/").map(Number);
        if (ofStep === step && !recorded.has(index as number)) this.retract([step, index as number]);
      }
      return;
    }
    this.#hasAdopted = true;
    this.#keep = ({ effect }) => effect !== undefined && (effect[0] < step || recorded.has(effect[1]));
  }

  /** Removes the deltas of an effect, if there are any: it is executed again, or has failed. */
  retract(effect: EffectPlace): void {
    const key = keyOf(effect);
    if (!this.#effects.delete(key)) return;
    const before = this.#keep ?? ((): boolean => true);
    this.#keep = (entry) => before(entry) && !(entry.effect && keyOf(entry.effect) === key);
    for (const entry of this.#pending) if (entry.effect && keyOf(entry.effect) === key) entry.isRetracted = true;
    this.#schedule();
  }

  /**
   * Records a delta. A delta with unsupported values is skipped and reported.
   *
   * @param atEnd whether it is recorded only in the commit that ends the turn
   */
  add(delta: Delta, atEnd = false): void {
    if (this.#isClosed || this.#recorded > MAX_RECORDED) return;
    try {
      const entry = toEntry(delta, this.#context.registry);
      if (atEnd) this.#last.push(entry);
      else this.#push(entry);
    } catch (error) {
      if (!isSavepointError(error, "INVALID_STATE")) throw error;
      const message = `a delta of ${JSON.stringify(delta.name)} cannot be stored, so sp.stream() does not return it`;
      this.#context.events.emit("backgroundFailure", { message, error });
    }
  }

  #push(entry: StreamEntry): void {
    const last = this.#pending.at(-1);
    const isContinued = this.#pending.length > this.#taken && continues(entry, last) && !last.isRetracted;
    const size = isContinued ? (entry.text as string).length : sizeOf(entry);
    this.#recorded += size;
    if (this.#recorded > MAX_RECORDED)
      this.#pending.push(toEntry({ name: OVERFLOW, delta: null }, this.#context.registry));
    else if (isContinued) {
      this.#pending[this.#pending.length - 1] = { ...last, text: `${last.text}${entry.text}` };
      this.#pendingSize += size;
    } else {
      this.#pending.push(entry);
      this.#pendingSize += size;
    }
    this.#note(entry);
    this.#schedule();
  }

  #note({ effect }: StreamEntry): void {
    if (!effect) return;
    if (effect[0] > this.#step) this.#effects.clear();
    this.#step = Math.max(this.#step, effect[0]);
    this.#effects.add(keyOf(effect));
  }

  /** Resolves when few characters wait to be written. */
  async room(): Promise<void> {
    if (this.#pendingSize <= MAX_PENDING || this.#isClosed) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #schedule(): void {
    if (this.#isClosed) return;
    if (this.#pendingSize > MAX_PENDING && this.#timer) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    const wait = this.#pendingSize > MAX_PENDING ? 0 : this.#writtenAt + INTERVAL - performance.now();
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        // A failure of the journal ends the run, which reports it.
        if (this.#isDue) this.#write().catch(() => {});
      },
      Math.max(0, wait),
    );
  }

  get #isDue(): boolean {
    return !this.#isClosed && (this.#pending.length > this.#taken || this.#keep !== undefined);
  }

  /** Prepares a write: reads what is stored again if a part of it is removed. No other write is in progress. */
  async prepare(journal: JournalRecord): Promise<void> {
    if (!this.#keep) return;
    const stored = await this.#readStored(journal);
    // Read only now: more may have been removed in the meantime.
    const kept = stored.filter(this.#keep);
    this.#keep = undefined;
    const added = this.#pending.filter(({ isRetracted }) => !isRetracted);
    if (stored.length > 0 || added.length !== this.#pending.length) {
      this.#isNew ||= kept.length < stored.length;
      if (this.#isNew) this.#pending = [...kept, ...added];
      else this.#pending = added;
    }
    for (const entry of kept) this.#note(entry);
    this.#pendingSize = this.#pending.reduce((sum, entry) => sum + sizeOf(entry), 0);
    if (this.#isNew) this.#recorded = this.#pendingSize;
    // The write that follows may be refused, or may wait for the next one because more is removed meanwhile.
    this.#hasRead = this.#isNew;
  }

  async #readStored({ number, tape, stream }: JournalRecord): Promise<StreamEntry[]> {
    if (!stream || stream.isEnded || this.#hasRead) return [];
    const { registry, store } = this.#context;
    const stored: StreamEntry[] = [];
    const end = stream.first + stream.count;
    for (let start = stream.first; start < end; start += PAGE_ITEMS) {
      const span = { tape: tapeName(number, streamTape(tape)), start, count: Math.min(PAGE_ITEMS, end - start) };
      const frames = await store.items([span]);
      // A record that another program has written may name more items than there are.
      if (!frames.some((frame) => "json" in frame)) break;
      stored.push(...frames.flatMap((frame) => readItem(frame, registry)));
    }
    return stored;
  }

  /** The part of the next write; `undefined` if there is none. Call {@link written} when it is committed. */
  plan({ number, tape, stream }: JournalRecord, isEnd: boolean): StreamWrite | undefined {
    // What was removed since `prepare` waits for the next write. The last write has no next one: it leaves stored deltas as they are.
    const isBlocked = this.#keep !== undefined && !isEnd;
    if (isEnd) this.#pending = this.#pending.filter(({ isRetracted }) => !isRetracted);
    const pending = this.#isClosed || isBlocked ? [] : this.#pending;
    const entries = isEnd && !this.#isClosed ? [...pending, ...this.#last] : pending;
    const starts = this.#isNew && !isBlocked && (entries.length > 0 || (stream?.count ?? 0) > 0);
    if (entries.length === 0 && !starts && !(isEnd && stream && !stream.isEnded)) return undefined;
    this.#taken = pending.length;
    const frames = toItems(entries);
    const end = (stream?.first ?? 0) + (stream?.count ?? 0);
    const [first, count] = starts || !stream ? [end, 0] : [stream.first, stream.count];
    return {
      position: { epoch: this.#epoch, first, count: count + frames.length, isEnded: isEnd },
      items: frames.length > 0 ? { tape: tapeName(number, streamTape(tape)), first: end, items: frames } : undefined,
      entries: pending.length,
    };
  }

  /** Notes that a planned write was committed. */
  written({ entries, position }: StreamWrite): void {
    if (position.count > 0 || entries > 0) this.#isNew = false;
    this.#hasRead = false;
    this.#pending = this.#pending.slice(entries);
    this.#pendingSize = this.#pending.reduce((sum, entry) => sum + sizeOf(entry), 0);
    this.#taken = 0;
    this.#writtenAt = performance.now();
    this.#release();
    if (this.#isDue) this.#schedule();
  }

  /** Records nothing more. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#pending = [];
    this.#release();
  }

  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
