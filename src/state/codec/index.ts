export { decodeParts, decodeState, type Hole, type StateReader, type Unreadable } from "./decode.js";
export { type EncodedState, encodeShadow, type Frame } from "./encode.js";
export { type Parsed, parseFrame, parseNode, Unread } from "./frame.js";
export { fromJson, type Json, toJson, type ToJsonOptions } from "./json.js";
export { readItems, ReadOnce, runTask, type StoredItem, type Task, together } from "./reading.js";
export { decodeText, encodeText } from "./text-value.js";
