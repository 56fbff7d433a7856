/** What the checkpoints and journals of a session point at, found by refs alone: no states are read. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { formatRefs, parseRefs, type Piece, type Unreadable } from "../state/index.js";
import { MarkError } from "./collect-conversations.js";
import { IntervalSet, type Span } from "../util/index.js";
import {
  decodeJournal,
  journalKey,
  type JournalRecord,
  type CheckpointRow,
  tapeName,
  tapeNumberOf,
} from "../records/index.js";
import type { SessionReader } from "../sessions/index.js";

/** A line of refs, and the tape that it counts from. */
export interface FrameRefs {
  readonly refs: string;
  readonly tape: number;
}

/** What is reachable so far. */
export class Marks {
  readonly #byNumber = new Map<number, IntervalSet>();

  /** @param unreadable told of items that cannot be read; without it they are thrown as {@link MarkError} */
  constructor(
    readonly reader: SessionReader,
    readonly number: number,
    readonly blobs: Set<string>,
    readonly unreadable?: (damage: Unreadable) => void,
  ) {}

  /** The tapes that anything is reached on, by number, with what is. */
  *tapes(): Generator<[tape: number, spans: Span[]]> {
    for (const [tape, live] of this.#byNumber) yield [tape, live.spans()];
  }

  liveSpans(tape: string): { start: number; count: number }[] {
    return this.#byNumber.get(tapeNumberOf(tape))?.spans() ?? [];
  }

  /**
   * Marks what frames point at, and what that points at in turn. All frames are followed one level at a time: the items
   * that they point at on one tape are mostly adjacent, and are read together.
   */
  async markFrames(frames: Iterable<FrameRefs>): Promise<void> {
    for (let level = await this.#mark(frames); level.size > 0;) {
      const found: FrameRefs[] = [];
      for (const [tape, fresh] of level)
        for await (const frame of this.#framesIn(tape, fresh.spans())) found.push(frame);
      level = await this.#mark(found);
    }
  }

  /** Marks what frames point at; returns what was not marked before, by tape. */
  async #mark(frames: Iterable<FrameRefs>): Promise<Map<number, IntervalSet>> {
    const fresh = new Map<number, IntervalSet>();
    let count = 0;
    for (const { refs, tape } of frames) {
      if (++count % MAX_FRAMES === 0) await nextTurn();
      for (const ref of parseRefs(refs, tape)) {
        if ("blob" in ref) this.blobs.add(ref.blob);
        else for (const piece of ref.pieces) this.#markPiece(piece, fresh);
      }
    }
    return fresh;
  }

  #markPiece({ tape, start, count }: Piece, fresh: Map<number, IntervalSet>): void {
    const live = this.#byNumber.get(tape) ?? new IntervalSet();
    this.#byNumber.set(tape, live);
    for (const span of live.add(start, count)) {
      const ofTape = fresh.get(tape) ?? new IntervalSet();
      fresh.set(tape, ofTape);
      ofTape.add(span.start, span.count);
    }
  }

  /** The items of these spans that point at something. */
  async *#framesIn(tape: number, spans: readonly Span[]): AsyncGenerator<FrameRefs> {
    const name = tapeName(this.number, tape);
    const { store } = this.reader.context;
    for (const { all, parts } of joinSpans(spans)) {
      const isWanted = inSpans(parts);
      await nextTurn();
      const together = await store.itemRefs({ tape: name, ...all });
      if (!("unreadable" in together)) {
        for (const { item, refs } of together) if (isWanted(item)) yield { refs, tape };
        continue;
      }
      // A damaged item may be in a gap between the wanted ones.
      for (const part of parts) {
        const alone = await store.itemRefs({ tape: name, ...part });
        if (!("unreadable" in alone)) for (const { refs } of alone) yield { refs, tape };
        else if (this.unreadable) this.unreadable(alone);
        else throw new MarkError(alone);
      }
    }
  }
}

/** The longest gap of unneeded items that is read along, to avoid a second query. */
const MAX_GAP = 256;
/** Items whose refs are read in one query. */
const MAX_JOINED = 4096;
/** Frames that are followed before yielding to the event loop. */
const MAX_FRAMES = 1024;

/** Joins sorted spans into longer ones, each of which covers several spans and the gaps between them. */
function* joinSpans(spans: readonly Span[]): Generator<{ readonly all: Span; readonly parts: readonly Span[] }> {
  let parts: Span[] = [];
  let [start, end] = [0, 0];
  for (const span of splitSpans(spans)) {
    const joined = span.start + span.count - start;
    if (parts.length > 0 && (span.start - end > MAX_GAP || joined > MAX_JOINED)) {
      yield { all: { start, count: end - start }, parts };
      parts = [];
    }
    if (parts.length === 0) ({ start } = span);
    parts.push(span);
    end = span.start + span.count;
  }
  if (parts.length > 0) yield { all: { start, count: end - start }, parts };
}

function* splitSpans(spans: readonly Span[]): Generator<Span> {
  for (const { start, count } of spans) {
    for (let done = 0; done < count; done += MAX_JOINED) {
      yield { start: start + done, count: Math.min(MAX_JOINED, count - done) };
    }
  }
}

/** Whether an item is in one of these sorted spans; items must be queried in ascending order. */
function inSpans(spans: readonly Span[]): (item: number) => boolean {
  let at = 0;
  return (item) => {
    for (let span = spans[at]; span && span.start + span.count <= item; span = spans[++at]);
    return item >= (spans[at]?.start ?? Infinity);
  };
}

/** What the runs of a session have recorded since their last boundaries. */
export async function readJournals(reader: SessionReader): Promise<JournalRecord[]> {
  const branches: string[] = [];
  for await (const { record } of reader.branches()) branches.push(record.name);
  const records = await reader.context.store.get(branches.map((branch) => journalKey(reader.sessionId, branch)));
  return records.flatMap((record) => {
    if (!record) return [];
    if (!("value" in record)) throw new MarkError(record);
    return [decodeJournal(record.value)];
  });
}

/** A frame that points at the recorded entries of a journal. */
export function journalRefs({ tape, first, count }: JournalRecord): FrameRefs {
  return { refs: formatRefs([{ pieces: [{ tape, start: first, count }] }], tape), tape };
}

/** The state of a checkpoint. */
export function rowRefs({ skeleton, tape }: Pick<CheckpointRow, "skeleton" | "tape">): FrameRefs {
  return { refs: skeleton.refs, tape };
}
