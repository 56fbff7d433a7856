/**
 * Values that are attached to a checkpoint after it was saved: what belongs to it and is no part of its state. They go
 * with their checkpoint, and can be replaced for as long as it is there.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import { decodeText, encodeText } from "../state/text-value.js";
import { scan } from "../store/scan.js";
import { checkId } from "./ids.js";
import { attachmentKey, attachmentsOf, decodeNumbers, rowKey } from "./keys.js";
import { commitNote } from "./notes.js";
import type { Row } from "./records.js";
import type { SessionReader } from "./session-reader.js";

/** What is attached to checkpoints: by seq, then by name. */
export type Attachments = ReadonlyMap<number, ReadonlyMap<string, unknown>>;

/** Puts what `change` makes of the value that is attached under a name in its place. */
export async function attachValue(
  reader: SessionReader,
  number: number,
  row: Row,
  name: string,
  change: (before: unknown) => unknown,
): Promise<void> {
  const { store, registry } = reader.context;
  const key = attachmentKey(number, row.seq, checkId(name, "name of an attachment"));
  for (;;) {
    const [known] = await store.get([key]);
    if (known && !("value" in known)) throw unreadable(reader, row.seq, name, known.unreadable);
    const next = change(known && decodeText(known.value, registry));
    const value = next === undefined ? undefined : encodeAttached(name, () => encodeText(next, registry));
    if (value === known?.value) return;
    const applied = await commitNote(reader, row, {
      checks: [
        { key: rowKey(number, row.seq), exists: true },
        { key, value: known?.value },
      ],
      ...(value === undefined ? { deletes: [key] } : { puts: [{ key, value }] }),
    });
    if (applied) return;
  }
}

/** What is attached to the checkpoints from one seq to another, both included. */
export async function readAttachments(
  reader: SessionReader,
  number: number,
  from: number,
  to: number,
): Promise<Attachments> {
  const { store, registry } = reader.context;
  const found = new Map<number, Map<string, unknown>>();
  for await (const record of scan(store, attachmentsOf(number, from, to + 1))) {
    const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
    const seq = numbers[1] as number;
    if (!("value" in record)) throw unreadable(reader, seq, rest, record.unreadable);
    const ofRow = found.get(seq) ?? new Map<string, unknown>();
    found.set(seq, ofRow.set(rest, decodeText(record.value, registry)));
  }
  return found;
}

/** What is attached is no state: if it cannot be stored, the error says so. */
function encodeAttached(name: string, encode: () => string): string {
  try {
    return encode();
  } catch (error) {
    if (!isSavepointError(error, "INVALID_STATE")) throw error;
    const message = error.message.replace(
      "The state cannot be stored",
      `What is attached as ${JSON.stringify(name)} cannot be stored`,
    );
    throw new SavepointError("INVALID_STATE", message, { cause: error, details: error.details });
  }
}

function unreadable(reader: SessionReader, seq: number, name: string, reason: string): SavepointError<"DAMAGED"> {
  reader.reportDamage(undefined, seq, `what is attached to it as ${JSON.stringify(name)} cannot be read: ${reason}`);
  return new SavepointError(
    "DAMAGED",
    `What is attached to ${reader.sessionId}#${seq} as ${JSON.stringify(name)} is damaged: ${reason}. sp.repair({ from }) may bring it back from a backup.`,
  );
}
