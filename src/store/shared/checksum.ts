/**
 * Checksums of stored things: a CRC-32 over the place and the bytes, so that a record that was moved or swapped is noticed
 * as well as one that was changed. They guard against damage, not against forgery. Blobs have their SHA-256 instead.
 */
import { crc32 } from "node:zlib";

/** What a checksum takes where it is kept as bytes. */
export const CHECKSUM_BYTES = 4;

type Part = string | number | Uint8Array;

/**
 * @param parts what is covered, in order; each is marked with its type and length, so that no two lists of parts read the
 * same and a text is never taken for its bytes
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

/** Is this the checksum of these parts? What a damaged file gives may be of any type. */
export function isChecksum(stored: unknown, ...parts: readonly unknown[]): boolean {
  return typeof stored === "number" && parts.every(isPart) && checksum(...parts) === stored;
}

function isPart(part: unknown): part is Part {
  return typeof part === "string" || typeof part === "number" || part instanceof Uint8Array;
}
