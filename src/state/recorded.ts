/**
 * Values that are stored as items already, because a run has recorded them. A state that such a value is added to refers
 * to its item instead of writing a second copy.
 */
import type { Piece } from "./refs.js";
import type { ClassRegistry } from "./registry.js";
import { isSame } from "./same.js";
import type { Shadow } from "./shadow.js";
import { signatureOf } from "./signature.js";

/** A value that is one item. */
export interface StoredValue {
  readonly shadow: Shadow;
  readonly piece: Piece;
  readonly bytes: number;
}

export class Recorded {
  readonly #registry: ClassRegistry;
  readonly #bySignature = new Map<unknown, StoredValue[]>();

  constructor(registry: ClassRegistry) {
    this.#registry = registry;
  }

  /** @param stored its shadow becomes part of the state that takes it */
  add(stored: StoredValue): void {
    const signature = signatureOf(stored.shadow);
    const others = this.#bySignature.get(signature);
    if (others) others.push(stored);
    else this.#bySignature.set(signature, [stored]);
  }

  /** The item of a value that equals this one; given once only, because two places must not share a shadow. */
  take(value: unknown): StoredValue | undefined {
    if (this.#bySignature.size === 0) return undefined;
    const candidates = this.#bySignature.get(signatureOf(value)) ?? [];
    const at = candidates.findIndex(({ shadow }) => isSame(shadow, value, this.#registry));
    return at < 0 ? undefined : candidates.splice(at, 1)[0];
  }

  clear(): void {
    this.#bySignature.clear();
  }
}
