/**
 * The stored form of states: encodes a shadow as a skeleton and items, decodes it, and converts it to and from readable JSON.
 * Decoding an encoded state either returns exactly the value that was saved or throws `DAMAGED`.
 */
export { BoundedReader } from "./bounded-reader.js";
export { decodeParts, decodeState, type Hole } from "./decode.js";
export { type EncodedState, encodeShadow } from "./encode.js";
export { type Frame, type SharedFrame, type FrameTree, parseFrame, parseNode, PartRef } from "./frame.js";
export { fromJson, type Json, toJson, type ToJsonOptions } from "./json.js";
export {
  CachingReader,
  type ReadTask,
  readStoredItems,
  runReadTask,
  runTogether,
  type StoredItem,
} from "./read-task.js";
export type { StateReader, Unreadable } from "./state-reader.js";
export { damagedFrame, parseStoredJson, parseStoredString } from "./stored-json.js";
export { parseValue, stringifyValue } from "./value-string.js";
