/**
 * Checksums of stored things: the first 64 bits of a SHA-256 over the place and the bytes, so that a record that was
 * moved or swapped is noticed as well as one that was changed. They guard against damage, not against forgery.
 */
import { createHash } from "node:crypto";

export const CHECKSUM_BYTES = 8;

type Part = string | number | Uint8Array;

/**
 * @param parts what is covered, in order; each is marked with its type and length, so that no two lists of parts read the
 * same and a text is never taken for its bytes
 */
export function checksum(...parts: readonly Part[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) {
    if (typeof part === "number") hash.update(`${part};`);
    else hash.update(typeof part === "string" ? `${part.length}:` : `${part.length}#`).update(part);
  }
  return hash.digest().subarray(0, CHECKSUM_BYTES);
}

/** Is this the checksum of these parts? What a damaged file gives may be of any type. */
export function isChecksum(stored: unknown, ...parts: readonly unknown[]): boolean {
  return (
    stored instanceof Uint8Array &&
    stored.length === CHECKSUM_BYTES &&
    parts.every(isPart) &&
    checksum(...parts).equals(stored)
  );
}

function isPart(part: unknown): part is Part {
  return typeof part === "string" || typeof part === "number" || part instanceof Uint8Array;
}
