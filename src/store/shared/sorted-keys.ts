/** A sorted set of many keys. It is split into short lists, so that adding a key moves few others. */
import { partitionPoint } from "../../util/index.js";
import { compareKeys, type KeyRange, lowerBound } from "../contract/index.js";

const MAX_LIST = 512;

export class SortedKeys {
  #lists: string[][] = [];

  /** Adds a key that the set does not have yet. */
  add(key: string): void {
    const last = this.#lists.at(-1);
    if (!last) {
      this.#lists.push([key]);
      return;
    }
    const at = Math.min(this.#listOf(key), this.#lists.length - 1);
    const list = this.#lists[at] as string[];
    list.splice(lowerBound(list, key), 0, key);
    if (list.length > MAX_LIST) this.#lists.splice(at + 1, 0, list.splice(MAX_LIST >> 1));
  }

  delete(key: string): void {
    const at = this.#listOf(key);
    const list = this.#lists[at];
    const index = list ? lowerBound(list, key) : 0;
    if (!list || list[index] !== key) return;
    list.splice(index, 1);
    if (list.length === 0) this.#lists.splice(at, 1);
  }

  /** Iterates over all keys, in order. The set must not change meanwhile. */
  *all(): Generator<string> {
    for (const list of this.#lists) yield* list;
  }

  /** Iterates over the keys of a range, in order. The set must not change meanwhile. */
  *within({ from, to }: KeyRange): Generator<string> {
    for (let at = this.#listOf(from); at < this.#lists.length; at++) {
      const list = this.#lists[at] as string[];
      for (let index = lowerBound(list, from); index < list.length; index++) {
        const key = list[index] as string;
        if (compareKeys(key, to) >= 0) return;
        yield key;
      }
    }
  }

  /** Like {@link within}, in reverse order. */
  *withinReversed({ from, to }: KeyRange): Generator<string> {
    for (let at = Math.min(this.#listOf(to), this.#lists.length - 1); at >= 0; at--) {
      const list = this.#lists[at] as string[];
      for (let index = lowerBound(list, to) - 1; index >= 0; index--) {
        const key = list[index] as string;
        if (compareKeys(key, from) < 0) return;
        yield key;
      }
    }
  }

  /** The index of the first list whose last key is not less than this one. */
  #listOf(key: string): number {
    return partitionPoint(this.#lists, (list) => compareKeys(list.at(-1) as string, key) < 0);
  }
}
