/**
 * Detects a model that repeats itself: the same reply several times among its last few.
 *
 * Replies are compared by their first 500 characters, without whitespace and in lower case. Short replies such as "ok" are
 * not counted, because they may be frequent without a loop.
 */
import { invalidArgument } from "../../util/index.js";
import type { LoopVerdict } from "../../events/index.js";

/** When a repeated reply counts as a loop. `window` must be at least twice `threshold`. */
export interface LoopOptions {
  /**
   * How many of the last replies are compared.
   * @default 10
   */
  readonly window?: number;
  /**
   * How many occurrences of a reply among them are a `warn`; one more is an `alternative`, twice as many are a `halt`.
   * @default 3
   */
  readonly threshold?: number;
  /**
   * Shorter replies are not counted.
   * @default 20
   */
  readonly minLength?: number;
}

const MAX_COMPARED = 500;

/** Counts repeated replies. Runs use one per agent; it can also be used alone. */
export class LoopDetector {
  readonly #window: number;
  readonly #threshold: number;
  readonly #minLength: number;
  /** Hashes of the last replies, the newest last. */
  #recent: string[] = [];
  #verdicts = { warn: 0, alternative: 0, halt: 0 };
  #checked = 0;

  constructor(options: LoopOptions = {}) {
    const { window = 10, threshold = 3, minLength = 20 } = options;
    if (![window, threshold].every((count) => Number.isSafeInteger(count) && count > 0) || 2 * threshold > window) {
      throw invalidArgument(
        `The loop options are invalid: "window" and "threshold" must be positive integers and "window" at least twice "threshold", got window ${window} and threshold ${threshold}.`,
      );
    }
    [this.#window, this.#threshold, this.#minLength] = [window, threshold, minLength];
  }

  /** Counts a reply, and returns the verdict on it. */
  check(text: string): LoopVerdict {
    this.#checked++;
    if (text.length < this.#minLength) return "none";
    const hash = hashOf(text);
    this.#recent = [...this.#recent, hash].slice(-this.#window);
    const repeats = this.#recent.filter((recent) => recent === hash).length;
    const verdict = this.#verdictOn(repeats);
    if (verdict !== "none") this.#verdicts[verdict]++;
    return verdict;
  }

  /** Forgets all replies. */
  reset(): void {
    this.#recent = [];
  }

  /** The number of replies checked, of replies remembered and of distinct ones among them, and of verdicts so far. */
  stats(): { checked: number; remembered: number; distinct: number; warn: number; alternative: number; halt: number } {
    return {
      checked: this.#checked,
      remembered: this.#recent.length,
      distinct: new Set(this.#recent).size,
      ...this.#verdicts,
    };
  }

  /** Returns the remembered replies as a short string, for {@link load}. */
  save(): string {
    return this.#recent.join(" ");
  }

  /** Restores the remembered replies from the result of {@link save}. */
  load(saved: string): void {
    this.#recent = saved === "" ? [] : saved.split(" ").slice(-this.#window);
  }

  #verdictOn(repeats: number): LoopVerdict {
    if (repeats >= 2 * this.#threshold) return "halt";
    if (repeats > this.#threshold) return "alternative";
    return repeats === this.#threshold ? "warn" : "none";
  }
}

/** FNV-1a in 32 bits: short to store, and a collision costs no more than a warning. */
function hashOf(text: string): string {
  const compared = text.slice(0, MAX_COMPARED).replace(/\s+/gu, "").toLowerCase();
  let hash = 0x811c9dc5;
  for (let at = 0; at < compared.length; at++) {
    hash = Math.imul(hash ^ compared.charCodeAt(at), 0x01000193);
  }
  return (hash >>> 0).toString(36);
}
