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

/** Smaller values are copied, because a reference would cost as much. */
const MIN_SIZE = 1024;
/** The depth to which new parts are searched for recorded values. The result of a tool is usually inside a message. */
const MAX_DEPTH = 4;

/** Recorded values by content. Each can be claimed once. */
export class RecordedValues {
  readonly #registry: ClassRegistry;
  readonly #bySignature = new Map<unknown, StoredValue[]>();

  constructor(registry: ClassRegistry) {
    this.#registry = registry;
  }

  /** @param stored its shadow becomes part of the state that claims it */
  add(stored: StoredValue): void {
    if (stored.bytes >= MIN_SIZE) addToList(this.#bySignature, signatureOf(stored.shadow), stored);
  }

  /** Removes and returns a recorded value that equals `value`. Two places must not share one shadow. */
  claim(value: unknown): StoredValue | undefined {
    if (this.#bySignature.size === 0) return undefined;
    const candidates = this.#bySignature.get(signatureOf(value)) ?? [];
    const at = candidates.findIndex(({ shadow }) => equalsShadow(shadow, value, this.#registry));
    return at < 0 ? undefined : candidates.splice(at, 1)[0];
  }

  /**
   * Replaces recorded values in a new part of a state by references to their items.
   *
   * @param copy the inline shadow of `value`; changed in place
   */
  replaceWithRefs(copy: Shadow, value: unknown, depth = 0): Shadow {
    if (this.#bySignature.size === 0 || depth > MAX_DEPTH || estimateSize(copy) < MIN_SIZE) return copy;
    const stored = this.claim(value);
    if (stored) return toNode(stored);
    if (Array.isArray(copy) && Array.isArray(value)) {
      for (let index = 0; index < copy.length; index++) {
        copy[index] = this.replaceWithRefs(copy[index] as Shadow, value[index], depth + 1);
      }
    } else if (isPlainObject(copy) && isPlainObject(value as Shadow) && !tagOf(copy)) {
      for (const key of Object.keys(copy)) {
        const part = copy[key] as Shadow;
        setKey(copy, key, this.replaceWithRefs(part, (value as Record<string, unknown>)[key], depth + 1));
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
