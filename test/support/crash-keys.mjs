/** The keys of crash tests: every process of such a test opens its store with them, if the test has set `CRASH_KEYS`. */

/** @type {Readonly<Record<string, Uint8Array>>} */
export const CRASH_KEYS = { old: new Uint8Array(32).fill(1), new: new Uint8Array(32).fill(2) };

/**
 * The options of an open for names of keys that are separated by commas; the first key is current.
 *
 * @param {string | undefined} names
 * @returns {{ encryption?: import("savepoint").EncryptionOptions }}
 */
export function encryptionOf(names = process.env.CRASH_KEYS) {
  if (!names) return {};
  const ring = names.split(",");
  const keys = Object.fromEntries(ring.map((name) => [name, /** @type {Uint8Array} */ (CRASH_KEYS[name])]));
  return { encryption: { current: /** @type {string} */ (ring[0]), keys } };
}
