/**
 * A master key: a key of the application or of a key provider. It encrypts (wraps) the data keys, and authenticates the record that
 * describes the encryption of the store. It never encrypts data, so changing it rewrites only the data keys.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { invalidArgument } from "../util/index.js";

export const KEY_BYTES = 32;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const CIPHER = "aes-256-gcm";
const FINGERPRINT_BYTES = 8;

/** Derives a key for one purpose. */
export function deriveKey(key: Uint8Array, purpose: string, bytes = KEY_BYTES): Buffer {
  return Buffer.from(hkdfSync("sha256", key, "", `savepoint ${purpose}`, bytes));
}

export class MasterKey {
  /** Identifies the key in records; it does not reveal the key. */
  readonly fingerprint: string;
  /** The name that the application has for the key. */
  readonly name: string | undefined;
  readonly #wrapping: Buffer;
  readonly #signing: Buffer;

  /** @param key 32 bytes, which are copied */
  constructor(key: Uint8Array, name?: string) {
    if (!(key instanceof Uint8Array) || key.length !== KEY_BYTES) {
      const got = key instanceof Uint8Array ? `${(key as Uint8Array).length} bytes` : `a value of type ${typeof key}`;
      throw invalidArgument(`An encryption key must be a Uint8Array of ${KEY_BYTES} bytes, got ${got}.`);
    }
    this.name = name;
    this.fingerprint = deriveKey(key, "fingerprint", FINGERPRINT_BYTES).toString("hex");
    this.#wrapping = deriveKey(key, "wrapping");
    this.#signing = deriveKey(key, "signing");
  }

  /** Encrypts a data key. @param place what the data key belongs to: it decrypts only there */
  wrap(dataKey: Uint8Array, place: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#wrapping, nonce).setAAD(Buffer.from(place));
    const wrapped = Buffer.concat([cipher.update(dataKey), cipher.final()]);
    return Buffer.concat([nonce, wrapped, cipher.getAuthTag()]);
  }

  /** Decrypts a data key; `undefined` if it was changed, or wrapped for another place. */
  unwrap(wrapped: Uint8Array, place: string): Buffer | undefined {
    if (wrapped.length !== NONCE_BYTES + KEY_BYTES + TAG_BYTES) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#wrapping, wrapped.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(place)).setAuthTag(wrapped.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(wrapped.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    } catch {
      // The tag does not fit.
      return undefined;
    }
  }

  sign(text: string): string {
    return createHmac("sha256", this.#signing).update(text).digest("hex");
  }

  isSignature(signature: string, text: string): boolean {
    const [given, expected] = [Buffer.from(signature), Buffer.from(this.sign(text))];
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}
