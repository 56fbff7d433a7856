/**
 * Checksums of stored things: the first 64 bits of a SHA-256 over the place and the bytes, so that a record that was
 * moved or swapped is noticed as well as one that was changed. They guard against damage, not against forgery.
 */
import { createHash } from "node:crypto";

export const CHECKSUM_BYTES = 8;

/** @param parts what is covered, in order; each is prefixed by its length, so that no two lists of parts read the same */
export function checksum(...parts: readonly (string | number | Uint8Array)[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) {
    if (typeof part === "number") hash.update(`${part};`);
    else hash.update(`${part.length}:`).update(part);
  }
  return hash.digest().subarray(0, CHECKSUM_BYTES);
}

export function isChecksum(
  stored: Uint8Array | null | undefined,
  ...parts: readonly (string | number | Uint8Array)[]
): boolean {
  return stored?.length === CHECKSUM_BYTES && checksum(...parts).equals(stored);
}
