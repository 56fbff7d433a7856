/**
 * Chunks: consecutive items of a tape that are packed, and where it pays compressed, into one row of a database. Every item keeps
 * the checksum that it was committed with, and a damaged item is never stored again under a new one.
 */
export { type ChunkPlace, type ChunkRow, cutChunk, type RefsRow, unpackChunk } from "./chunk-codec.js";
export { CHUNK_ITEMS, liveSpans, packItems } from "./chunk-groups.js";
export { type CompressedBody, compressBlobs, HAS_FAST_COMPRESSION, RAW, readBlob } from "./compression.js";
export { planHealing } from "./healing-plan.js";
export { type ChunkSize, findFirstUnpacked, freedPart, PackBacklog } from "./pack-backlog.js";
export { packGroup, planPacking } from "./packing-plan.js";
export { LazyChunk, readRefs, readSpan } from "./span-reader.js";
