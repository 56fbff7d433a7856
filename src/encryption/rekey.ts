/** Changes the master key of an encrypted store. */
import { isSavepointError, SavepointError } from "../errors.js";
import { ALL_STORED_KEYS, ENCRYPTION_KEY } from "../records/index.js";
import { scanPages, type Put, type RecordResult, type Check, type Store } from "../store/index.js";
import { retryOnConflict } from "../util/index.js";
import { countDataKeys, type DataKeys, currentMasterKey, isDataKeyRecord } from "./data-keys.js";
import { damagedEncryption } from "./errors.js";
import type { MasterKey } from "./master-key.js";
import { decodeDataKey, encodeDataKey, encodeHeader, type Header, placeOfDataKey } from "./records.js";

/** The progress of a change of keys. */
export interface RekeyProgress {
  /** The data keys that were examined. */
  readonly done: number;
  /** All data keys, when the change began. */
  readonly total: number;
}

/** What a change of keys has done. */
export interface RekeyReport {
  /** How many data keys were encrypted again, with the current key. */
  readonly keys: number;
  /** How many data keys there are. */
  readonly total: number;
  /** The fingerprint of the current key. */
  readonly fingerprint: string;
  /**
   * Plain data that is still in the files of a store that was encrypted, why, and what removes it; `undefined` if there is none.
   */
  readonly pending?: string;
}

/** How many data keys are replaced in one commit. */
const BATCH = 64;
/** The most former keys that the header names. */
const MAX_FORMER = 256;

/**
 * Encrypts all data keys again, with the current key of the ring. The header is changed first, so that no process creates a data
 * key with an older one from then on. May be interrupted at any point, and repeated.
 *
 * @throws CONFLICT if another process sets a different key meanwhile; WRONG_KEY if this process does not have that key
 */
export async function rekey(
  store: Store,
  keys: DataKeys,
  onProgress: (progress: RekeyProgress) => void,
): Promise<RekeyReport> {
  const { key, puts } = await currentMasterKey(store, keys.ring);
  await switchHeader(store, keys, key, puts);
  const total = [...(await countDataKeys(store)).values()].reduce((sum, count) => sum + count, 0);
  let [done, changed] = [0, 0];
  for await (const page of scanPages(store, ALL_STORED_KEYS)) {
    const records = page.filter((record) => isDataKeyRecord(record.key));
    for (let at = 0; at < records.length; at += BATCH) {
      const batch = records.slice(at, at + BATCH);
      changed += await rewrap(store, keys, key, batch);
      done += batch.length;
      onProgress({ done, total: Math.max(total, done) });
    }
  }
  return { keys: changed, total: done, fingerprint: key.fingerprint };
}

async function switchHeader(store: Store, keys: DataKeys, key: MasterKey, puts: readonly Put[]): Promise<void> {
  await retryOnConflict(async () => {
    // Another process may have changed the key since this process opened the store.
    await keys.reloadHeader();
    if (keys.header.key === key.fingerprint && puts.length === 0) return;
    const header = { ...keys.header, key: key.fingerprint, former: formerKeys(keys.header, key) };
    const value = encodeHeader(header, key);
    await store.commit({
      checks: [{ key: ENCRYPTION_KEY, value: keys.headerValue }],
      puts: [{ key: ENCRYPTION_KEY, value }, ...puts],
    });
    keys.adoptHeader(header, value);
  });
}

/** The former keys after a change to another key. */
function formerKeys({ key, former }: Header, next: MasterKey): readonly string[] {
  const { fingerprint } = next;
  return [...new Set([...former, key])].filter((each) => each !== fingerprint).slice(-MAX_FORMER);
}

/** Encrypts some data keys again. Returns how many had another master key. */
async function rewrap(store: Store, keys: DataKeys, key: MasterKey, records: readonly RecordResult[]): Promise<number> {
  const { header, headerValue } = keys;
  if (header.key !== key.fingerprint) throw keyChanged(store.url, header.key, key.fingerprint);
  const checks: Check[] = [{ key: ENCRYPTION_KEY, value: headerValue }];
  const puts: Put[] = [];
  for (const record of records) {
    if (!("value" in record)) throw damagedEncryption(store.url, `the record of the data key ${record.key} is damaged`);
    if (decodeDataKey(record.value).key === key.fingerprint) continue;
    const bytes = await keys.unwrap(record.key, record.value);
    if (!bytes) throw damagedEncryption(store.url, `the record of the data key ${record.key} was changed`);
    const wrapped = key.wrap(bytes, placeOfDataKey(header, record.key));
    checks.push({ key: record.key, value: record.value });
    puts.push({ key: record.key, value: encodeDataKey({ key: key.fingerprint, wrapped }) });
  }
  if (puts.length === 0) return 0;
  try {
    await store.commit({ checks, puts });
    return puts.length;
  } catch (error) {
    if (!isSavepointError(error, "CONFLICT")) throw error;
    // Another process has deleted one of them, has encrypted it again, or has changed the header.
    await keys.reloadHeader();
    const current = await store.get(puts.map((put) => put.key));
    return rewrap(
      store,
      keys,
      key,
      current.flatMap((record) => record ?? []),
    );
  }
}

/** The error if another process sets a different key before all data keys are encrypted with this one. */
function keyChanged(url: string, current: string, intended: string): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Changing the encryption key of the store ${url} to ${intended} has failed: another process has changed it to ${current} meanwhile (these are the fingerprints of the keys). Configure the same current key in all processes, and call \`sp.rekey()\` again.`,
    { details: { fingerprint: current } },
  );
}
