/** Cuts long strings into segments, and finds the segments of an old string that a new one still has. */
import { SEGMENT_LENGTH } from "./limits.js";

/** The lengths of the segments of a string: about `SEGMENT_LENGTH` each, never ending inside a surrogate pair. */
export function segmentLengths(text: string): number[] {
  const lengths: number[] = [];
  for (let start = 0; start < text.length;) {
    const left = text.length - start;
    // A short rest joins the last segment instead of becoming a tiny one.
    let length = left <= SEGMENT_LENGTH + SEGMENT_LENGTH / 4 ? left : SEGMENT_LENGTH;
    if (start + length < text.length && isHighSurrogate(text.charCodeAt(start + length - 1))) length--;
    lengths.push(length);
    start += length;
  }
  return lengths;
}

/** Segments `start` to `start + remove` of the old string are replaced by `lengths`. All others are unchanged. */
export interface SegmentEdit {
  readonly start: number;
  readonly remove: number;
  readonly lengths: readonly number[];
}

export function editSegments(oldText: string, oldLengths: readonly number[], newText: string): SegmentEdit {
  let start = 0;
  let from = 0;
  for (const length of oldLengths) {
    // Comparing substrings is many times faster than `startsWith` with an offset.
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
  // A small edit between two segments replaces one of them too, so that edits leave no tiny segments. Growth at the end
  // does not: it would split the single range of a growing text.
  if (newTo - from < SEGMENT_LENGTH / 4 && newTo > from && end < oldLengths.length)
    newTo += oldLengths[end++] as number;
  // The old boundaries are now next to other characters and must not split a surrogate pair.
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
