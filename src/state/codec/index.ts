export { decodeParts, decodeState, type Hole, type StateReader, type Unreadable } from "./decode.js";
export { type EncodedState, encodeShadow, type Frame } from "./encode.js";
export { type FrameTree, parseFrame, parseNode, PartRef } from "./frame.js";
export { fromJson, type Json, toJson, type ToJsonOptions } from "./json.js";
export {
  readStoredItems,
  CachingReader,
  runReadTask,
  type StoredItem,
  type ReadTask,
  runTogether,
} from "./read-task.js";
export { parseValue, stringifyValue } from "./text-value.js";
