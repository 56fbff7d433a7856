/**
 * The format of a commit in the write buffer: one row.
 *
 * The body is a line of JSON that lists the records and items with the lengths of their strings. The bytes of all sealed strings follow,
 * and then all other strings. The keys of the records are also stored in a separate column with its own checksum. So even if the body
 * is damaged, the keys show which records the commit changed.
 */
import type { Frame, ItemBatch, Put, StoredRecord } from "../contract/index.js";
import { checksum, checksumOfText, isChecksum, sealedBytes, sealedText } from "../shared/index.js";
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

/**
 * Keys and lengths of the records; tapes, first numbers and lengths of the items. The length of a string is its number of characters.
 * The length of a sealed string is its number of bytes, negated.
 */
type Header = [records: [string, number, number][], batches: [string, number, number[]][]];

const isLength: Shape = (value) => isCounter(typeof value === "number" ? Math.abs(value) : value);
const isHeader = tupleOf(
  listOf(tupleOf(isString, isLength, isLength)),
  listOf(tupleOf(isString, isCounter, listOf(isLength))),
);
const isKeys = listOf(isString);

/** The most characters of a header or a list of keys that are parsed. No commit that is buffered needs as many. */
const MAX_JSON_LENGTH = 1_048_576;

/** Encodes a commit. */
export function encodeCommit({ puts, items }: BufferedCommit): BufferRow {
  const texts: string[] = [];
  const sealed: Uint8Array[] = [];
  const add = (part: string): number => {
    const bytes = sealedBytes(part);
    if (bytes) sealed.push(bytes);
    else texts.push(part);
    return bytes ? -bytes.length : part.length;
  };
  const records: Header[0] = [];
  const names: string[] = [];
  for (const { key, value, refs = "" } of puts) {
    names.push(key);
    records.push([key, add(value), add(refs)]);
  }
  const batches: Header[1] = [];
  for (const batch of items) {
    const lengths: number[] = [];
    for (const { json, refs } of batch.items) lengths.push(add(json), add(refs));
    batches.push([batch.tape, batch.first, lengths]);
  }
  const header = `${JSON.stringify([records, batches])}\n`;
  const text = texts.join("");
  const body =
    sealed.length === 0
      ? Buffer.from(header + text)
      : Buffer.concat([Buffer.from(header), ...sealed, Buffer.from(text)]);
  const keys = JSON.stringify(names);
  return { keys, keys_sum: checksum(keys), sum: checksumOfText(header.length + text.length, body), body };
}

/** Decodes a row. If its body is damaged, returns the keys of its records; if those are damaged too, returns `undefined`. */
export function decodeCommit(
  row: BufferRow,
): BufferedCommit<StoredRecord> | { readonly lost: readonly string[] } | undefined {
  const decoded = row.body instanceof Uint8Array ? decodeBody(row.sum, row.body) : undefined;
  if (decoded) return decoded;
  const lost = isChecksum(row.keys_sum, row.keys) ? parse<string[]>(row.keys, isKeys) : undefined;
  return lost && { lost };
}

function decodeBody(sum: number, bytes: Uint8Array): BufferedCommit<StoredRecord> | undefined {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const end = body.indexOf("\n") + 1;
  const line = body.toString("utf8", 0, end);
  const header = parse<Header>(line, isHeader);
  if (!header) return undefined;
  const textStart = end + sealedLengthOf(header);
  if (textStart > body.length) return undefined;
  const text = body.toString("utf8", textStart);
  if (checksumOfText(line.length + text.length, body) !== sum) return undefined;
  let at = end;
  let textAt = 0;
  const next = (length: number): string =>
    length < 0 ? sealedText(body.subarray(at, (at -= length))) : text.slice(textAt, (textAt += length));
  const [records, batches] = header;
  return {
    puts: records.map(([key, value, refs]) => ({ key, value: next(value), refs: next(refs) })),
    items: batches.map(([tape, first, lengths]) => {
      const items: Frame[] = [];
      for (let index = 0; index < lengths.length; index += 2) {
        items.push({ json: next(lengths[index] as number), refs: next(lengths[index + 1] as number) });
      }
      return { tape, first, items };
    }),
  };
}

/** The number of bytes of all sealed strings of a commit. */
function sealedLengthOf([records, batches]: Header): number {
  let bytes = 0;
  for (const [, value, refs] of records) bytes -= Math.min(0, value) + Math.min(0, refs);
  for (const [, , lengths] of batches) for (const length of lengths) bytes -= Math.min(0, length);
  return bytes;
}

/** Parses JSON of a row; `undefined` if it does not have the shape that this version writes. */
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
