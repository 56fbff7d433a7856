/**
 * Values that are stored as items already, because a run has recorded them. A state that such a value becomes part of
 * refers to its items instead of writing a second copy.
 */
import type { Piece } from "./refs.js";
import type { ClassRegistry } from "./class-registry.js";
import { isPlainObject, equalsShadow } from "./equality.js";
import { estimateSize, isStoredNode, setKey, type Shadow, tagOf, ValueNode } from "./shadow.js";
import { signatureOf } from "./signature.js";

/** A value that is one item, or the parts of one. */
export interface StoredValue {
  readonly shadow: Shadow;
  readonly piece: Piece;
  readonly bytes: number;
}

/** Smaller values are copied: referring to them would cost as much. */
const MIN_SIZE = 1024;
/** How deep in what is new a recorded value is looked for: a tool's result is mostly in a message. */
const MAX_DEPTH = 4;

export class RecordedValues {
  readonly #registry: ClassRegistry;
  readonly #bySignature = new Map<unknown, StoredValue[]>();

  constructor(registry: ClassRegistry) {
    this.#registry = registry;
  }

  /** @param stored its shadow becomes part of the state that takes it */
  add(stored: StoredValue): void {
    if (stored.bytes < MIN_SIZE) return;
    const signature = signatureOf(stored.shadow);
    const others = this.#bySignature.get(signature);
    if (others) others.push(stored);
    else this.#bySignature.set(signature, [stored]);
  }

  /** The item of a value that equals this one; given once only, because two places must not share a shadow. */
  claim(value: unknown): StoredValue | undefined {
    if (this.#bySignature.size === 0) return undefined;
    const candidates = this.#bySignature.get(signatureOf(value)) ?? [];
    const at = candidates.findIndex(({ shadow }) => equalsShadow(shadow, value, this.#registry));
    return at < 0 ? undefined : candidates.splice(at, 1)[0];
  }

  /** A new part of a state, `copy` of `value`, in which what is recorded is referred to. It is changed in place. */
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

/** What stands for it inside a frame. */
function toNode({ shadow, piece, bytes }: StoredValue): Shadow {
  if (isStoredNode(shadow)) return shadow;
  const node = new ValueNode(shadow);
  node.piece = piece;
  node.bytes = bytes;
  return node;
}
