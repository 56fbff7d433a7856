/** The data keys of a store: read or created when they are needed, and kept in memory. */
import { randomBytes } from "node:crypto";
import {
  dataKeyOf,
  decodeNumbers,
  ENCRYPTION_KEY,
  STORE_DATA_KEY,
  wrappedKeyOf,
  ALL_STORED_KEYS,
  ALL_WRAPPED_KEYS,
} from "../records/index.js";
import { type Check, covers, type Put, type RecordResult, scan, type Store } from "../store/index.js";
import { LruMap } from "../util/index.js";
import { DataKey, STORE_KEY } from "./data-key.js";
import { damagedEncryption, wrongKey } from "./errors.js";
import type { KeyRing, WrappedMasterKey } from "./key-ring.js";
import { KEY_BYTES, type MasterKey } from "./master-key.js";
import type { SealingKey } from "./sealed-stream.js";
import {
  decodeDataKey,
  decodeMasterKey,
  encodeDataKey,
  encodeMasterKey,
  type Header,
  isAuthentic,
  parseHeader,
  placeOfDataKey,
} from "./records.js";

/** The most data keys that are kept in memory. */
const MAX_KEYS = 10_000;

/** A data key that is not stored yet, and the parts of the commit that stores it. */
export interface NewDataKey {
  readonly key: DataKey;
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
}

/** The key of the record of a data key. */
export function recordOfDataKey(number: number): string {
  return number === STORE_KEY ? STORE_DATA_KEY : dataKeyOf(number);
}

/** The number in the key of the record of a data key. */
export function numberOfDataKey(record: string): number {
  return record === STORE_DATA_KEY ? STORE_KEY : (decodeNumbers(record.slice(2), 1).numbers[0] as number);
}

export class DataKeys {
  readonly ring: KeyRing;
  readonly #store: Store;
  readonly #keys = new LruMap<number, DataKey>(MAX_KEYS);
  /** Always in memory: blobs are encrypted without waiting. */
  #storeKey: DataKey | undefined;
  /** The data key that was used last: a save uses one, many times. */
  #last: DataKey | undefined;
  #header: Header;
  #headerValue: string;

  /** @param store the store with the sealed values */
  private constructor(store: Store, ring: KeyRing, header: Header, headerValue: string) {
    this.#store = store;
    this.ring = ring;
    this.#header = header;
    this.#headerValue = headerValue;
  }

  /** Authenticates the header of a store and reads the data key of the store. @throws WRONG_KEY, DAMAGED */
  static async open(store: Store, ring: KeyRing, record: RecordResult): Promise<DataKeys> {
    const { header, value } = await authenticate(store, ring, record);
    const keys = new DataKeys(store, ring, header, value);
    await keys.load([STORE_KEY]);
    if (!keys.peek(STORE_KEY)) throw damagedEncryption(store.url, "the record of its data key is missing or damaged");
    return keys;
  }

  get header(): Header {
    return this.#header;
  }

  /** The stored value of the header, which commits check. */
  get headerValue(): string {
    return this.#headerValue;
  }

  /** The data key for data that belongs to no session or conversation. */
  get storeKey(): DataKey {
    return this.#storeKey as DataKey;
  }

  /** A data key, if it is in memory. */
  peek(number: number): DataKey | undefined {
    if (number === STORE_KEY) return this.#storeKey;
    if (this.#last?.number === number) return this.#last;
    const key = this.#keys.get(number);
    if (key) this.#last = key;
    return key;
  }

  set(key: DataKey): void {
    this.#last = undefined;
    if (key.number === STORE_KEY) this.#storeKey = key;
    else this.#keys.set(key.number, key);
  }

  forget(number: number): void {
    this.#last = undefined;
    this.#keys.delete(number);
  }

  /**
   * Reads data keys into memory. Skips missing and damaged ones.
   *
   * @returns the numbers of damaged ones
   * @throws WRONG_KEY
   */
  async load(numbers: Iterable<number>): Promise<readonly number[]> {
    const missing = [...new Set(numbers)].filter((number) => !this.peek(number));
    if (missing.length === 0) return missing;
    const damaged: number[] = [];
    const records = await this.#store.get(missing.map(recordOfDataKey));
    for (const [index, record] of records.entries()) {
      if (!record) continue;
      const number = missing[index] as number;
      const bytes = "value" in record ? await this.unwrap(record.key, record.value) : undefined;
      if (bytes) this.set(new DataKey(number, bytes));
      else damaged.push(number);
    }
    return damaged;
  }

  /** Reads data keys for writing. A missing one is left out: it can be created. @throws DAMAGED, WRONG_KEY */
  async loadForWriting(numbers: Iterable<number>): Promise<void> {
    const [damaged] = await this.load(numbers);
    if (damaged === undefined) return;
    const record = JSON.stringify(recordOfDataKey(damaged));
    throw damagedEncryption(this.#store.url, `the record of the data key ${record} was changed`);
  }

  /** Decrypts a data key; `undefined` if its record was changed. @throws WRONG_KEY */
  async unwrap(record: string, value: string): Promise<Buffer | undefined> {
    const stored = decodeDataKey(value);
    const master = await findMasterKey(this.#store, this.ring, stored.key);
    return master.unwrap(stored.wrapped, placeOfDataKey(this.#header, record));
  }

  /** Creates a data key. It may be used when the commit with its checks and puts has succeeded. */
  async create(number: number): Promise<NewDataKey> {
    const bytes = randomBytes(KEY_BYTES);
    const { key: master, puts } = await this.currentMasterKey();
    const record = recordOfDataKey(number);
    const wrapped = master.wrap(bytes, placeOfDataKey(this.#header, record));
    return {
      key: new DataKey(number, bytes),
      checks: [
        { key: record, value: undefined },
        { key: ENCRYPTION_KEY, value: this.#headerValue },
      ],
      puts: [{ key: record, value: encodeDataKey({ key: master.fingerprint, wrapped }) }, ...puts],
    };
  }

  /** The master key for new data keys, and what a commit that uses it has to contain. */
  async currentMasterKey(): Promise<{ readonly key: MasterKey; readonly puts: readonly Put[] }> {
    const current = await currentMasterKey(this.#store, this.ring);
    const { key, former } = this.#header;
    if (!former.includes(current.key.fingerprint)) return current;
    return { key: await findMasterKey(this.#store, this.ring, key), puts: [] };
  }

  /** The name of a master key; `undefined` if it has none or this process does not have the key. */
  async nameOf(fingerprint: string): Promise<string | undefined> {
    return (await findKey(this.#store, this.ring, fingerprint))?.name;
  }

  /** Reads the header again, because another process has changed it. @throws WRONG_KEY */
  async reloadHeader(): Promise<void> {
    const [record] = await this.#store.get([ENCRYPTION_KEY]);
    if (!record) throw damagedEncryption(this.#store.url, "the record of its encryption is missing");
    const { header, value } = await authenticate(this.#store, this.ring, record);
    if (header.store !== this.#header.store) {
      throw damagedEncryption(this.#store.url, "it was replaced by another store while it was open");
    }
    this.adoptHeader(header, value);
  }

  /** Replaces the header, after a commit that has changed it. */
  adoptHeader(header: Header, value: string): void {
    this.#header = header;
    this.#headerValue = value;
  }
}

/** The master key for new data keys; `puts` store it if a provider has just created it. */
export async function currentMasterKey(
  store: Store,
  ring: KeyRing,
): Promise<{ readonly key: MasterKey; readonly puts: readonly Put[] }> {
  const { key, unstored } = await ring.current(() => listWrappedKeys(store));
  const puts = unstored ? [{ key: wrappedKeyOf(key.fingerprint), value: encodeMasterKey(unstored) }] : [];
  return { key, puts };
}

/** The master key with a fingerprint. @throws WRONG_KEY if this process does not have it */
export async function findMasterKey(store: Store, ring: KeyRing, fingerprint: string): Promise<MasterKey> {
  const key = await findKey(store, ring, fingerprint);
  if (!key) throw wrongKey(store.url, fingerprint);
  return key;
}

/** The current master key of a store, as bundles name it. */
export async function sealingKey(store: Store, keys: DataKeys): Promise<SealingKey> {
  await keys.reloadHeader();
  const { key: fingerprint } = keys.header;
  return {
    key: await findMasterKey(store, keys.ring, fingerprint),
    wrapped: await readWrappedKey(store, fingerprint),
  };
}

async function readWrappedKey(store: Store, fingerprint: string): Promise<WrappedMasterKey | undefined> {
  const [record] = await store.get([wrappedKeyOf(fingerprint)]);
  return record && "value" in record ? decodeMasterKey(fingerprint, record.value) : undefined;
}

function findKey(store: Store, ring: KeyRing, fingerprint: string): Promise<MasterKey | undefined> {
  return ring.find(fingerprint, () => readWrappedKey(store, fingerprint));
}

async function listWrappedKeys(store: Store): Promise<WrappedMasterKey[]> {
  const keys: WrappedMasterKey[] = [];
  for await (const record of scan(store, ALL_WRAPPED_KEYS)) {
    if ("value" in record) {
      keys.push(decodeMasterKey(record.key.slice(wrappedKeyOf("").length), record.value));
    }
  }
  return keys;
}

interface AuthenticHeader {
  readonly header: Header;
  readonly value: string;
}

async function authenticate(store: Store, ring: KeyRing, record: RecordResult): Promise<AuthenticHeader> {
  const damaged = damagedEncryption(store.url, "the record of its encryption is damaged");
  if (!("value" in record)) throw damaged;
  const header = parseHeader(record.value);
  const key = await findMasterKey(store, ring, header.key);
  if (!isAuthentic(header, key)) throw damaged;
  const { store: id, key: current, former, state } = header;
  return { header: { store: id, key: current, former, state }, value: record.value };
}

/** How many data keys each master key has wrapped, by fingerprint. */
export async function countDataKeys(store: Store): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for await (const record of scan(store, ALL_STORED_KEYS)) {
    if (!isDataKeyRecord(record.key) || !("value" in record)) continue;
    const { key } = decodeDataKey(record.value);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Whether a record of the encryption is a data key. */
export function isDataKeyRecord(key: string): boolean {
  return covers(ALL_STORED_KEYS, key) && !covers(ALL_WRAPPED_KEYS, key);
}
