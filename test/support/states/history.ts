/** For tests: tapes and checkpoints kept in memory, which is what a session does, without a store. */
import { decodeState } from "../../../src/state/codec/decode.js";
import { encodeShadow } from "../../../src/state/codec/encode.js";
import type { Frame } from "../../../src/state/codec/frame.js";
import type { StateReader } from "../../../src/state/codec/state-reader.js";
import type { Piece } from "../../../src/state/tree/refs.js";
import { ClassRegistry } from "../../../src/state/tree/class-registry.js";
import { newShadow, reviseShadow } from "../../../src/state/tree/revision.js";
import type { Shadow } from "../../../src/state/tree/shadow.js";
import { shadowToValue } from "../../../src/state/tree/shadow-to-value.js";

export class History {
  readonly tapes: Frame[][] = [[]];
  readonly blobs = new Map<string, Uint8Array>();
  readonly checkpoints: { readonly skeleton: Frame; readonly tape: number }[] = [];
  /** The shadow of the last saved state. Unset it, or put a decoded one here, to act as after an eviction. */
  shadow: Shadow | undefined;
  /** What the reader was asked for so far. */
  asked = { calls: 0, items: 0, blobs: 0 };
  /** Items that cannot be read, as `tape:item`. */
  readonly damaged = new Set<string>();

  constructor(readonly registry = new ClassRegistry()) {}

  /**
   * Saves a state on the newest tape and returns its size.
   *
   * @param frozen the state before it, where that is deep-frozen
   */
  save(state: unknown, frozen?: unknown): number {
    const { registry, shadow } = this;
    this.shadow = shadow === undefined ? newShadow(state, registry) : reviseShadow(shadow, state, registry, frozen);
    return this.commit();
  }

  /** Writes what is new in the shadow. */
  commit(): number {
    if (this.shadow === undefined) throw new Error("there is nothing to commit");
    const tape = this.tapes.length - 1;
    const items = this.tapes[tape] as Frame[];
    const encoded = encodeShadow(this.shadow, tape, items.length);
    for (const item of encoded.items) items.push(item);
    for (const [hash, bytes] of encoded.blobs) this.blobs.set(hash, bytes);
    this.checkpoints.push({ skeleton: encoded.skeleton, tape });
    return encoded.stateBytes;
  }

  /** Continues from an earlier checkpoint on a tape of its own, as a branch does. */
  async fork(step: number): Promise<void> {
    this.shadow = await this.decode(step);
    this.tapes.push([]);
  }

  checkpoint(step: number): { readonly skeleton: Frame; readonly tape: number } {
    const found = this.checkpoints.at(step);
    if (!found) throw new Error(`there is no checkpoint ${step}`);
    return found;
  }

  async load(step: number): Promise<unknown> {
    return shadowToValue(await this.decode(step), this.registry);
  }

  async decode(step: number): Promise<Shadow> {
    const { skeleton, tape } = this.checkpoint(step);
    return decodeState(skeleton, tape, this.reader);
  }

  readonly reader: StateReader = {
    items: async (pieces: readonly Piece[]) => {
      const numbers = pieces.flatMap(({ tape, start, count }) =>
        Array.from({ length: count }, (_, index) => ({ tape, item: start + index })),
      );
      this.asked.calls++;
      this.asked.items += numbers.length;
      return numbers.map(({ tape, item }) => {
        const frame = this.tapes[tape]?.[item];
        return !frame || this.damaged.has(`${tape}:${item}`) ? { unreadable: "a test has damaged it" } : frame;
      });
    },
    blob: async (hash) => {
      this.asked.blobs++;
      return this.blobs.get(hash) ?? { unreadable: "it is missing" };
    },
  };
}

/**
 * Everything there is to know about a value, as text: two values that a caller could tell apart have different texts.
 *
 * @param sorted says less: the order of keys, of a Map and of a Set does not count
 */
export function exactText(value: unknown, sorted = false): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? "-0" : String(value);
  const list = (parts: string[]): string => (sorted ? parts.sort() : parts).join();
  const text = (part: unknown): string => exactText(part, sorted);
  if (Array.isArray(value)) {
    return `[${Array.from(value, (part, index) => (index in value ? text(part) : "hole")).join()}]`;
  }
  const name = (Object.getPrototypeOf(value) as object | null)?.constructor.name ?? "null";
  if (value instanceof Date) return `${name}(${value.getTime()})`;
  if (value instanceof URL) return `${name}(${value.href})`;
  if (value instanceof Uint8Array) return `${name}(${Buffer.from(value).toString("hex")})`;
  if (value instanceof Set) return `${name}(${list(Array.from(value, text))})`;
  if (value instanceof Map)
    return `${name}(${list(Array.from(value, ([key, part]) => `${text(key)}=>${text(part)}`))})`;
  return `${name}{${list(Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}:${text(part)}`))}}`;
}

/** Random numbers that a seed repeats. */
export function seeded(seed: number): (below: number) => number {
  let state = seed | 1;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return below <= 0 ? 0 : Math.floor((state / 2 ** 32) * below);
  };
}
