/**
 * Where a value stops being inline and becomes items, in one place. All sizes are characters of JSON text, estimated.
 *
 * A *frame* is what is written as one piece of text: the skeleton in a checkpoint's row, or one item. The skeleton is
 * written again with every checkpoint, so little may stay inline in it; an item is written once, so much may.
 */

/**
 * Nesting beyond this is refused: it would overflow the stack of whoever reads it back. With Node's default stack, Maps
 * in Maps do so at about 450 and the diff of arrays in arrays at about 400; the rest is left to whoever calls us.
 */
export const MAX_DEPTH = 200;

/** What may stay inline in a frame: a child of at most `child`, an object of at most `self` after its children moved out. */
export interface FrameLimits {
  readonly child: number;
  readonly self: number;
}

export const SKELETON_LIMITS: FrameLimits = { child: 96, self: 256 };
export const ITEM_LIMITS: FrameLimits = { child: 1024, self: 8192 };

/** An object with more keys than this is stored as a list of entries, so that editing one entry costs one entry. */
export const MAX_INLINE_KEYS = 16;

/** An object up to this size that leaves the skeleton is one item; a larger one is a list of entries. */
export const MAX_VALUE_SIZE = 1024;

/** A list whose elements are smaller than this on average is stored as chunks of its JSON text instead. */
export const MIN_ELEMENT_SIZE = 32;

/** Long strings are cut into chunks of about this many characters. */
export const SEGMENT_LENGTH = 4096;

/** Bytes from this length on are stored once per store, under their hash. */
export const MIN_BLOB_BYTES = 1024;

/** Ranges of one list that may stand in its frame; beyond it they move into node items. */
export const MAX_INLINE_PIECES = 32;

/** Ranges, or child nodes, of one node item. */
export const NODE_FANOUT = 64;
