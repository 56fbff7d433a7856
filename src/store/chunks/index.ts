export { readBlob } from "./blob-codec.js";
export { packRun, type RunHead, type RunRow, unpackRefs, unpackRun } from "./chunk-codec.js";
export { liveSpans, packItems, RUN_ITEMS } from "./chunk-groups.js";
export { compress, COMPRESSES_WELL, type Packed, RAW } from "./compression.js";
export { LooseItems, startOfTail, type TailRow } from "./loose-items.js";
export { packGroup, planSealing } from "./pack-group.js";
export { planHealing } from "./plan-healing.js";
export { ReadRun, readSpan } from "./read-span.js";
