/**
 * How consecutive items of a tape are packed into one row.
 *
 * A single item, as most saves leave it, is its JSON with its refs as the head and one checksum over both. Of several
 * items the body is their JSON, one after another, which may be compressed. The head has a checksum of the body as it is
 * stored and then, per item, the length of its text, its refs, and the checksum that it had alone: garbage collection
 * reads and verifies heads alone, a load verifies head and body with one hash each, and damage in one item leaves the
 * others readable.
 */
import { checksum, CHECKSUM_BYTES, isChecksum } from "../shared/index.js";
import type { Frame, ItemRefs, Unreadable } from "../contract/index.js";
import { decompress, type CompressedBody, RAW } from "./compression.js";

/** A row of `savepoint_run`, without its id. */
export interface ChunkRow {
  readonly tape: string;
  readonly first: number;
  readonly count: number;
  readonly codec: number;
  readonly sum: number;
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

/** A row without its body. */
export type ChunkHead = Omit<ChunkRow, "body">;

/** An item and its own checksum. */
export interface ChecksummedFrame extends Frame {
  readonly sum: number;
}

/** The items as one row, not compressed. */
export function packChunk(tape: string, first: number, frames: readonly Frame[]): ChunkRow {
  const [single] = frames;
  if (single && frames.length === 1) {
    const { json, refs } = single;
    const sum = itemSum(tape, first, single);
    return { tape, first, count: 1, codec: RAW, sum, head: Buffer.from(refs), body: Buffer.from(json) };
  }
  const summed = frames.map((frame, index) => ({ ...frame, sum: itemSum(tape, first + index, frame) }));
  return packChecksummed(tape, first, summed, { codec: RAW, body: joinBodies(frames) });
}

/** The text of several items, as bytes. */
export function joinBodies(frames: readonly Frame[]): Uint8Array {
  return Buffer.from(frames.map((frame) => frame.json).join(""));
}

/** The row of several items whose checksums are known and whose joined bodies were packed already. */
export function packChecksummed(
  tape: string,
  first: number,
  frames: readonly ChecksummedFrame[],
  { codec, body }: CompressedBody,
): ChunkRow {
  const count = frames.length;
  const head = packHead(frames, body);
  return { tape, first, count, codec, head, body, sum: checksum(tape, first, count, codec, head) };
}

/** The items of a row. Where its head is damaged, nobody knows what it holds: the whole row is {@link Unreadable}. */
export function unpackChunk(row: ChunkRow): (Frame | Unreadable)[] | Unreadable {
  if (!(row.body instanceof Uint8Array) || !(row.head instanceof Uint8Array)) return damagedRow(row);
  if (row.count === 1) return unpackSingle(row);
  const head = unpackHead(row);
  if (!head) return damagedRow(row);
  // Checked before it is unpacked: damaged bytes may unpack to anything, of any size.
  if (!isChecksum(head.bodySum, row.body)) {
    return row.codec === RAW ? unpackDamaged(row, head, textOf(row.body)) : damagedRow(row);
  }
  const body = decompress(row.codec, row.body);
  if ("unreadable" in body) return unreadable(row, 0, body.unreadable);
  const text = textOf(body);
  const { lengths, refs } = head;
  const frames: Frame[] = [];
  let at = 0;
  for (let index = 0; index < lengths.length; index++) {
    frames.push({ json: text.slice(at, (at += lengths[index] as number)), refs: refs[index] as string });
  }
  return frames;
}

/**
 * One item of a row that is not compressed, verified by its own checksum: the others are not looked at. `undefined` where
 * that cannot be done, or it is damaged; then the whole row says more.
 */
export function unpackItem(row: ChunkRow, index: number): Frame | undefined {
  const head = row.codec === RAW && row.count > 1 && row.body instanceof Uint8Array ? unpackHead(row) : undefined;
  if (!head) return undefined;
  const { lengths, refs } = head;
  let before = 0;
  for (let at = 0; at < index; at++) before += lengths[at] as number;
  const body = Buffer.from(row.body.buffer, row.body.byteOffset, row.body.length);
  const start = byteAt(body, 0, before);
  const end = byteAt(body, start, lengths[index] as number);
  const frame = { json: body.toString("utf8", start, end), refs: refs[index] as string };
  return isChecksum(sumAt(head, index), row.tape, row.first + index, frame.refs, frame.json) ? frame : undefined;
}

/** Where in a text's bytes so many characters, as JavaScript counts them, behind a place are over. */
function byteAt(bytes: Uint8Array, from: number, characters: number): number {
  // Most texts are mostly ASCII: four bytes at a time, where none of them has its highest bit set.
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
    // The first byte of a character says how many follow; those of four bytes count twice.
    at += byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    left -= byte < 0xf0 ? 1 : 2;
  }
  return at;
}

/** The items of a row with their checksums, to be packed again; `undefined` where any of it is damaged. */
export function unpackChecksummed(row: ChunkRow): ChecksummedFrame[] | undefined {
  const frames = unpackChunk(row);
  if ("unreadable" in frames || !frames.every((frame) => "json" in frame)) return undefined;
  if (row.count === 1) return frames.map((frame) => ({ ...frame, sum: row.sum }));
  const head = unpackHead(row);
  return head && frames.map((frame, index) => ({ ...frame, sum: sumAt(head, index) }));
}

/** The items of a row that point at something, from its head alone, or with its body where it has a single item. */
export function unpackRefs(row: ChunkHead & { readonly body?: Uint8Array | null }): ItemRefs[] | Unreadable {
  if (row.count === 1) {
    const [frame] = unpackSingle(row as ChunkRow);
    if (!frame || "unreadable" in frame) return damagedRow(row);
    return frame.refs === "" ? [] : [{ item: row.first, refs: frame.refs }];
  }
  const head = unpackHead(row);
  if (!head) return damagedRow(row);
  return head.refs.flatMap((refs, index) => (refs === "" ? [] : [{ item: row.first + index, refs }]));
}

/** How long the body is, roughly, when it is not compressed. */
export function bodyLength(row: ChunkRow): number {
  const head = row.codec === RAW ? undefined : unpackHead(row);
  return head ? head.lengths.reduce((sum, length) => sum + length, 0) : row.body.length;
}

function unpackSingle(row: ChunkRow): (Frame | Unreadable)[] {
  const { tape, first, codec, sum, head, body } = row;
  if (codec !== RAW || !(body instanceof Uint8Array) || !(head instanceof Uint8Array)) return [damagedRow(row)];
  const frame = { json: textOf(body), refs: head.length === 0 ? "" : textOf(head) };
  return [isChecksum(sum, tape, first, frame.refs, frame.json) ? frame : damagedRow(row)];
}

/** Those items of a damaged body that pass their own checksums. */
function unpackDamaged(row: ChunkRow, head: Head, text: string): (Frame | Unreadable)[] {
  const { lengths, refs } = head;
  // Damaged bytes may read as more or fewer characters than they were: what lies behind them is found from the end.
  const shift = text.length - lengths.reduce((sum, length) => sum + length, 0);
  let at = 0;
  return lengths.map((length, index) => {
    const start = at;
    at += length;
    for (const place of [start, start + shift]) {
      const frame = { json: text.slice(place, place + length), refs: refs[index] as string };
      if (isChecksum(sumAt(head, index), row.tape, row.first + index, frame.refs, frame.json)) return frame;
    }
    return unreadable(row, index, "is damaged");
  });
}

function itemSum(tape: string, item: number, { json, refs }: Frame): number {
  return checksum(tape, item, refs, json);
}

function damagedRow(row: ChunkHead): Unreadable {
  return unreadable(row, 0, row.count === 1 ? "is damaged" : "and those packed with it are damaged");
}

function unreadable(row: ChunkHead, index: number, why: string): Unreadable {
  return { unreadable: `item ${row.first + index} of tape ${row.tape} ${why}` };
}

/** What the head of several items says. */
interface Head {
  readonly bytes: Buffer;
  readonly bodySum: number;
  readonly lengths: readonly number[];
  readonly refs: readonly string[];
  /** Where in the head each item's checksum stands. */
  readonly sums: readonly number[];
}

function sumAt({ bytes, sums }: Head, index: number): number {
  return bytes.readUInt32LE(sums[index]);
}

function packHead(frames: readonly ChecksummedFrame[], body: Uint8Array): Buffer {
  const parts: Uint8Array[] = [sumBytes(checksum(body))];
  for (const { json, refs, sum } of frames) {
    const refBytes = Buffer.from(refs);
    parts.push(Buffer.from([...varint(json.length), ...varint(refBytes.length)]), refBytes, sumBytes(sum));
  }
  return Buffer.concat(parts);
}

function sumBytes(sum: number): Buffer {
  const bytes = Buffer.allocUnsafe(CHECKSUM_BYTES);
  bytes.writeUInt32LE(sum);
  return bytes;
}

/** `undefined` where the head is damaged. */
function unpackHead({ tape, first, count, codec, sum, head }: ChunkHead): Head | undefined {
  if (!isChecksum(sum, tape, first, count, codec, head)) return undefined;
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.length);
  const lengths: number[] = [];
  const refs: string[] = [];
  const sums: number[] = [];
  let at = CHECKSUM_BYTES;
  const readVarint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++] as number;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (lengths.length < count) {
    lengths.push(readVarint());
    const refsLength = readVarint();
    refs.push(refsLength === 0 ? "" : bytes.toString("utf8", at, at + refsLength));
    sums.push((at += refsLength));
    at += CHECKSUM_BYTES;
  }
  return { bytes, bodySum: bytes.readUInt32LE(0), lengths, refs, sums };
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
