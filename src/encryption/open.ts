/** Opens the encryption of a store, and creates it for an empty one. Fails if the keys are not those of the store. */
import { randomBytes } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { ENCRYPTION_KEY, STORE_DATA_KEY } from "../records/index.js";
import { type KeyRange, type RecordResult, scan, SEAL_MARKER, type Store } from "../store/index.js";
import { unlessConflict } from "../util/index.js";
import { currentMasterKey, DataKeys } from "./data-keys.js";
import { notEncrypted } from "./errors.js";
import { isEncryptionRecord, isReadable } from "./key-kinds.js";
import type { KeyRing } from "./key-ring.js";
import { KEY_BYTES } from "./master-key.js";
import { encodeDataKey, encodeHeader, type Header, placeOfDataKey } from "./records.js";

const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };
const STORE_ID_BYTES = 16;

/** The record of the encryption of a store; `undefined` if it is not encrypted. */
export async function readHeader(store: Store): Promise<RecordResult | undefined> {
  return (await store.get([ENCRYPTION_KEY]))[0];
}

/**
 * Opens the data keys of an encrypted store. An empty store becomes encrypted, unless it must not be written.
 *
 * @throws NOT_ENCRYPTED for a store with plain data, WRONG_KEY, DAMAGED
 */
export async function openDataKeys(store: Store, ring: KeyRing, isWritable: boolean): Promise<DataKeys> {
  const header = await readHeader(store);
  if (header) return DataKeys.open(store, ring, header);
  const [any] = await store.list(EVERYTHING, { limit: 1 });
  if (any || !isWritable) throw notEncrypted(store.url);
  const keys = await createEncryption(store, ring, "ready");
  await requireNoPlainData(store, keys);
  return keys;
}

/**
 * Takes the encryption back if a process without a key has saved something between finding the store empty and creating the header.
 * After the header, no process without a key can save content.
 */
async function requireNoPlainData(store: Store, keys: DataKeys): Promise<void> {
  let isUsed = false;
  let isPlain = false;
  for await (const record of scan(store, EVERYTHING)) {
    if (!("value" in record) || isEncryptionRecord(record.key) || isReadable(record.key)) continue;
    if (record.value.startsWith(SEAL_MARKER)) isUsed = true;
    else isPlain = true;
  }
  if (!isPlain) return;
  // Another process with the key may have used the header already: its data must not lose their key.
  if (!isUsed) {
    const checks = [{ key: ENCRYPTION_KEY, value: keys.headerValue }];
    // Another process that has found the same may be faster.
    await unlessConflict(store.commit({ checks, deletes: [ENCRYPTION_KEY, STORE_DATA_KEY] }));
  }
  throw notEncrypted(store.url);
}

/** Creates the records of the encryption; uses those of another process if it has created them first. */
export async function createEncryption(store: Store, ring: KeyRing, state: Header["state"]): Promise<DataKeys> {
  const { key, puts } = await currentMasterKey(store, ring);
  const header: Header = {
    store: randomBytes(STORE_ID_BYTES).toString("base64url"),
    key: key.fingerprint,
    former: [],
    state,
  };
  const wrapped = key.wrap(randomBytes(KEY_BYTES), placeOfDataKey(header, STORE_DATA_KEY));
  try {
    await store.commit({
      checks: [ENCRYPTION_KEY, STORE_DATA_KEY].map((record) => ({ key: record, value: undefined })),
      puts: [
        { key: ENCRYPTION_KEY, value: encodeHeader(header, key) },
        { key: STORE_DATA_KEY, value: encodeDataKey({ key: key.fingerprint, wrapped }) },
        ...puts,
      ],
    });
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
  }
  const record = await readHeader(store);
  if (!record) throw notEncrypted(store.url);
  return DataKeys.open(store, ring, record);
}
