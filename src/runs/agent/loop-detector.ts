/**
 * Notices a model that goes round in circles: the same reply again and again within its last few.
 *
 * Replies are compared by their first 500 characters without whitespace and in lower case; short ones are not counted,
 * because "ok" may well come often.
 */
import { SavepointError } from "../../errors.js";
import type { LoopVerdict } from "../../events/index.js";

export interface LoopOptions {
  /**
   * How many of the last replies are looked at.
   * @default 10
   */
  readonly window?: number;
  /**
   * How often a reply may be among them before it is a `warn`; once more is `alternative`, twice as often is `halt`.
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

export class LoopDetector {
  readonly #window: number;
  readonly #threshold: number;
  readonly #minLength: number;
  /** Hashes of the last replies, the newest last. */
  #seen: string[] = [];
  #verdicts = { warn: 0, alternative: 0, halt: 0 };
  #checked = 0;

  constructor(options: LoopOptions = {}) {
    const { window = 10, threshold = 3, minLength = 20 } = options;
    if (![window, threshold].every((count) => Number.isSafeInteger(count) && count > 0) || 2 * threshold > window) {
      throw new SavepointError(
        "INVALID_ARGUMENT",
        `A loop detector cannot look at ${window} replies with a threshold of ${threshold}. Give whole numbers, and a window of at least twice the threshold.`,
      );
    }
    [this.#window, this.#threshold, this.#minLength] = [window, threshold, minLength];
  }

  /** Notes a reply, and says what to make of it. */
  check(text: string): LoopVerdict {
    this.#checked++;
    if (text.length < this.#minLength) return "none";
    const hash = hashOf(text);
    this.#seen = [...this.#seen, hash].slice(-this.#window);
    const repeats = this.#seen.filter((seen) => seen === hash).length;
    const verdict = this.#verdictOn(repeats);
    if (verdict !== "none") this.#verdicts[verdict]++;
    return verdict;
  }

  /** Forgets all replies. */
  reset(): void {
    this.#seen = [];
  }

  /** Replies checked, different ones among those remembered, and the verdicts so far. */
  stats(): { checked: number; remembered: number; distinct: number; warn: number; alternative: number; halt: number } {
    return {
      checked: this.#checked,
      remembered: this.#seen.length,
      distinct: new Set(this.#seen).size,
      ...this.#verdicts,
    };
  }

  /** What it remembers, as a short text. */
  save(): string {
    return this.#seen.join(" ");
  }

  /** Goes on from what {@link save} gave. */
  load(saved: string): void {
    this.#seen = saved === "" ? [] : saved.split(" ").slice(-this.#window);
  }

  #verdictOn(repeats: number): LoopVerdict {
    if (repeats >= 2 * this.#threshold) return "halt";
    if (repeats > this.#threshold) return "alternative";
    return repeats === this.#threshold ? "warn" : "none";
  }
}

/** FNV-1a in 32 bits: short to keep, and a mistake costs a warning. */
function hashOf(text: string): string {
  const compared = text.slice(0, MAX_COMPARED).replace(/\s+/gu, "").toLowerCase();
  let hash = 0x811c9dc5;
  for (let at = 0; at < compared.length; at++) {
    hash = Math.imul(hash ^ compared.charCodeAt(at), 0x01000193);
  }
  return (hash >>> 0).toString(36);
}
