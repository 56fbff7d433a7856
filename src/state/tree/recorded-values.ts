/**
 * Values that a run has already recorded as items. A state that contains such a value refers to its items instead of storing
 * a second copy.
 */
import { addToList } from "../../util/index.js";
import type { ClassRegistry } from "./class-registry.js";
import { equalsShadow } from "./equality.js";
import type { Piece } from "./refs.js";
import { estimateSize, isPlainObject, isStoredNode, setKey, type Shadow, tagOf, ValueNode } from "./shadow.js";
import { signatureOf } from "./signature.js";

/** A value that is stored as one item. */
export interface StoredValue {
  readonly shadow: Shadow;
  readonly piece: Piece;
  readonly bytes: number;
}

/** Smaller values are copied, unless the caller passes another size. A reference costs about 30 bytes, and a read of its item. */
const MIN_SIZE = 256;
/** Smaller elements of lists are copied as a whole: a reference in a list splits the ranges of the items around it. */
const MIN_ELEMENT_SIZE = 1024;
/** The depth to which new parts are searched for recorded values. The result of a tool is usually inside a message. */
const MAX_DEPTH = 4;

/** Recorded values by content. Each can be claimed once. */
export class RecordedValues {
  readonly #registry: ClassRegistry;
  readonly #minSize: number;
  readonly #bySignature = new Map<unknown, StoredValue[]>();

  constructor(registry: ClassRegistry, minSize = MIN_SIZE) {
    this.#registry = registry;
    this.#minSize = minSize;
  }

  /** @param stored its shadow becomes part of the state that claims it */
  add(stored: StoredValue): void {
    if (stored.bytes >= this.#minSize) addToList(this.#bySignature, signatureOf(stored.shadow), stored);
  }

  /** Removes and returns a recorded value that equals a new element of a list and is worth a range of its own. */
  claimElement(value: unknown): StoredValue | undefined {
    return this.#claim(value, MIN_ELEMENT_SIZE);
  }

  /** Removes and returns a recorded value that equals `value`. Two places must not share one shadow. */
  #claim(value: unknown, minSize: number): StoredValue | undefined {
    if (this.#bySignature.size === 0) return undefined;
    const candidates = this.#bySignature.get(signatureOf(value)) ?? [];
    const at = candidates.findIndex(
      ({ shadow, bytes }) => bytes >= minSize && equalsShadow(shadow, value, this.#registry),
    );
    return at < 0 ? undefined : candidates.splice(at, 1)[0];
  }

  /**
   * Replaces recorded values in a new part of a state by references to their items.
   *
   * @param copy the inline shadow of `value`; changed in place
   * @param isElement whether it will be an item: one that contains nothing but a reference must be worth a second read
   */
  replaceWithRefs(copy: Shadow, value: unknown, isElement = false): Shadow {
    return this.#replace(copy, value, 0, isElement ? MIN_ELEMENT_SIZE : this.#minSize);
  }

  #replace(copy: Shadow, value: unknown, depth: number, minSize: number): Shadow {
    if (this.#bySignature.size === 0 || depth > MAX_DEPTH || estimateSize(copy) < this.#minSize) return copy;
    const stored = this.#claim(value, minSize);
    if (stored) return toNode(stored);
    if (Array.isArray(copy) && Array.isArray(value)) {
      for (let index = 0; index < copy.length; index++) {
        copy[index] = this.#replace(copy[index] as Shadow, value[index], depth + 1, this.#minSize);
      }
    } else if (isPlainObject(copy) && isPlainObject(value as Shadow) && !tagOf(copy)) {
      for (const key of Object.keys(copy)) {
        const part = (value as Record<string, unknown>)[key];
        setKey(copy, key, this.#replace(copy[key] as Shadow, part, depth + 1, this.#minSize));
      }
    }
    return copy;
  }

  clear(): void {
    this.#bySignature.clear();
  }
}

/** The node that represents a recorded value in a frame. */
function toNode({ shadow, piece, bytes }: StoredValue): Shadow {
  if (isStoredNode(shadow)) return shadow;
  const node = new ValueNode(shadow);
  node.piece = piece;
  node.bytes = bytes;
  return node;
}
