/**
 * How consecutive items of a tape are packed into one row.
 *
 * The body is the items' JSON, one after another. The head has a checksum of the body and then, per item, the length of
 * its text, its refs and a checksum of its own: garbage collection reads and verifies heads alone, a load verifies head
 * and body with one hash each, and damage in one item leaves the others readable.
 */
import { checksum, CHECKSUM_BYTES, isChecksum } from "../checksum.js";
import type { Frame, ItemRefs, Unreadable } from "../store.js";

/** Bodies are stored as they are. Other numbers are for compressed ones. */
export const RAW = 0;

/** A row of `savepoint_run`, without its id. */
export interface RunRow {
  readonly tape: string;
  readonly first: number;
  readonly count: number;
  readonly codec: number;
  readonly sum: Uint8Array;
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

export function packRun(tape: string, first: number, frames: readonly Frame[]): RunRow {
  const body = Buffer.from(frames.map((frame) => frame.json).join(""), "utf8");
  const head = packHead(tape, first, frames, body);
  const count = frames.length;
  return { tape, first, count, codec: RAW, head, body, sum: checksum(tape, first, count, RAW, head) };
}

/** The items of a row. Where its head is damaged, nobody knows what it holds: the whole row is {@link Unreadable}. */
export function unpackRun(row: RunRow): (Frame | Unreadable)[] | Unreadable {
  const head = unpackHead(row);
  if (!head || !(row.body instanceof Uint8Array)) return damagedRow(row);
  if (row.codec !== RAW) return unreadable(row, 0, `is packed in a way (${row.codec}) that this version does not know`);
  const text = Buffer.from(row.body.buffer, row.body.byteOffset, row.body.length).toString("utf8");
  if (!isChecksum(head.bodySum, row.body)) return unpackDamaged(row, head.entries, text);
  let at = 0;
  return head.entries.map(({ length, refs }) => ({ json: text.slice(at, (at += length)), refs }));
}

/** Those items of a damaged body that pass their own checksums. */
function unpackDamaged(row: RunRow, entries: readonly HeadEntry[], text: string): (Frame | Unreadable)[] {
  // Damaged bytes may read as more or fewer characters than they were: what lies behind them is found from the end.
  const shift = text.length - entries.reduce((sum, { length }) => sum + length, 0);
  let at = 0;
  return entries.map(({ length, sum, refs }, index) => {
    const start = at;
    at += length;
    for (const place of [start, start + shift]) {
      const json = text.slice(place, place + length);
      if (isChecksum(sum, row.tape, row.first + index, refs, json)) return { json, refs };
    }
    return unreadable(row, index, "is damaged");
  });
}

/** The items of a row that point at something, from its head alone. */
export function unpackRefs(row: RunHead): ItemRefs[] | Unreadable {
  const head = unpackHead(row);
  if (!head) return damagedRow(row);
  return head.entries.flatMap(({ refs }, index) => (refs === "" ? [] : [{ item: row.first + index, refs }]));
}

/** A row without its body. */
export type RunHead = Omit<RunRow, "body">;

function damagedRow(row: RunHead): Unreadable {
  return unreadable(row, 0, "and those packed with it are damaged");
}

function unreadable(row: RunHead, index: number, why: string): Unreadable {
  return { unreadable: `item ${row.first + index} of tape ${row.tape} ${why}` };
}

interface HeadEntry {
  readonly length: number;
  readonly sum: Uint8Array;
  readonly refs: string;
}

function packHead(tape: string, first: number, frames: readonly Frame[], body: Uint8Array): Buffer {
  const parts: (Uint8Array | number[])[] = [checksum(body)];
  for (const [index, { json, refs }] of frames.entries()) {
    const refBytes = Buffer.from(refs, "utf8");
    parts.push(varint(json.length), varint(refBytes.length), refBytes, checksum(tape, first + index, refs, json));
  }
  return Buffer.concat(parts.map((part) => (Array.isArray(part) ? Buffer.from(part) : part)));
}

/** `undefined` where the head is damaged. */
function unpackHead({
  tape,
  first,
  count,
  codec,
  sum,
  head,
}: RunHead): { bodySum: Buffer; entries: HeadEntry[] } | undefined {
  if (!isChecksum(sum, tape, first, count, codec, head)) return undefined;
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.length);
  const entries: HeadEntry[] = [];
  let at = CHECKSUM_BYTES;
  const readVarint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++] as number;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (entries.length < count) {
    const length = readVarint();
    const refsLength = readVarint();
    const refs = refsLength === 0 ? "" : bytes.toString("utf8", at, at + refsLength);
    at += refsLength;
    entries.push({ length, refs, sum: bytes.subarray(at, (at += CHECKSUM_BYTES)) });
  }
  return { bodySum: bytes.subarray(0, CHECKSUM_BYTES), entries };
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
  return bytes;
}
