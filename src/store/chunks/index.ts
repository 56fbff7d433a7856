export { readBlob } from "./blob-codec.js";
export { packChunk, type ChunkHead, type ChunkRow, unpackRefs, unpackChunk } from "./chunk-codec.js";
export { liveSpans, packItems, CHUNK_ITEMS } from "./chunk-groups.js";
export { compress, HAS_FAST_COMPRESSION, type CompressedBody, RAW } from "./compression.js";
export { PackBacklog, findFirstUnpacked, type ChunkSize } from "./pack-backlog.js";
export { packGroup, planPacking } from "./pack-group.js";
export { planHealing } from "./plan-healing.js";
export { LazyChunk, readSpan } from "./read-span.js";
