/** The errors of opening an encrypted store, and of one whose key is missing. */
import { SavepointError } from "../errors.js";

/** The error for an encrypted store that was opened without a key. */
export function keyRequired(url: string): SavepointError<"KEY_REQUIRED"> {
  return new SavepointError(
    "KEY_REQUIRED",
    `The store ${url} is encrypted. Open it with \`encryption: { key }\`, or name the file with its key in SAVEPOINT_KEY_FILE. Nothing was changed.`,
  );
}

/** The error for data that none of the keys decrypts. @param fingerprint that of the key which is needed */
export function wrongKey(url: string, fingerprint: string): SavepointError<"WRONG_KEY"> {
  return new SavepointError(
    "WRONG_KEY",
    `The store ${url} needs the encryption key with the fingerprint ${fingerprint}, which is not among the keys that it was opened with. Open it with this key, or with both keys if the key was changed. Nothing was changed.`,
    { details: { fingerprint } },
  );
}

/** The error for a key for a store that is not encrypted. */
export function notEncrypted(url: string): SavepointError<"NOT_ENCRYPTED"> {
  return new SavepointError(
    "NOT_ENCRYPTED",
    `The store ${url} is not encrypted, but was opened with a key. To encrypt it, open it without \`encryption\` and call \`sp.rekey({ to: { key } })\` or run "savepoint rekey". Nothing was changed.`,
  );
}

/** The error for records of the encryption that were changed or lost. */
export function damagedEncryption(url: string, what: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `Cannot decrypt the store ${url}: ${what}. Restore the store from a backup. Nothing was changed.`,
  );
}

/** The error for a key provider that failed, or returned something else than bytes. @param name that of the key */
export function providerFailed(
  name: string,
  method: "wrap" | "unwrap",
  what: string,
  cause?: unknown,
): SavepointError<"UNAVAILABLE"> {
  return new SavepointError(
    "UNAVAILABLE",
    `\`${method}\` of the key provider cannot be used for the key ${JSON.stringify(name)}: ${what}. Nothing was changed.`,
    { cause, details: { name } },
  );
}

/** The error for a wrapped key whose bytes are those of another key. */
export function wrappedKeyDamaged(name: string, fingerprint: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `The wrapped key ${JSON.stringify(name)} with the fingerprint ${fingerprint} is that of another key: its record was changed, or \`unwrap\` of the key provider returned other bytes. Nothing was changed.`,
    { details: { name, fingerprint } },
  );
}
