/**
 * A reader's place in the deltas of a turn.
 *
 * It is a fingerprint of what the reader has received. When another attempt of the turn takes over, its deltas are compared with
 * it: if they begin with the same ones, the reader continues behind them; otherwise a reset is reported, and all of them follow.
 */
import { SavepointError } from "../../errors.js";
import { type JournalRecord, streamTape, tapeName } from "../../records/index.js";
import { describeBranch, type SessionReader } from "../../sessions/index.js";
import { invalidArgument } from "../../util/index.js";
import { fromEntry, fromItem, type StreamEntry } from "./entry.js";
import { Fingerprint, formatPlace, parsePlace, type StreamPlace } from "./fingerprint.js";
import { OVERFLOW } from "./recorder.js";

/** A part of what a run has emitted, or a report that the parts before it are invalid. */
export type StreamEvent =
  | {
      readonly type: "delta";
      /** Identifies the place behind it. A reader that passes it as `after` gets what follows. */
      readonly id: string;
      /** The name of the model call, or the name that the delta was emitted with. */
      readonly name: string;
      /** Consecutive strings with the same name may have been joined. */
      readonly delta: unknown;
    }
  /**
   * A call was interrupted, and is made again with other deltas. Discard everything before: the valid deltas follow again.
   */
  | { readonly type: "reset"; readonly id: string };

/** Items that are read with one request. */
const PAGE_ITEMS = 8;

/** The error of a reader that can no longer get all deltas. */
export function streamLost(sessionId: string, branch: string, cause?: unknown): SavepointError {
  const where = describeBranch(sessionId, branch);
  return new SavepointError(
    "STREAM_LOST",
    `${where} has deltas that are no longer stored, or more than can be recorded. Read the state of the session: it has the complete replies.`,
    { details: { sessionId, branch }, cause },
  );
}

export class StreamCursor {
  readonly #reader: SessionReader;
  readonly #branch: string;
  #fingerprint = new Fingerprint();
  /** The place behind what the reader has received, while the deltas before it are read again; `undefined` if it is reached. */
  #goal: StreamPlace | undefined;
  /** The first item of the range that is read. */
  #first: number | undefined;
  #next = 0;

  /** @param after the id of the last event that the reader has received */
  constructor(reader: SessionReader, branch: string, after: string | undefined) {
    this.#reader = reader;
    this.#branch = branch;
    if (after === undefined || after === "") return;
    if (typeof after !== "string") throw invalidArgument('sp.stream() needs the id of an event as "after".');
    // An invalid id is treated like one of an interrupted attempt.
    this.#goal = parsePlace(after) ?? { length: 1, hash: "" };
    if (this.#goal.length === 0) this.#goal = undefined;
  }

  /** Whether the reader has received anything. */
  get hasBegun(): boolean {
    return this.#goal !== undefined || this.#fingerprint.length > 0;
  }

  /**
   * Yields what is recorded and was not yielded before.
   *
   * @param isLast whether nothing more will be recorded
   */
  async *read(journal: JournalRecord, isLast: boolean): AsyncGenerator<StreamEvent> {
    const { first, count } = journal.stream ?? { first: 0, count: 0 };
    if (first !== this.#first) {
      if (this.#fingerprint.length > 0) this.#goal ??= this.#fingerprint.place;
      this.#start(first);
    }
    while (this.#next < first + count) {
      const entries = await this.#readPage(journal, first + count);
      if (!entries) return;
      for (const entry of entries) {
        const rest = this.#goal ? this.#skip(entry, this.#goal) : entry;
        if (rest === "differs") {
          yield this.#reset(first);
          break;
        }
        if (rest) yield this.#toEvent(rest);
      }
    }
    if (!isLast || !this.#goal) return;
    yield this.#reset(first);
    yield* this.read(journal, true);
  }

  #start(first: number): void {
    this.#first = this.#next = first;
    this.#fingerprint = new Fingerprint();
  }

  #reset(first: number): StreamEvent {
    this.#goal = undefined;
    this.#start(first);
    return { type: "reset", id: formatPlace(this.#fingerprint.place) };
  }

  /** Reads the entries of the next items; `undefined` if they were freed before the reader has begun. */
  async #readPage({ number, tape, stream }: JournalRecord, end: number): Promise<StreamEntry[] | undefined> {
    const { store, registry } = this.#reader.context;
    const span = { tape: tapeName(number, streamTape(tape)), start: this.#next };
    const frames = await store.items([{ ...span, count: Math.min(PAGE_ITEMS, end - this.#next) }]);
    const entries: StreamEntry[] = [];
    for (const frame of frames) {
      if (!("json" in frame)) {
        if (stream?.isEnded && !this.hasBegun) return undefined;
        throw streamLost(this.#reader.sessionId, this.#branch, new Error(frame.unreadable));
      }
      entries.push(...fromItem(frame, registry));
    }
    this.#next += frames.length;
    return entries;
  }

  /** Adds an entry that precedes the reader's place. Returns what of it follows that place, if it is reached. */
  #skip(entry: StreamEntry, goal: StreamPlace): StreamEntry | "differs" | undefined {
    const rest = this.#fingerprint.add(entry, goal.length);
    if (this.#fingerprint.length < goal.length) return undefined;
    if (!this.#fingerprint.isAt(goal)) return "differs";
    this.#goal = undefined;
    return rest;
  }

  #toEvent(entry: StreamEntry): StreamEvent {
    const { name, delta } = fromEntry(entry, this.#reader.context.registry);
    if (name === OVERFLOW) throw streamLost(this.#reader.sessionId, this.#branch);
    this.#fingerprint.add(entry);
    return { type: "delta", id: formatPlace(this.#fingerprint.place), name, delta };
  }
}
