/**
 * Chunks: consecutive items of a tape that are packed, and where it pays compressed, into one row of a database. Every item keeps
 * the checksum that it was committed with, and a damaged item is never stored again under a new one.
 */
export { type ChunkHead, type ChunkRow, packChunk, unpackChunk, unpackRefs } from "./chunk-codec.js";
export { CHUNK_ITEMS, liveSpans, packItems } from "./chunk-groups.js";
export { compress, type CompressedBody, HAS_FAST_COMPRESSION, RAW, readBlob } from "./compression.js";
export { planHealing } from "./healing-plan.js";
export { type ChunkSize, findFirstUnpacked, PackBacklog } from "./pack-backlog.js";
export { packGroup, planPacking } from "./packing-plan.js";
export { LazyChunk, readSpan } from "./span-reader.js";
