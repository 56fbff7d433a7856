/**
 * The deltas that runs emit while they work: recorded on a tape of their own, so that any process can read them from the
 * beginning and follow them, and freed when their turn has ended.
 */
export type { StreamEvent } from "./cursor.js";
export type { EffectPlace } from "./entry.js";
export { type EventStreamOptions, toEventStream } from "./event-stream.js";
export { followStream, type StreamEnd, type StreamOptions } from "./follow.js";
export { StreamHub, streamKey } from "./hub.js";
export { StreamRecorder, type StreamWrite } from "./recorder.js";
