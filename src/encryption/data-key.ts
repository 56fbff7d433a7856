/**
 * A data key, and the values that it seals (encrypts).
 *
 * A sealed value is `version | key | nonce | ciphertext | tag`, encrypted with AES-256-GCM. The tag also authenticates its place:
 * the store, the kind of data, the key of the record or the number of the item, and the references, which stay readable. So a sealed
 * value that was moved, swapped or copied from another store does not decrypt.
 *
 * The nonce is derived from place and content with a key of its own. The same content at the same place therefore has the same
 * sealed value: a check compares sealed values, in any process, and a repeated commit writes the same bytes. Two contents never share a
 * nonce, unless 96 bits of SHA-256 collide. This reveals only that a record has a value that it had before.
 */
import crypto, { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { sealedText } from "../store/index.js";
import { CIPHER, deriveKey, NONCE_BYTES, TAG_BYTES } from "./master-key.js";

const VERSION = 1;
/** The most bytes of a version and a key number. */
const MAX_HEAD = 9;

/** The parts of a sealed value. */
export interface ParsedFrame {
  /** The number of the data key: that of a session or conversation, or {@link STORE_KEY}. */
  readonly key: number;
  readonly nonce: Uint8Array;
  readonly content: Uint8Array;
  readonly tag: Uint8Array;
}

/** The number of the data key for data that belongs to no session or conversation. */
export const STORE_KEY = -1;

/** Parses the number of the data key; `undefined` if this is not the beginning of a sealed value. */
export function parseHead(bytes: Uint8Array): { readonly key: number; readonly end: number } | undefined {
  if (bytes[0] !== VERSION) return undefined;
  let end = 1;
  let number = 0;
  for (let factor = 1, byte = 128; byte >= 128; factor *= 128) {
    if (end >= Math.min(bytes.length, MAX_HEAD)) return undefined;
    number += ((byte = bytes[end++] as number) & 127) * factor;
  }
  // Only the shortest form of a number, so that a frame has one form.
  if ((end > 2 && bytes[end - 1] === 0) || !Number.isSafeInteger(number)) return undefined;
  return { key: number - 1, end };
}

/** Parses a sealed value; `undefined` if it is not one. */
export function parseFrameBytes(bytes: Uint8Array): ParsedFrame | undefined {
  const head = parseHead(bytes);
  if (!head) return undefined;
  const at = head.end;
  const end = bytes.length - TAG_BYTES;
  if (end - at < NONCE_BYTES) return undefined;
  return {
    key: head.key,
    nonce: bytes.subarray(at, at + NONCE_BYTES),
    content: bytes.subarray(at + NONCE_BYTES, end),
    tag: bytes.subarray(end),
  };
}

/** `crypto.hash` takes half the time, because it creates no object, but not every runtime has it. */
const sha256: (bytes: Uint8Array) => Buffer =
  "hash" in crypto
    ? (bytes) => crypto.hash("sha256", bytes, "buffer")
    : (bytes) => crypto.createHash("sha256").update(bytes).digest();

/** The input of the hash and of the cipher. Each string is converted to bytes once, and without a new buffer. */
const SCRATCH = Buffer.allocUnsafeSlow(65_536);
/** The maximum number of characters of the length of a place and a colon. */
const MAX_PREFIX = 20;

export class DataKey {
  readonly #head: Buffer;
  /** A key object: bytes would be copied for every value, which takes a tenth of the time of sealing it. */
  readonly #encrypting: KeyObject;
  /** A block of SHA-256: 64 hexadecimal digits. */
  readonly #nonceKey: string;

  /** @param key 32 random bytes */
  constructor(
    readonly number: number,
    key: Uint8Array,
  ) {
    const head = [VERSION];
    let value = number + 1;
    for (; value >= 128; value = Math.floor(value / 128)) head.push((value % 128) | 128);
    head.push(value);
    this.#head = Buffer.from(head);
    this.#encrypting = createSecretKey(deriveKey(key, "encryption"));
    this.#nonceKey = deriveKey(key, "nonces").toString("hex");
  }

  /** Encrypts a string for a place. Returns the sealed string. */
  seal(place: string, text: string): string {
    const length = this.#nonceKey.length + MAX_PREFIX + 3 * (place.length + text.length);
    const input = length <= SCRATCH.length ? SCRATCH : Buffer.allocUnsafe(length);
    const prefix = input.write(`${this.#nonceKey}${place.length}:`, 0, "latin1");
    const content = prefix + input.write(place, prefix);
    const end = content + input.write(text, content);
    // A hash with a secret prefix. Its length cannot be extended, because more than half of it is cut off.
    const nonce = sha256(input.subarray(0, end)).subarray(0, NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#encrypting, nonce).setAAD(input.subarray(prefix, content));
    const encrypted = cipher.update(input.subarray(content, end));
    cipher.final();
    return sealedText(Buffer.concat([this.#head, nonce, encrypted, cipher.getAuthTag()]));
  }

  /** Decrypts a sealed value; `undefined` if it was changed or belongs to another place. */
  open(place: string, frame: ParsedFrame): string | undefined {
    return this.#decrypt(place, frame)?.toString("utf8");
  }

  sealBytes(place: string, bytes: Uint8Array): Buffer {
    const nonce = createHmac("sha256", this.#nonceKey).update(place).update(bytes).digest().subarray(0, NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#encrypting, nonce).setAAD(Buffer.from(place));
    const content = cipher.update(bytes);
    cipher.final();
    return Buffer.concat([this.#head, nonce, content, cipher.getAuthTag()]);
  }

  openBytes(place: string, frame: ParsedFrame): Uint8Array | undefined {
    const bytes = this.#decrypt(place, frame);
    // Not a Buffer, and not a part of one: callers may keep it.
    return bytes && new Uint8Array(bytes);
  }

  #decrypt(place: string, { nonce, content, tag }: ParsedFrame): Buffer | undefined {
    const decipher = createDecipheriv(CIPHER, this.#encrypting, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(place)).setAuthTag(tag);
    const decrypted = decipher.update(content);
    try {
      decipher.final();
      return decrypted;
    } catch {
      // The tag does not fit.
      return undefined;
    }
  }
}
