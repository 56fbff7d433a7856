/** Loading the state of a checkpoint. */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  coalesce,
  decodeState,
  type Hole,
  type Piece,
  type Shadow,
  type SharedFrame,
  type StateReader,
} from "../state/index.js";
import type { CheckpointRow } from "../records/index.js";
import { describeSession } from "./errors.js";
import type { SessionReader } from "./reader.js";

/** The items of the last state that was read, by tape and number. */
type Items = Map<string, SharedFrame>;

const LAST_ITEMS = new WeakMap<object, Items>();

/**
 * A reader for one state that takes the items that are also in the previous state from memory. The states must not be changed,
 * because they share their parsed items.
 *
 * @param sharing the same object for all states; holds the items of the previous one
 */
export function sharingReader(reader: SessionReader, number: number, sharing: object): StateReader {
  const state = reader.stateReader(number);
  const before = LAST_ITEMS.get(sharing);
  const mine: Items = new Map();
  LAST_ITEMS.set(sharing, mine);
  return {
    blob: (hash) => state.blob(hash),
    async items(pieces) {
      const places = pieces.flatMap(({ tape, start, count }) =>
        Array.from({ length: count }, (_, index) => ({ tape, start: start + index, count: 1 })),
      );
      const keys = places.map(({ tape, start }) => `${number}:${tape}:${start}`);
      const known = keys.map((key) => mine.get(key) ?? before?.get(key));
      const missing: Piece[] = places.filter((_, index) => !known[index]);
      const read = missing.length > 0 ? await state.items(coalesce(missing)) : [];
      let next = 0;
      return keys.map((key, index) => {
        const frame = known[index] ?? read[next++] ?? { unreadable: "it is missing" };
        if (!("json" in frame)) return frame;
        const kept = known[index] ?? { ...frame, memo: { depth: 0 } };
        mine.set(key, kept);
        return kept;
      });
    },
  };
}

/**
 * Loads the shadow of a checkpoint's state. Damage throws `DAMAGED`, or is recorded in `holes` if that is passed.
 *
 * If a part is missing and the checkpoint still exists, the state is read a second time: items that are freed or packed
 * during the first read are not damaged.
 */
export async function loadShadow(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  holes?: Hole[],
  state = reader.stateReader(number),
): Promise<Shadow> {
  const read = (into?: Hole[]): Promise<Shadow> => decodeState(row.skeleton, row.tape, state, into);
  let cause: unknown;
  try {
    const lost: Hole[] = [];
    const shadow = await read(holes && lost);
    if (lost.length === 0) return shadow;
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    cause = error;
  }
  if (!(await reader.row(number, row.seq))) {
    throw new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${row.id} was removed while it was being read.`, {
      cause,
    });
  }
  try {
    return await read(holes);
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    throw new SavepointError(
      "DAMAGED",
      `Checkpoint #${row.seq} of ${describeSession(reader.sessionId)} (${row.id}) is damaged. ${error.message} Load another checkpoint, or load this one with { partial: true }.`,
      { cause: error, details: { ...error.details, checkpointId: row.id } },
    );
  }
}
