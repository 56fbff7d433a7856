/** Data may always be decompressed up to this size, however small its compressed form is. */
const FREE_BYTES = 1 << 20;
/** Beyond that, decompressed bytes may be this many times as large as the compressed ones. */
const MAX_FACTOR = 256;

/**
 * The maximum size of decompressed data, in bytes. Without this limit, a small store of unknown origin could exhaust the memory
 * of its reader. If data would exceed the limit, writers store it uncompressed.
 *
 * @param compressed the number of compressed bytes
 */
export function maxDecompressedSize(compressed: number): number {
  return Math.max(FREE_BYTES, compressed * MAX_FACTOR);
}
