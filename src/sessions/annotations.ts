/**
 * Annotations: named values that callers attach to a checkpoint after it was saved, outside its state. They can be replaced,
 * and are removed with their checkpoint.
 *
 * A value is stored like a state: a record with its skeleton, and items on a tape that all annotations of the session share.
 * Every write checks the value that it replaces and the counter of that tape, so concurrent changes are never lost.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import {
  valueToShadow,
  decodeParts,
  type EncodedState,
  encodeShadow,
  parseFrame,
  layoutState,
  shadowToValue,
} from "../state/index.js";
import { retryOnConflict } from "../util/index.js";
import { type Commit, scan, type StoredRecord } from "../store/index.js";
import {
  annotationCounterKey,
  annotationKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  checkId,
  encodeStatusNote,
  noteKey,
  parseNoteKey,
  type CheckpointRow,
  type StatusNote,
  tapeName,
} from "../records/index.js";
import { checkRowExists, isConflictOn } from "./conflicts.js";
import { commitNote } from "./notes.js";
import type { SessionReader } from "./reader.js";
import { rejectReserved } from "./reserved.js";

/** Annotations of checkpoints: by seq, then by name. */
export type Annotations = ReadonlyMap<number, ReadonlyMap<string, unknown>>;

/**
 * Replaces an annotation by the result of `change`; `undefined` removes it.
 *
 * @param change gets the current value; called again if another writer was faster
 * @param status becomes the status of the checkpoint, in the same commit; `null` restores the one that it was saved with
 */
export async function annotateCheckpoint(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  name: string,
  change: (before: unknown) => unknown,
  status?: StatusNote | null,
): Promise<void> {
  const { store } = reader.context;
  const key = annotationKey(number, row.seq, checkId(name, "annotation name"));
  rejectReserved([name], change, "An annotation");
  const counterKey = annotationCounterKey(number);
  const replaceOnce = async (): Promise<void> => {
    const [record, counter] = await store.get([key, counterKey]);
    if (counter && !("value" in counter)) throw damagedAnnotation(reader, row.seq, name, counter.unreadable);
    const [before] = record ? await readValues(reader, number, [toEntry(reader, record)]) : [];
    const next = change(before);
    const first = Number(counter?.value ?? 0);
    const encoded = next === undefined ? undefined : encode(reader, name, next, first);
    const changes: ReturnType<typeof putsOf> & Pick<Commit, "deletes"> = encoded
      ? putsOf(number, key, encoded, first)
      : { deletes: [key] };
    const note = noteKey(number, row.seq, "status");
    await commitNote(reader, row, {
      checks: [
        checkRowExists(number, row.seq),
        { key, value: record && "value" in record ? record.value : undefined },
        { key: counterKey, value: counter?.value },
      ],
      ...changes,
      ...(status && { puts: [...(changes.puts ?? []), { key: note, value: encodeStatusNote(status) }] }),
      ...(status === null && { deletes: [...(changes.deletes ?? []), note] }),
    });
  };
  // `change` may throw a conflict of its own: only those of the commit are retried.
  await retryOnConflict(replaceOnce, {
    isRetryable: (conflict) => isConflictOn(conflict, key) || isConflictOn(conflict, counterKey),
  });
}

/** The annotations of the checkpoints from seq `from` to seq `to`, both inclusive. */
export async function readAnnotations(
  reader: SessionReader,
  number: number,
  from: number,
  to: number,
): Promise<Annotations> {
  for (let mayRetry = true; ; mayRetry = false) {
    const entries: AnnotationEntry[] = [];
    for await (const record of scan(reader.context.store, annotationsOf(number, from, to + 1))) {
      entries.push(toEntry(reader, record));
    }
    try {
      const values = await readValues(reader, number, entries);
      const annotations = new Map<number, Map<string, unknown>>();
      for (const [index, { seq, name }] of entries.entries()) {
        const ofRow = annotations.get(seq) ?? new Map<string, unknown>();
        annotations.set(seq, ofRow.set(name, values[index]));
      }
      return annotations;
    } catch (error) {
      // The items of a value that was replaced during the read may be freed already: that is not damage.
      if (!mayRetry || !isSavepointError(error, "DAMAGED")) throw error;
    }
  }
}

/** An annotation whose items are not read yet. */
interface AnnotationEntry {
  readonly seq: number;
  readonly name: string;
  readonly record: StoredRecord;
}

function toEntry(
  reader: SessionReader,
  record: StoredRecord | { readonly key: string; readonly unreadable: string },
): AnnotationEntry {
  const { seq, name } = parseNoteKey(record.key);
  if ("value" in record) return { seq, name, record };
  throw damagedAnnotation(reader, seq, name, record.unreadable);
}

/** Reads the values of annotations, in their order, with one read of items. */
async function readValues(
  reader: SessionReader,
  number: number,
  entries: readonly AnnotationEntry[],
): Promise<unknown[]> {
  const parts = entries.map(({ seq, name, record: { value, refs } }) => ({
    tree: parseFrame({ json: value, refs }, ANNOTATIONS_TAPE),
    path: `#${seq} ${name}`,
  }));
  try {
    const shadows = await decodeParts(parts, reader.stateReader(number));
    return shadows.map((shadow) => shadowToValue(shadow, reader.context.registry));
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const [first] = entries;
    throw damagedAnnotation(reader, first?.seq ?? 0, first?.name ?? "", error.message, error);
  }
}

/** Encodes a value. An error names the annotation instead of the state. */
function encode(reader: SessionReader, name: string, value: unknown, first: number): EncodedState {
  try {
    return encodeShadow(layoutState(valueToShadow(value, reader.context.registry)), ANNOTATIONS_TAPE, first);
  } catch (error) {
    if (!isSavepointError(error, "INVALID_STATE")) throw error;
    const what = `The annotation ${JSON.stringify(name)} cannot be stored`;
    const message = error.message.replace("The state cannot be stored", what);
    throw new SavepointError("INVALID_STATE", message, { cause: error, details: error.details });
  }
}

function putsOf(
  number: number,
  key: string,
  { skeleton, items, blobs }: EncodedState,
  first: number,
): Pick<Parameters<typeof commitNote>[2], "puts" | "items" | "blobs"> {
  const counter = { key: annotationCounterKey(number), value: String(first + items.length) };
  return {
    puts: [{ key, value: skeleton.json, refs: skeleton.refs }, ...(items.length > 0 ? [counter] : [])],
    items: items.length > 0 ? [{ tape: tapeName(number, ANNOTATIONS_TAPE), first, items }] : [],
    blobs: [...blobs].map(([hash, bytes]) => ({ hash, bytes })),
  };
}

function damagedAnnotation(
  reader: SessionReader,
  seq: number,
  name: string,
  reason: string,
  cause?: unknown,
): SavepointError<"DAMAGED"> {
  reader.reportDamage(undefined, seq, `its annotation ${JSON.stringify(name)} cannot be read: ${reason}`);
  return new SavepointError(
    "DAMAGED",
    `The annotation ${JSON.stringify(name)} of ${reader.sessionId}#${seq} is damaged: ${reason} Restore it from a backup with sp.repair({ from }).`,
    { cause },
  );
}
