/** Marks what the checkpoints and journals of a session refer to. It reads the refs of items only, no states. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError } from "../errors.js";
import { formatRefs, parseRefs, type Piece, type Ref, type Unreadable } from "../state/index.js";
import { TapeBounds } from "../store/index.js";
import { IntervalSet, type Span } from "../util/index.js";
import {
  decodeJournal,
  itemsOfJournal,
  itemsOfStream,
  journalKey,
  type JournalRecord,
  type CheckpointRow,
  tapeName,
  tapeNumberOf,
} from "../records/index.js";
import type { SessionReader } from "../sessions/index.js";

/** The encoded refs of a frame, and the tape that they are relative to. */
export interface FrameRefs {
  readonly refs: string;
  readonly tape: number;
}

/** Something that may refer to items or messages is damaged: nothing may be freed. */
export class MarkError extends Error {
  constructor(readonly damage: Unreadable) {
    super(damage.unreadable);
  }
}

/** The items and blobs of a session that are reachable so far. */
export class Marks {
  readonly #byNumber = new Map<number, IntervalSet>();
  readonly #bounds: TapeBounds;

  /** @param onDamage called for unreadable items; without it they are thrown as {@link MarkError} */
  constructor(
    readonly reader: SessionReader,
    readonly number: number,
    readonly blobs: Set<string>,
    readonly onDamage?: (damage: Unreadable) => void,
  ) {
    this.#bounds = new TapeBounds(reader.context.store);
  }

  /** The tapes with reachable items, by number, and the spans of these items. */
  *tapes(): Generator<[tape: number, spans: Span[]]> {
    for (const [tape, live] of this.#byNumber) yield [tape, live.spans()];
  }

  /** The reachable items of a tape. */
  liveSpans(tape: string): Span[] {
    return this.#byNumber.get(tapeNumberOf(tape))?.spans() ?? [];
  }

  /**
   * Marks everything that is reachable from frames. All frames are followed one level at a time: the items that they refer to
   * on one tape are mostly adjacent, and are read together.
   */
  async markFrames(frames: Iterable<FrameRefs>): Promise<void> {
    for (let level = await this.#mark(frames); level.size > 0;) {
      const found: FrameRefs[] = [];
      for (const [tape, fresh] of level)
        for await (const frame of this.#framesIn(tape, fresh.spans())) found.push(frame);
      level = await this.#mark(found);
    }
  }

  /** Marks the items that frames refer to. Returns those that were not marked before, by tape. */
  async #mark(frames: Iterable<FrameRefs>): Promise<Map<number, IntervalSet>> {
    const fresh = new Map<number, IntervalSet>();
    let count = 0;
    for (const { refs, tape } of frames) {
      if (++count % MAX_FRAMES === 0) await nextTurn();
      for (const ref of this.#parse(refs, tape)) {
        if ("blob" in ref) this.blobs.add(ref.blob);
        else markPieces(fresh, markPieces(this.#byNumber, await this.#existing(ref.pieces)));
      }
    }
    return fresh;
  }

  #parse(refs: string, tape: number): Ref[] {
    try {
      return parseRefs(refs, tape);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      this.#report({ unreadable: error.message });
      return [];
    }
  }

  /** Returns the ranges, except those that name more items than the store has. Those are reported as damage. */
  async #existing(pieces: readonly Piece[]): Promise<readonly Piece[]> {
    if (pieces.every(({ count }) => count <= MAX_FRAMES)) return pieces;
    const existing: Piece[] = [];
    for (const piece of pieces) {
      const { start, count } = piece;
      const isTooLong = await this.#bounds.isExceededBy({ ...piece, tape: tapeName(this.number, piece.tape) });
      if (isTooLong)
        this.#report({
          unreadable: `a reference names items ${start} to ${start + count - 1}, and not all of them exist`,
        });
      else existing.push(piece);
    }
    return existing;
  }

  #report(damage: Unreadable): void {
    if (!this.onDamage) throw new MarkError(damage);
    this.onDamage(damage);
  }

  /** The refs of the items in these spans. */
  async *#framesIn(tape: number, spans: readonly Span[]): AsyncGenerator<FrameRefs> {
    const name = tapeName(this.number, tape);
    const { store } = this.reader.context;
    for (const { all, parts } of joinSpans(spans)) {
      const isInSpans = inSpans(parts);
      await nextTurn();
      const together = await store.itemRefs({ tape: name, ...all });
      if (!("unreadable" in together)) {
        for (const { item, refs } of together) if (isInSpans(item)) yield { refs, tape };
        continue;
      }
      // The damaged item may be in a gap between the spans.
      for (const part of parts) {
        const alone = await store.itemRefs({ tape: name, ...part });
        if (!("unreadable" in alone)) for (const { refs } of alone) yield { refs, tape };
        else this.#report(alone);
      }
    }
  }
}

/** Adds ranges of items to the live ones, by tape. Returns the parts of them that were not there yet. */
export function markPieces(live: Map<number, IntervalSet>, pieces: readonly Piece[]): Piece[] {
  return pieces.flatMap(({ tape, start, count }) => {
    const intervals = live.get(tape) ?? new IntervalSet();
    live.set(tape, intervals);
    return intervals.add(start, count).map((span) => ({ tape, ...span }));
  });
}

/** The longest gap between spans that is read with them, to avoid a second query. */
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

/** The journals of a session's runs: what they have recorded since their last step boundary. */
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

/** Refs to the entries of a journal, including those of earlier steps that no checkpoint lists yet, and to the recorded deltas. */
export function journalRefs(journal: JournalRecord): FrameRefs {
  const { tape } = journal;
  const stream = itemsOfStream(journal);
  return { refs: formatRefs([{ pieces: [itemsOfJournal(journal), ...(stream ? [stream] : [])] }], tape), tape };
}

/** The refs of a checkpoint's state. */
export function rowRefs({ skeleton, tape }: Pick<CheckpointRow, "skeleton" | "tape">): FrameRefs {
  return { refs: skeleton.refs, tape };
}
