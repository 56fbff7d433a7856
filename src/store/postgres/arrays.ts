/**
 * Arrays as PostgreSQL sends them in binary: one value each, with nothing to escape and nothing to parse, whatever their
 * texts and bytes are. `pg` would write them as one long quoted text, and bytes as hexadecimal digits.
 */
import { Buffer } from "node:buffer";

/** The numbers by which PostgreSQL knows the types of elements. */
const TEXT = 25;
const BYTES = 17;
const INT8 = 20;

const NULL_LENGTH = -1;

export function textArray(texts: readonly (string | undefined)[]): Buffer {
  return encode(
    TEXT,
    texts.map((text) => (text === undefined ? undefined : Buffer.from(text))),
  );
}

export function bytesArray(values: readonly (Uint8Array | undefined)[]): Buffer {
  return encode(BYTES, values);
}

export function integerArray(numbers: readonly number[]): Buffer {
  return encode(
    INT8,
    numbers.map((number) => {
      const bytes = Buffer.allocUnsafe(8);
      bytes.writeBigInt64BE(BigInt(number));
      return bytes;
    }),
  );
}

function encode(type: number, elements: readonly (Uint8Array | undefined)[]): Buffer {
  if (elements.length === 0) return header(type, [], false);
  const parts: Uint8Array[] = [header(type, [elements.length], elements.includes(undefined))];
  for (const element of elements) {
    const length = Buffer.allocUnsafe(4);
    length.writeInt32BE(element ? element.length : NULL_LENGTH);
    parts.push(length);
    if (element) parts.push(element);
  }
  return Buffer.concat(parts);
}

/** How many dimensions, whether any element is missing, what they are, and for each dimension its length and first index. */
function header(type: number, lengths: readonly number[], hasNulls: boolean): Buffer {
  const bytes = Buffer.alloc(12 + 8 * lengths.length);
  bytes.writeInt32BE(lengths.length, 0);
  bytes.writeInt32BE(hasNulls ? 1 : 0, 4);
  bytes.writeInt32BE(type, 8);
  for (const [index, length] of lengths.entries()) {
    bytes.writeInt32BE(length, 12 + 8 * index);
    bytes.writeInt32BE(1, 16 + 8 * index);
  }
  return bytes;
}
