/**
 * Encryption at rest. A view of a store encrypts everything with content: values of records, items and blobs. It uses only the contract of the store.
 *
 * A master key of the application or of a key provider encrypts data keys; these are stored, one for each session, conversation and
 * agent, and encrypt the data. Changing the master key rewrites only the data keys.
 */
export { Encryption, type KeyUse } from "./encryption.js";
export { encryptStore } from "./encrypted-store.js";
export { keyRequired } from "./errors.js";
export { readKeyFile } from "./key-file.js";
export {
  type EncryptionOptions,
  type KeyProvider,
  type KeyRing,
  parseKeyRing,
  type WrappedMasterKey,
} from "./key-ring.js";
export { openDataKeys } from "./open.js";
export type { RekeyProgress, RekeyReport } from "./rekey.js";
export { sealStream, unsealStream, type UnsealOptions } from "./sealed-stream.js";
