/**
 * The format of a commit in the write buffer: one row.
 *
 * The body is a line of JSON that lists the records and items with their lengths, followed by their concatenated strings. The keys
 * of the records are also stored in a separate column with its own checksum. So even if the body is damaged, the keys show which
 * records the commit changed.
 */
import type { Frame, ItemBatch, Put, StoredRecord } from "../contract/index.js";
import { checksum, checksumOfText, isChecksum } from "../shared/index.js";
import { isCounter, isString, listOf, type Shape, tupleOf } from "../../util/index.js";

/** A row of `savepoint_buffer`, without its id. */
export interface BufferRow {
  readonly keys: string;
  readonly keys_sum: number;
  readonly sum: number;
  readonly body: Uint8Array;
}

export type BufferedItems = Extract<ItemBatch, { readonly first: number }>;

/** A commit in the buffer. */
export interface BufferedCommit<Record extends Put = Put> {
  readonly puts: readonly Record[];
  readonly items: readonly BufferedItems[];
}

/** Keys and lengths of the records; tapes, first numbers and lengths of the items. */
type Header = [records: [string, number, number][], batches: [string, number, number[]][]];

const isHeader = tupleOf(
  listOf(tupleOf(isString, isCounter, isCounter)),
  listOf(tupleOf(isString, isCounter, listOf(isCounter))),
);
const isKeys = listOf(isString);

/** The most characters of a header or a list of keys that are parsed. No commit that is buffered needs as many. */
const MAX_JSON_LENGTH = 1_048_576;

/** Encodes a commit. */
export function encodeCommit({ puts, items }: BufferedCommit): BufferRow {
  const parts: string[] = [];
  const records: Header[0] = [];
  const names: string[] = [];
  for (const { key, value, refs = "" } of puts) {
    names.push(key);
    records.push([key, value.length, refs.length]);
    parts.push(value, refs);
  }
  const batches: Header[1] = [];
  for (const batch of items) {
    const lengths: number[] = [];
    for (const { json, refs } of batch.items) {
      lengths.push(json.length, refs.length);
      parts.push(json, refs);
    }
    batches.push([batch.tape, batch.first, lengths]);
  }
  const text = `${JSON.stringify([records, batches])}\n${parts.join("")}`;
  const keys = JSON.stringify(names);
  const body = Buffer.from(text);
  return { keys, keys_sum: checksum(keys), sum: checksumOfText(text.length, body), body };
}

/** Decodes a row. If its body is damaged, returns the keys of its records; if those are damaged too, returns `undefined`. */
export function decodeCommit(
  row: BufferRow,
): BufferedCommit<StoredRecord> | { readonly lost: readonly string[] } | undefined {
  const text = row.body instanceof Uint8Array ? Buffer.from(row.body).toString("utf8") : undefined;
  let at = (text?.indexOf("\n") ?? -1) + 1;
  const header =
    text !== undefined && isChecksum(row.sum, text) ? parse<Header>(text.slice(0, at), isHeader) : undefined;
  if (text === undefined || !header) {
    const lost = isChecksum(row.keys_sum, row.keys) ? parse<string[]>(row.keys, isKeys) : undefined;
    return lost && { lost };
  }
  const [records, batches] = header;
  const next = (length: number): string => text.slice(at, (at += length));
  return {
    puts: records.map(([key, length, refs]) => ({ key, value: next(length), refs: next(refs) })),
    items: batches.map(([tape, first, lengths]) => {
      const items: Frame[] = [];
      for (let index = 0; index < lengths.length; index += 2) {
        items.push({ json: next(lengths[index] as number), refs: next(lengths[index + 1] as number) });
      }
      return { tape, first, items };
    }),
  };
}

/** Parses JSON of a row whose checksum fits; `undefined` if it does not have the shape that this version writes. */
function parse<T>(json: string, isShape: Shape): T | undefined {
  if (json.length > MAX_JSON_LENGTH) return undefined;
  try {
    const value: unknown = JSON.parse(json);
    return isShape(value) ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}

/** A buffered commit, and its row if it was read from the table. */
export interface BufferEntry {
  readonly row?: BufferRow;
  readonly commit: BufferedCommit | { readonly lost: readonly string[] } | undefined;
}
