/**
 * Values that are attached to a checkpoint after it was saved: what belongs to it and is no part of its state. They go
 * with their checkpoint, and can be replaced for as long as it is there.
 *
 * A value is stored like a state: a record with its skeleton, and items on a tape that all attachments of the session
 * share. Whoever attaches something checks and raises that tape's counter, so a change is never built on a value that
 * another writer has replaced meanwhile.
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
import { scan, type StoredRecord } from "../store/index.js";
import {
  annotationCounterKey,
  annotationKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  checkId,
  decodeNumbers,
  type CheckpointRow,
  rowKey,
  tapeName,
} from "../records/index.js";
import { commitNote } from "./notes.js";
import type { SessionReader } from "./reader.js";

/** What is attached to checkpoints: by seq, then by name. */
export type Annotations = ReadonlyMap<number, ReadonlyMap<string, unknown>>;

/** Puts what `change` makes of the value that is attached under a name in its place. */
export async function annotateCheckpoint(
  reader: SessionReader,
  number: number,
  row: CheckpointRow,
  name: string,
  change: (before: unknown) => unknown,
): Promise<void> {
  const { store } = reader.context;
  const key = annotationKey(number, row.seq, checkId(name, "name of an attachment"));
  const counterKey = annotationCounterKey(number);
  for (;;) {
    const [known, counter] = await store.get([key, counterKey]);
    if (counter && !("value" in counter)) throw unreadable(reader, row.seq, name, counter.unreadable);
    const [before] = known ? await readValues(reader, number, [toFound(reader, known)]) : [];
    const next = change(before);
    const first = Number(counter?.value ?? 0);
    const encoded = next === undefined ? undefined : encode(reader, name, next, first);
    const applied = await commitNote(reader, row, {
      checks: [
        { key: rowKey(number, row.seq), exists: true },
        { key, value: known && "value" in known ? known.value : undefined },
        { key: counterKey, value: counter?.value },
      ],
      ...(encoded ? putsOf(number, key, encoded, first) : { deletes: [key] }),
    });
    if (applied) return;
  }
}

/** What is attached to the checkpoints from one seq to another, both included. */
export async function readAnnotations(
  reader: SessionReader,
  number: number,
  from: number,
  to: number,
): Promise<Annotations> {
  for (let again = true; ; again = false) {
    const found: FoundValue[] = [];
    for await (const record of scan(reader.context.store, annotationsOf(number, from, to + 1))) {
      found.push(toFound(reader, record));
    }
    try {
      const values = await readValues(reader, number, found);
      const attachments = new Map<number, Map<string, unknown>>();
      for (const [index, { seq, name }] of found.entries()) {
        const ofRow = attachments.get(seq) ?? new Map<string, unknown>();
        attachments.set(seq, ofRow.set(name, values[index]));
      }
      return attachments;
    } catch (error) {
      // What was replaced while it was read may be freed already: that is not damage.
      if (!again || !isSavepointError(error, "DAMAGED")) throw error;
    }
  }
}

/** A value that is attached, with its large parts still unread. */
interface FoundValue {
  readonly seq: number;
  readonly name: string;
  readonly record: StoredRecord;
}

function toFound(
  reader: SessionReader,
  record: StoredRecord | { readonly key: string; readonly unreadable: string },
): FoundValue {
  const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
  const seq = numbers[1] as number;
  if ("value" in record) return { seq, name: rest, record };
  throw unreadable(reader, seq, rest, record.unreadable);
}

/** The values, one for one, read together. */
async function readValues(reader: SessionReader, number: number, found: readonly FoundValue[]): Promise<unknown[]> {
  const parts = found.map(({ seq, name, record: { value, refs } }) => ({
    tree: parseFrame({ json: value, refs }, ANNOTATIONS_TAPE),
    path: `#${seq} ${name}`,
  }));
  try {
    const shadows = await decodeParts(parts, reader.stateReader(number));
    return shadows.map((shadow) => shadowToValue(shadow, reader.context.registry));
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const [first] = found;
    throw unreadable(reader, first?.seq ?? 0, first?.name ?? "", error.message, error);
  }
}

/** What is attached is no state: if it cannot be stored, the error says so. */
function encode(reader: SessionReader, name: string, value: unknown, first: number): EncodedState {
  try {
    return encodeShadow(layoutState(valueToShadow(value, reader.context.registry)), ANNOTATIONS_TAPE, first);
  } catch (error) {
    if (!isSavepointError(error, "INVALID_STATE")) throw error;
    const what = `What is attached as ${JSON.stringify(name)} cannot be stored`;
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

function unreadable(
  reader: SessionReader,
  seq: number,
  name: string,
  reason: string,
  cause?: unknown,
): SavepointError<"DAMAGED"> {
  reader.reportDamage(undefined, seq, `what is attached to it as ${JSON.stringify(name)} cannot be read: ${reason}`);
  return new SavepointError(
    "DAMAGED",
    `What is attached to ${reader.sessionId}#${seq} as ${JSON.stringify(name)} is damaged: ${reason} sp.repair({ from }) may bring it back from a backup.`,
    { cause },
  );
}
