/**
 * Checksums of stored things: the first 64 bits of a SHA-256 over the place and the bytes, so that a record that was
 * moved or swapped is noticed as well as one that was changed. They guard against damage, not against forgery.
 */
import { hash } from "node:crypto";

export const CHECKSUM_BYTES = 8;

type Part = string | number | Uint8Array;

/**
 * @param parts what is covered, in order; each is marked with its type and length, so that no two lists of parts read the
 * same and a text is never taken for its bytes
 */
export function checksum(...parts: readonly Part[]): Buffer {
  // One call per checksum: setting up a hash object costs more than hashing a record.
  return hash("sha256", parts.every(isText) ? parts.map(mark).join("") : toBytes(parts), "buffer").subarray(
    0,
    CHECKSUM_BYTES,
  );
}

function isText(part: Part): part is string | number {
  return typeof part !== "object";
}

function mark(part: Part): string {
  if (typeof part === "number") return `${part};`;
  return typeof part === "string" ? `${part.length}:${part}` : `${part.length}#`;
}

function toBytes(parts: readonly Part[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => (isText(part) ? [Buffer.from(mark(part))] : [Buffer.from(mark(part)), part])),
  );
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
