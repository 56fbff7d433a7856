/**
 * Finds new items that equal earlier items of the same commit, so that equal parts of a state are stored once.
 *
 * Only items without references are shared, and each of them a limited number of times. So a state never decodes to much more
 * than {@link BoundedReader} admits. The lists around shared items are written for every place.
 */
import type { Frame } from "./frame.js";

/** A reference costs about 10 bytes in every later checkpoint, so shorter runs of elements are stored again. */
const MIN_RUN_LENGTH = 1024;

/** The number of places that refer to one item. Well below the 16 that a reader admits for each item on average. */
const MAX_USES = 12;

export class ItemSharing {
  readonly #items: readonly Frame[];
  /** The newest item for each JSON. Filled when there are enough items for two equal runs. */
  readonly #byJson = new Map<string, number>();
  /** The number of items in `#byJson`, and the length of all items that were counted. */
  #indexed = 0;
  #counted = 0;
  #length = 0;
  /** How many places refer to an item, if more than one. */
  readonly #uses = new Map<number, number>();

  /** @param items the new items of the commit, in their order. The caller adds to them */
  constructor(items: readonly Frame[]) {
    this.#items = items;
  }

  /**
   * Finds the longest run of items that equals the frames from `index` on; `undefined` if it is shorter than `minLength` characters.
   * The places of a run that is found are counted.
   */
  find(
    frames: readonly Frame[],
    index: number,
    minLength: number = MIN_RUN_LENGTH,
  ): { readonly start: number; readonly count: number } | undefined {
    if (!this.#index(minLength)) return undefined;
    const start = this.#byJson.get((frames[index] as Frame).json);
    if (start === undefined) return undefined;
    let count = 0;
    let length = 0;
    while (this.#isShareable(start + count, frames[index + count])) {
      length += this.#items[start + count]?.json.length ?? 0;
      count++;
    }
    if (count === 0 || length < minLength) return undefined;
    for (let item = start; item < start + count; item++) this.#uses.set(item, (this.#uses.get(item) ?? 1) + 1);
    return { start, count };
  }

  #isShareable(item: number, frame: Frame | undefined): boolean {
    const stored = this.#items[item];
    return (
      stored !== undefined &&
      stored.json === frame?.json &&
      stored.refs === "" &&
      frame.refs === "" &&
      (this.#uses.get(item) ?? 1) < MAX_USES
    );
  }

  /** Adds new items to the index. Returns `false`, and adds none, while all items together are shorter than `minLength`. */
  #index(minLength: number): boolean {
    const items = this.#items;
    for (; this.#counted < items.length; this.#counted++) this.#length += (items[this.#counted] as Frame).json.length;
    if (items.length === 0 || this.#length < minLength) return false;
    for (; this.#indexed < items.length; this.#indexed++) {
      const { json, refs } = items[this.#indexed] as Frame;
      if (refs === "") this.#byJson.set(json, this.#indexed);
    }
    return true;
  }
}
