/**
 * A fingerprint of the deltas that a reader has received. It does not depend on how deltas were joined, so a reader can find the
 * same place in what another attempt of the turn has recorded, and continues there if both begin with the same deltas.
 */
import { createHash, type Hash } from "node:crypto";
import { continues, type StreamEntry } from "./entry.js";

/** A place in a stream: how much precedes it, and the hash of that. */
export interface StreamPlace {
  readonly length: number;
  readonly hash: string;
}

/** The characters of a hash: 96 bits. */
const HASH_LENGTH = 16;

const PLACE = /^(\d{1,15})-([\w-]{16})$/;

export const formatPlace = ({ length, hash }: StreamPlace): string => `${length}-${hash}`;

/** Parses an id of an event; `undefined` for any other string. */
export function parsePlace(id: string): StreamPlace | undefined {
  const [, length, hash] = PLACE.exec(id) ?? [];
  return length === undefined || hash === undefined ? undefined : { length: Number(length), hash };
}

export class Fingerprint {
  #length = 0;
  readonly #hash: Hash = createHash("sha256");
  #last: StreamEntry | undefined;

  get length(): number {
    return this.#length;
  }

  get place(): StreamPlace {
    return { length: this.#length, hash: this.#hash.copy().digest("base64url").slice(0, HASH_LENGTH) };
  }

  /** Whether what was added is what precedes a place. */
  isAt({ length, hash }: StreamPlace): boolean {
    return this.#length === length && this.place.hash === hash;
  }

  /**
   * Adds an entry, or its beginning.
   *
   * @param limit the length not to exceed
   * @returns the rest of the entry, if it does not fit; `undefined` if all of it was added
   */
  add(entry: StreamEntry, limit = Number.POSITIVE_INFINITY): StreamEntry | undefined {
    if (this.#length >= limit) return entry;
    const { key, text } = entry;
    if (!continues(entry, this.#last)) this.#append(`\n${key}`);
    this.#last = entry;
    if (text === undefined) return undefined;
    // Escaped, so that a text cannot contain what separates entries.
    const escaped = JSON.stringify(text).slice(1, -1);
    const fits = limit - this.#length;
    if (escaped.length <= fits) {
      this.#append(escaped);
      return undefined;
    }
    this.#append(escaped.slice(0, Math.max(0, fits)));
    return { ...entry, text: unescape(escaped.slice(Math.max(0, fits))) };
  }

  #append(text: string): void {
    this.#hash.update(text);
    this.#length += text.length;
  }
}

/** The end of an escaped text. If it was cut inside an escape sequence, the hash does not match, and the text is not used. */
function unescape(escaped: string): string {
  try {
    return JSON.parse(`"${escaped}"`) as string;
  } catch {
    return escaped;
  }
}
