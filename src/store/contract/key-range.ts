/** Key ranges and the order of keys. */
import { partitionPoint } from "../../util/index.js";

/** Keys from `from` (included) to `to` (excluded), in the order of their UTF-8 bytes. */
export interface KeyRange {
  readonly from: string;
  readonly to: string;
}

/** Whether the key is in the range. */
export function covers({ from, to }: KeyRange, key: string): boolean {
  return compareKeys(key, from) >= 0 && compareKeys(key, to) < 0;
}

/** Compares keys by their UTF-8 bytes. That is the order of code points, unlike the order of JavaScript strings. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index);
    const y = b.charCodeAt(index);
    if (x !== y) return codeUnitRank(x) - codeUnitRank(y);
  }
  return a.length - b.length;
}

/** Orders UTF-16 code units like code points: surrogates come last, because they encode the highest code points. */
function codeUnitRank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** The index of the first of the sorted keys that is not less than `key`. */
export function lowerBound(keys: readonly string[], key: string): number {
  return partitionPoint(keys, (other) => compareKeys(other, key) < 0);
}
