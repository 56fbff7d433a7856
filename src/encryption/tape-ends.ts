/** Where the tapes of a store end: what its records know of the numbers of their items. */
import { isSavepointError } from "../errors.js";
import {
  ALL_CONVERSATIONS,
  ALL_RUNS,
  ALL_SESSIONS,
  annotationCounterKey,
  ANNOTATIONS_TAPE,
  decodeBranch,
  decodeJournal,
  decodeNumbers,
  decodeSession,
  messageTape,
  streamTape,
  tapeName,
} from "../records/index.js";
import { type KeyRange, type RecordResult, scan, type Store, type StoredRecord } from "../store/index.js";

const ANNOTATION_COUNTERS: KeyRange = { from: "w0", to: "x" };

/**
 * Reads the ends of all tapes: the number after the last item. A tape whose records are damaged or deleted is left out.
 *
 * @param open decrypts a record
 */
export async function readTapeEnds(
  store: Store,
  open: (record: RecordResult) => Promise<RecordResult>,
): Promise<ReadonlyMap<string, number>> {
  const ends = new Map<string, number>();
  const add = (tape: string, end: number): void => void ends.set(tape, Math.max(end, ends.get(tape) ?? 0));
  const read = async (range: KeyRange, use: (record: StoredRecord) => void): Promise<void> => {
    for await (const stored of scan(store, range)) {
      const record = await open(stored);
      if (!("value" in record)) continue;
      try {
        use(record);
      } catch (error) {
        if (!isSavepointError(error, "DAMAGED")) throw error;
      }
    }
  };
  let owner = { id: "", number: Number.NaN };
  await read(ALL_SESSIONS, ({ key, value }) => {
    const [, id = "", branch] = key.split("\t");
    // The record of a session comes before those of its branches.
    if (branch === undefined) owner = { id, number: decodeSession(value).number };
    else if (owner.id === id) {
      const { tape, nextItem } = decodeBranch(value);
      add(tapeName(owner.number, tape), nextItem);
    }
  });
  await read(ALL_RUNS, ({ key, value }) => {
    if (!key.endsWith("\tj")) return;
    const { number, tape, first, count, stream } = decodeJournal(value);
    add(tapeName(number, tape), first + count);
    if (stream) add(tapeName(number, streamTape(tape)), stream.first + stream.count);
  });
  await read(ANNOTATION_COUNTERS, ({ key, value }) => {
    const number = decodeNumbers(key.slice(1), 1).numbers[0] as number;
    if (key === annotationCounterKey(number)) add(tapeName(number, ANNOTATIONS_TAPE), Number(value));
  });
  await read(ALL_CONVERSATIONS, ({ key, value }) => {
    const part = key.split("\t")[2] ?? "";
    if (part.startsWith("n")) add(messageTape(decodeNumbers(part.slice(1), 1).numbers[0] as number), Number(value));
  });
  return ends;
}
