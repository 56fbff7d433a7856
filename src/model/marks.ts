/** What the checkpoints and journals of a session point at, found by refs alone: no states are read. */
import type { Unreadable } from "../state/decode.js";
import { parseRefs } from "../state/refs.js";
import { Unmarkable } from "./collect-conversations.js";
import { Intervals, type Span } from "./intervals.js";
import { decodeNumbers, journalKey, tapeName } from "./keys.js";
import { decodeJournal, type JournalRecord } from "./run-records.js";
import type { SessionReader } from "./session-reader.js";

/** What is reachable so far. */
export class Marks {
  readonly #byNumber = new Map<number, Intervals>();

  /** @param unreadable told of items that cannot be read; without it they are thrown as {@link Unmarkable} */
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

  live(tape: string): { start: number; count: number }[] {
    return this.#byNumber.get(decodeNumbers(tape, 2).numbers[1] as number)?.spans() ?? [];
  }

  /** Marks what a frame points at, and what that points at in turn. */
  async frame(refs: string, tape: number): Promise<void> {
    const frames = [{ refs, tape }];
    for (let frame = frames.pop(); frame; frame = frames.pop()) {
      for (const ref of parseRefs(frame.refs, frame.tape)) {
        if ("blob" in ref) this.blobs.add(ref.blob);
        else for (const piece of ref.pieces) frames.push(...(await this.#piece(piece)));
      }
    }
  }

  async #piece(piece: { tape: number; start: number; count: number }): Promise<{ refs: string; tape: number }[]> {
    const tape = tapeName(this.number, piece.tape);
    const live = this.#byNumber.get(piece.tape) ?? new Intervals();
    this.#byNumber.set(piece.tape, live);
    const found: { refs: string; tape: number }[] = [];
    for (const span of live.add(piece.start, piece.count)) {
      const refs = await this.reader.context.store.itemRefs({ tape, ...span });
      if ("unreadable" in refs) {
        if (!this.unreadable) throw new Unmarkable(refs);
        this.unreadable(refs);
        continue;
      }
      for (const item of refs) found.push({ refs: item.refs, tape: piece.tape });
    }
    return found;
  }
}

/** What the runs of a session have recorded since their last boundaries. */
export async function readJournals(reader: SessionReader): Promise<JournalRecord[]> {
  const branches: string[] = [];
  for await (const { record } of reader.branches()) branches.push(record.name);
  const records = await reader.context.store.get(branches.map((branch) => journalKey(reader.sessionId, branch)));
  return records.flatMap((record) => {
    if (!record) return [];
    if (!("value" in record)) throw new Unmarkable(record);
    return [decodeJournal(record.value)];
  });
}
