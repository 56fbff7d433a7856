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
  type Frame,
  ITEM_LIMITS,
  layoutChild,
  parseFrame,
  RecordedValues,
  shadowToValue,
  type StoredValue,
} from "../state/index.js";
import { LruMap, retryOnConflict } from "../util/index.js";
import { type Check, type Commit, type Put, scan, type StoredRecord } from "../store/index.js";
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
import type { Context } from "../context.js";
import type { CommitParts } from "./commit.js";
import { checkRowExists, isConflictOn } from "./conflicts.js";
import { commitNote } from "./notes.js";
import type { SessionReader } from "./reader.js";
import { type ParentAnnotations, rejectReserved } from "./reserved.js";

/** Annotations of checkpoints: by seq, then by name. */
export type Annotations = ReadonlyMap<number, ReadonlyMap<string, unknown>>;

/** Smaller parts of an annotation are copied, because a reference to an item would cost as much. */
const MIN_SHARED_SIZE = 128;

/** The commit of new annotations; a promise only if their item counter has to be read. */
export type PlannedAnnotations = CommitParts | Promise<CommitParts>;

/**
 * Plans the commit of new annotations. Parts that the same commit adds to the state are stored once, in the state: garbage
 * collection never frees what is committed after it began, so nothing that an annotation refers to can be gone.
 *
 * @param added what the same commit adds to the state
 */
export function planAnnotations(
  reader: SessionReader,
  number: number,
  { seq, values }: ParentAnnotations,
  added: readonly StoredValue[],
): PlannedAnnotations {
  const counter = countersOf(reader.context).get(number);
  const plan = (from: string | undefined, encoded: NewAnnotations): CommitParts =>
    toCommitParts(reader, number, seq, from, encoded);
  const encoded = encodeNew(reader, values, Number(counter ?? 0), added);
  if (encoded.items.length === 0 || counter !== undefined) return plan(counter, encoded);
  return readCounter(reader, annotationCounterKey(number)).then((read) =>
    plan(read, encodeNew(reader, values, Number(read), added)),
  );
}

/** New annotations in their stored form. */
interface NewAnnotations {
  readonly skeletons: readonly (readonly [name: string, Frame])[];
  readonly items: readonly Frame[];
  readonly blobs: ReadonlyMap<string, Uint8Array>;
}

/** @param counter the number of the first item; `undefined` if it is unknown and there are no items */
function toCommitParts(
  reader: SessionReader,
  number: number,
  seq: number,
  counter: string | undefined,
  { skeletons, items, blobs }: NewAnnotations,
): CommitParts {
  const counterKey = annotationCounterKey(number);
  const puts: Put[] = skeletons.map(([name, { json, refs }]) => {
    return { key: annotationKey(number, seq, checkId(name, "annotation name")), value: json, refs };
  });
  const checks: Check[] = puts.map(({ key }) => ({ key, value: undefined }));
  if (items.length === 0 || counter === undefined) return { checks, puts, blobs };
  const first = Number(counter);
  checks.push({ key: counterKey, value: counter === NO_ITEMS ? undefined : counter });
  puts.push({ key: counterKey, value: String(first + items.length) });
  // If the commit fails, so does the check of the next one, which reads the counter again.
  countersOf(reader.context).set(number, String(first + items.length));
  return { checks, puts, blobs, items: [{ tape: tapeName(number, ANNOTATIONS_TAPE), first, items }] };
}

/**
 * Encodes new annotations one after another. All of them together refer to each part of the state at most once, because they are
 * read together and readers reject an item that occurs too often.
 */
function encodeNew(
  reader: SessionReader,
  values: ReadonlyMap<string, unknown>,
  first: number,
  added: readonly StoredValue[],
): NewAnnotations {
  const recorded = new RecordedValues(reader.context.registry, MIN_SHARED_SIZE);
  for (const stored of added) recorded.add(stored);
  const skeletons: [string, Frame][] = [];
  const items: Frame[] = [];
  const blobs = new Map<string, Uint8Array>();
  for (const [name, value] of values) {
    const encoded = encode(reader, name, value, first + items.length, recorded);
    skeletons.push([name, encoded.skeleton]);
    for (const item of encoded.items) items.push(item);
    for (const [hash, bytes] of encoded.blobs) blobs.set(hash, bytes);
  }
  return { skeletons, items, blobs };
}

/** Forgets the item counter of a session, after a commit that was planned with it has failed. */
export function forgetAnnotationCounter({ context }: SessionReader, number: number): void {
  countersOf(context).delete(number);
}

/** The counter of a session without annotations that have items. */
const NO_ITEMS = "0";

async function readCounter(reader: SessionReader, key: string): Promise<string> {
  const [counter] = await reader.context.store.get([key]);
  if (counter && !("value" in counter)) {
    throw new SavepointError(
      "DAMAGED",
      `The counter of annotations cannot be read: ${counter.unreadable}. Run sp.repair().`,
    );
  }
  return counter?.value ?? NO_ITEMS;
}

/** The item counters of the annotations that this process wrote last, by the number of the session. They may be outdated. */
function countersOf(context: Context): LruMap<number, string> {
  let counters = COUNTERS.get(context);
  if (!counters) COUNTERS.set(context, (counters = new LruMap(MAX_COUNTERS)));
  return counters;
}

const COUNTERS = new WeakMap<Context, LruMap<number, string>>();
const MAX_COUNTERS = 10_000;

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
    countersOf(reader.context).set(number, String(first + (encoded?.items.length ?? 0)));
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

/** Encodes a value. An error names the annotation instead of the state. @param recorded what is stored already */
function encode(
  reader: SessionReader,
  name: string,
  value: unknown,
  first: number,
  recorded?: RecordedValues,
): EncodedState {
  try {
    const copy = valueToShadow(value, reader.context.registry);
    // Unlike the skeleton of a state, that of an annotation is written once, so it has room for small parts.
    const shadow = layoutChild(recorded ? recorded.replaceWithRefs(copy, value) : copy, ITEM_LIMITS);
    return encodeShadow(shadow, ANNOTATIONS_TAPE, first);
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
