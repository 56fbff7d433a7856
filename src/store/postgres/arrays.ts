/**
 * Arrays in the binary format of PostgreSQL: nothing has to be escaped or parsed. `pg` would send them as one quoted string,
 * with bytes as hexadecimal digits.
 */
import { Buffer } from "node:buffer";

/** The OIDs of element types. */
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

/** The number of dimensions, whether there are nulls, the type, and the length and first index of each dimension. */
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
