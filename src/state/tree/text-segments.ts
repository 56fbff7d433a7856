/** Cutting long strings into chunks, and finding which chunks of an old text a new one still has. */
import { SEGMENT_LENGTH } from "./limits.js";

/** The lengths of the chunks of `text`: about `CHUNK` characters each, never ending inside a surrogate pair. */
export function segmentLengths(text: string): number[] {
  const lengths: number[] = [];
  for (let start = 0; start < text.length;) {
    const left = text.length - start;
    // A short rest joins the last chunk instead of becoming a crumb.
    let length = left <= SEGMENT_LENGTH + SEGMENT_LENGTH / 4 ? left : SEGMENT_LENGTH;
    if (start + length < text.length && isHighSurrogate(text.charCodeAt(start + length - 1))) length--;
    lengths.push(length);
    start += length;
  }
  return lengths;
}

/** Chunks `start` to `start + remove` of the old text give way to `lengths`; all others stay as they are. */
export interface SegmentEdit {
  readonly start: number;
  readonly remove: number;
  readonly lengths: readonly number[];
}

export function editSegments(oldText: string, oldLengths: readonly number[], newText: string): SegmentEdit {
  let start = 0;
  let from = 0;
  for (const length of oldLengths) {
    // Comparing two parts is many times faster than asking whether one is found in a text.
    if (newText.substring(from, from + length) !== oldText.substring(from, from + length)) break;
    start++;
    from += length;
  }
  let end = oldLengths.length;
  let oldTo = oldText.length;
  let newTo = newText.length;
  while (end > start) {
    const length = oldLengths[end - 1] as number;
    if (newTo - length < from) break;
    if (newText.substring(newTo - length, newTo) !== oldText.substring(oldTo - length, oldTo)) break;
    end--;
    oldTo -= length;
    newTo -= length;
  }
  // A small edit between two chunks takes one of them along, so that edits leave no crumbs. Growth at the end does not:
  // it would break the one long range that a growing text is.
  if (newTo - from < SEGMENT_LENGTH / 4 && newTo > from && end < oldLengths.length)
    newTo += oldLengths[end++] as number;
  // Cutting the text anew must not split a pair that the old boundary, now next to other text, would have split.
  if (start > 0 && isSplitPair(newText, from)) from -= oldLengths[--start] as number;
  if (end < oldLengths.length && isSplitPair(newText, newTo)) newTo += oldLengths[end++] as number;
  return { start, remove: end - start, lengths: segmentLengths(newText.slice(from, newTo)) };
}

function isSplitPair(text: string, at: number): boolean {
  return isHighSurrogate(text.charCodeAt(at - 1)) && isLowSurrogate(text.charCodeAt(at));
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
