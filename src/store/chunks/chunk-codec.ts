/**
 * The format of a chunk: consecutive items of a tape in one row.
 *
 * A chunk of one item, as most saves write it, has the JSON as its body, the refs as its head, and one checksum over both.
 *
 * A chunk of several items has their concatenated JSON as its body, which may be compressed. Its head has a checksum of the
 * stored body and then, per item, the length of its JSON, its refs, and its own checksum. So garbage collection reads and
 * verifies heads alone, a load verifies head and body with one hash each, and damage in one item of an uncompressed chunk
 * leaves the others readable.
 *
 * Encrypted items are sealed strings. If all items of a chunk are, its body has their bytes instead, and its head the lengths of
 * these.
 */
import type { Span } from "../../util/index.js";
import { checksum, CHECKSUM_BYTES, isChecksum, sealedBytes, sealedText } from "../shared/index.js";
import type { Frame, ItemRefs, Unreadable } from "../contract/index.js";
import { decompress, type CompressedBody, RAW, SEALED } from "./compression.js";

/** The most bytes of one UTF-16 code unit in UTF-8. */
const MAX_BYTES_PER_UNIT = 3;

/** A chunk as it is stored, without the id of its row. */
export interface ChunkRow {
  readonly tape: string;
  readonly first: number;
  readonly count: number;
  readonly codec: number;
  readonly sum: number;
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

/** The items of a chunk. */
export type ChunkPlace = Pick<ChunkRow, "first" | "count">;

/** A chunk without its body. */
export type ChunkHead = Omit<ChunkRow, "body">;

/** The part of a chunk that has its references: the body only if the chunk has a single item. */
export type RefsRow = ChunkHead & { readonly body?: Uint8Array | null };

/** An item with its own checksum. */
export interface ChecksummedFrame extends Frame {
  readonly sum: number;
}

/** Packs items into an uncompressed chunk. */
export function packChunk(tape: string, first: number, frames: readonly Frame[]): ChunkRow {
  const [single] = frames;
  if (single && frames.length === 1) {
    const sum = itemSum(tape, first, single);
    return { tape, first, count: 1, sum, head: Buffer.from(single.refs), ...joinBodies(frames) };
  }
  const summed = frames.map((frame, index) => ({ ...frame, sum: itemSum(tape, first + index, frame) }));
  return packChecksummed(tape, first, summed, joinBodies(frames));
}

/** The uncompressed body of a chunk: the concatenated JSON of its items, or their encrypted bytes. */
export function joinBodies(frames: readonly Frame[]): CompressedBody {
  const sealed: Uint8Array[] = [];
  for (const { json } of frames) {
    const bytes = sealedBytes(json);
    if (!bytes) return { codec: RAW, body: Buffer.from(frames.map((frame) => frame.json).join("")) };
    sealed.push(bytes);
  }
  return { codec: SEALED, body: sealed.length === 1 ? (sealed[0] as Uint8Array) : Buffer.concat(sealed) };
}

/** Builds a chunk of several items from their checksums and their joined body, which may be compressed. */
export function packChecksummed(
  tape: string,
  first: number,
  frames: readonly ChecksummedFrame[],
  { codec, body }: CompressedBody,
): ChunkRow {
  const count = frames.length;
  const head = packHead(frames, codec, body);
  return { tape, first, count, codec, head, body, sum: checksum(tape, first, count, codec, head) };
}

/** Unpacks the items of a chunk. If its head is damaged, its contents are unknown, and the result is {@link Unreadable}. */
export function unpackChunk(row: ChunkRow): (Frame | Unreadable)[] | Unreadable {
  if (!(row.body instanceof Uint8Array) || !(row.head instanceof Uint8Array)) return damagedChunk(row);
  if (row.count === 1) return unpackSingle(row);
  const head = unpackHead(row);
  if (!head) return damagedChunk(row);
  // Verified before it is decompressed: damaged bytes may decompress to anything, of any size.
  if (!isChecksum(head.bodySum, row.body)) {
    if (row.codec === SEALED) return unpackDamaged(row, head, row.body.length, (from, to) => sealedPart(row, from, to));
    const text = row.codec === RAW ? textOf(row.body) : undefined;
    return text === undefined
      ? damagedChunk(row)
      : unpackDamaged(row, head, text.length, (from, to) => text.slice(from, to));
  }
  const { lengths, refs, totalLength } = head;
  if (row.codec === SEALED) {
    if (row.body.length !== totalLength) return damagedChunk(row);
    let end = 0;
    return lengths.map((length, index) => ({
      json: sealedPart(row, end, (end += length)),
      refs: refs[index] as string,
    }));
  }
  const body = decompress(row.codec, row.body, totalLength * MAX_BYTES_PER_UNIT);
  if ("unreadable" in body) return unreadable(row, 0, body.unreadable);
  const text = textOf(body);
  if (text.length !== totalLength) return damagedChunk(row);
  const frames: Frame[] = [];
  let at = 0;
  for (let index = 0; index < lengths.length; index++) {
    frames.push({ json: text.slice(at, (at += lengths[index] as number)), refs: refs[index] as string });
  }
  return frames;
}

/**
 * Unpacks one item of an uncompressed chunk, verified by its own checksum, without the cost of the others. Returns `undefined`
 * if that is not possible or the item is damaged; then {@link unpackChunk} returns the item or the reason.
 */
export function unpackItem(row: ChunkRow, index: number): Frame | undefined {
  const isRaw = row.codec === RAW || row.codec === SEALED;
  const head = isRaw && row.count > 1 && row.body instanceof Uint8Array ? unpackHead(row) : undefined;
  if (!head) return undefined;
  const { lengths, refs } = head;
  let before = 0;
  for (let at = 0; at < index; at++) before += lengths[at] as number;
  if (row.codec === SEALED) {
    const sealed = { json: sealedPart(row, before, before + (lengths[index] as number)), refs: refs[index] as string };
    return isChecksum(sumAt(head, index), row.tape, row.first + index, sealed.refs, sealed.json) ? sealed : undefined;
  }
  const body = Buffer.from(row.body.buffer, row.body.byteOffset, row.body.length);
  const start = byteAt(body, 0, before);
  const end = byteAt(body, start, lengths[index] as number);
  const frame = { json: body.toString("utf8", start, end), refs: refs[index] as string };
  return isChecksum(sumAt(head, index), row.tape, row.first + index, frame.refs, frame.json) ? frame : undefined;
}

/** The byte offset that is `characters` UTF-16 code units behind the offset `from` in UTF-8 bytes. */
function byteAt(bytes: Uint8Array, from: number, characters: number): number {
  // Most JSON is mostly ASCII: four bytes at a time are skipped if none of them has its highest bit set.
  const aligned = bytes.byteOffset % 4 === 0;
  const words = aligned ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2) : new Uint32Array(0);
  let at = from;
  for (let left = characters; left > 0 && at < bytes.length;) {
    if (at % 4 === 0) {
      let word = at >> 2;
      const end = Math.min(words.length, word + (left >> 2));
      while (word < end && ((words[word] as number) & 0x80808080) === 0) word++;
      left -= (word << 2) - at;
      at = word << 2;
      if (left <= 0) break;
    }
    const byte = bytes[at] as number;
    // The first byte of a character determines its length. Characters of four bytes are two code units.
    at += byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    left -= byte < 0xf0 ? 1 : 2;
  }
  return at;
}

/** Unpacks the items of a chunk with their checksums, to pack them again; `undefined` if any of them is damaged. */
export function unpackChecksummed(row: ChunkRow): ChecksummedFrame[] | undefined {
  const frames = unpackIntact(row);
  if (!frames) return undefined;
  if (row.count === 1) return frames.map((frame) => ({ ...frame, sum: row.sum }));
  const head = unpackHead(row);
  return head && frames.map((frame, index) => ({ ...frame, sum: sumAt(head, index) }));
}

/** Builds chunks of those items of a chunk that are in these spans; `undefined` if any of its items is damaged. */
export function cutChunk(row: ChunkRow, spans: readonly Span[]): ChunkRow[] | undefined {
  const { tape, first } = row;
  const frames = unpackIntact(row);
  return (
    frames &&
    spans.map(({ start, count }) => packChunk(tape, start, frames.slice(start - first, start - first + count)))
  );
}

function unpackIntact(row: ChunkRow): Frame[] | undefined {
  const frames = unpackChunk(row);
  return !("unreadable" in frames) && frames.every((frame) => "json" in frame) ? frames : undefined;
}

/** Lists the items of a chunk that have references. Needs the body only if the chunk has a single item. */
export function unpackRefs(row: RefsRow): ItemRefs[] | Unreadable {
  if (row.count === 1) {
    const [frame] = unpackSingle(row as ChunkRow);
    if (!frame || "unreadable" in frame) return damagedChunk(row);
    return frame.refs === "" ? [] : [{ item: row.first, refs: frame.refs }];
  }
  const head = unpackHead(row);
  if (!head) return damagedChunk(row);
  return head.refs.flatMap((refs, index) => (refs === "" ? [] : [{ item: row.first + index, refs }]));
}

/** The approximate length of the uncompressed body. */
export function bodyLength(row: ChunkRow): number {
  const head = row.codec === RAW ? undefined : unpackHead(row);
  return head ? head.totalLength : row.body.length;
}

function unpackSingle(row: ChunkRow): (Frame | Unreadable)[] {
  const { tape, first, codec, sum, head, body } = row;
  if ((codec !== RAW && codec !== SEALED) || !(body instanceof Uint8Array) || !(head instanceof Uint8Array))
    return [damagedChunk(row)];
  const json = codec === SEALED ? sealedText(body) : textOf(body);
  const frame = { json, refs: head.length === 0 ? "" : textOf(head) };
  return [isChecksum(sum, tape, first, frame.refs, frame.json) ? frame : damagedChunk(row)];
}

/** Unpacks those items of a damaged body that pass their own checksums. @param slice the part of the body between two offsets */
function unpackDamaged(
  row: ChunkRow,
  head: Head,
  size: number,
  slice: (from: number, to: number) => string,
): (Frame | Unreadable)[] {
  const { lengths, refs } = head;
  // Damaged bytes may decode to more or fewer characters than before: items behind them are located from the end.
  const shift = size - head.totalLength;
  let at = 0;
  return lengths.map((length, index) => {
    const start = at;
    at += length;
    for (const offset of [start, start + shift]) {
      const frame = { json: slice(offset, offset + length), refs: refs[index] as string };
      if (isChecksum(sumAt(head, index), row.tape, row.first + index, frame.refs, frame.json)) return frame;
    }
    return unreadable(row, index, "is damaged");
  });
}

function itemSum(tape: string, item: number, { json, refs }: Frame): number {
  return checksum(tape, item, refs, json);
}

function damagedChunk(row: ChunkHead): Unreadable {
  return unreadable(row, 0, row.count === 1 ? "is damaged" : "and those packed with it are damaged");
}

function unreadable(row: ChunkHead, index: number, why: string): Unreadable {
  return { unreadable: `item ${row.first + index} of tape ${row.tape} ${why}` };
}

/** The decoded head of a chunk of several items. */
interface Head {
  readonly bytes: Buffer;
  readonly bodySum: number;
  readonly lengths: readonly number[];
  readonly totalLength: number;
  readonly refs: readonly string[];
  /** The offset of each item's checksum in the head. */
  readonly sums: readonly number[];
}

function sumAt({ bytes, sums }: Head, index: number): number {
  return bytes.readUInt32LE(sums[index]);
}

function packHead(frames: readonly ChecksummedFrame[], codec: number, body: Uint8Array): Buffer {
  const parts: Uint8Array[] = [sumBytes(checksum(body))];
  for (const { json, refs, sum } of frames) {
    const refBytes = Buffer.from(refs);
    const length = codec === SEALED ? Buffer.byteLength(json.slice(1), "base64") : json.length;
    parts.push(Buffer.from([...varint(length), ...varint(refBytes.length)]), refBytes, sumBytes(sum));
  }
  return Buffer.concat(parts);
}

function sumBytes(sum: number): Buffer {
  const bytes = Buffer.allocUnsafe(CHECKSUM_BYTES);
  bytes.writeUInt32LE(sum);
  return bytes;
}

/** Decodes a head; `undefined` if it is damaged. */
function unpackHead({ tape, first, count, codec, sum, head }: ChunkHead): Head | undefined {
  if (!isChecksum(sum, tape, first, count, codec, head)) return undefined;
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.length);
  const lengths: number[] = [];
  const refs: string[] = [];
  const sums: number[] = [];
  let totalLength = 0;
  let at = CHECKSUM_BYTES;
  // Every load decodes the heads of all its chunks, often in a process that has not compiled this yet: no calls per item.
  while (lengths.length < count) {
    let length = 0;
    for (let factor = 1, byte = 128; byte >= 128; factor *= 128) length += ((byte = bytes[at++] ?? 0) & 127) * factor;
    let refsLength = 0;
    for (let factor = 1, byte = 128; byte >= 128; factor *= 128)
      refsLength += ((byte = bytes[at++] ?? 0) & 127) * factor;
    // A fitting checksum does not mean that a head was written by Savepoint.
    if (!(at + refsLength + CHECKSUM_BYTES <= bytes.length)) return undefined;
    lengths.push(length);
    totalLength += length;
    refs.push(refsLength === 0 ? "" : bytes.toString("utf8", at, at + refsLength));
    sums.push((at += refsLength));
    at += CHECKSUM_BYTES;
  }
  if (lengths.length === 0 || !Number.isSafeInteger(totalLength)) return undefined;
  return { bytes, bodySum: bytes.readUInt32LE(0), lengths, totalLength, refs, sums };
}

/** The sealed string of a part of a body of encrypted bytes. */
function sealedPart({ body }: ChunkRow, from: number, to: number): string {
  return sealedText(body.subarray(Math.max(0, from), Math.max(0, to)));
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
  return bytes;
}
