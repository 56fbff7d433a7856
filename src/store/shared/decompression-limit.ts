/** Bytes of any size may be decompressed to this size. */
const FREE_BYTES = 1 << 20;
/** Beyond that, decompressed bytes may be this many times as large as the compressed ones. */
const MAX_FACTOR = 256;

/**
 * The most bytes that compressed bytes may be decompressed to. Otherwise a small store of unknown origin could use up
 * the memory of its reader. Writers store bytes uncompressed that would exceed this limit.
 *
 * @param compressed the number of compressed bytes
 */
export function maxDecompressedSize(compressed: number): number {
  return Math.max(FREE_BYTES, compressed * MAX_FACTOR);
}
