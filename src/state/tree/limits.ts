/**
 * The sizes from which parts of a state move out of their frame into items, in estimated characters of JSON.
 *
 * A frame is a string that is written as a whole: the skeleton of a checkpoint, or one item. The skeleton is written again with
 * every checkpoint, so little may stay inline in it. An item is written once, so more may.
 */

/**
 * Deeper nesting is rejected, because reading it back would overflow the stack. With the default stack of Node, nested Maps
 * overflow at about 450 levels and the diff of nested arrays at about 400. The margin is for the stack of the caller.
 */
export const MAX_DEPTH = 200;

/** The digits of a bigint, with its sign. Reading more takes seconds. */
export const MAX_BIGINT_LENGTH = 100_000;

/** The largest child that stays inline in a frame, and the largest object after its large children have moved out. */
export interface FrameLimits {
  readonly child: number;
  readonly self: number;
}

export const SKELETON_LIMITS: FrameLimits = { child: 96, self: 256 };
export const ITEM_LIMITS: FrameLimits = { child: 1024, self: 8192 };

/** An object with more keys is stored as a list of entries, so that editing one entry writes one entry. */
export const MAX_INLINE_KEYS = 16;

/** An object up to this size that moves out of its frame is one item. A larger one is a list of entries. */
export const MAX_VALUE_SIZE = 1024;

/** A list whose elements are smaller on average is stored as segments of its JSON. */
export const MIN_ELEMENT_SIZE = 32;

/** The length of the segments that long strings are cut into, in characters. */
export const SEGMENT_LENGTH = 4096;

/** Bytes of at least this length are blobs: stored once per store, under their hash. */
export const MIN_BLOB_BYTES = 1024;

/** The number of ranges of a list that stay in its frame. More of them move into node items. */
export const MAX_INLINE_PIECES = 32;

/** The number of ranges or child nodes in one node item. */
export const NODE_FANOUT = 64;
