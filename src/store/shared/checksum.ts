/**
 * Checksums of stored data: a CRC-32 over the location and the bytes, so that a record that was moved or swapped is
 * detected as well as one that was changed. They detect damage, not forgery. Blobs have their SHA-256 instead.
 */
import { crc32 } from "node:zlib";

/** The size of a checksum that is stored as bytes. */
export const CHECKSUM_BYTES = 4;

type Part = string | number | Uint8Array;

/**
 * Computes a checksum over parts.
 *
 * @param parts the covered data, in order. Each part is prefixed with its type and length, so that different lists of parts
 *   never produce the same input, and a string differs from its bytes
 */
export function checksum(...parts: readonly Part[]): number {
  let sum = 0;
  let text = "";
  for (const part of parts) {
    if (typeof part === "number") text += `${part};`;
    else if (typeof part === "string") text += `${part.length}:${part}`;
    else {
      sum = crc32(part, crc32(`${text}${part.length}#`, sum));
      text = "";
    }
  }
  return text === "" ? sum : crc32(text, sum);
}

/** The checksum of one string whose bytes in UTF-8 are known. @param length the characters of the string */
export function checksumOfText(length: number, bytes: Uint8Array): number {
  return crc32(bytes, crc32(`${length}:`));
}

/**
 * Whether `stored` is the checksum of these parts. Values of any type are accepted, because a damaged file may contain
 * any.
 */
export function isChecksum(stored: unknown, ...parts: readonly unknown[]): boolean {
  return typeof stored === "number" && parts.every(isPart) && checksum(...parts) === stored;
}

function isPart(part: unknown): part is Part {
  return typeof part === "string" || typeof part === "number" || part instanceof Uint8Array;
}
