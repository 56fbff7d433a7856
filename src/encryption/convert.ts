/**
 * Encrypts a plain store.
 *
 * The header is written first, with the state `converting`: from then on the store opens only with its key, and that process
 * completes the conversion. Items are copied to the tapes of the encrypted store, records are replaced one by one, and everything
 * plain is deleted at the end. Each step detects what is already done, so the conversion may be interrupted at any point.
 */
import { randomBytes } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { ENCRYPTION_KEY, renameBlobsInBranch, STORE_DATA_KEY } from "../records/index.js";
import { BLOB_NAMES, renameBlobs } from "../state/index.js";
import {
  type Check,
  type Frame,
  type KeyRange,
  type Put,
  type RecordResult,
  scanPages,
  SEAL_MARKER,
  sealedText,
  type Store,
  type StoredRecord,
} from "../store/index.js";
import { LruMap, unlessConflict } from "../util/index.js";
import { type DataKey, STORE_KEY } from "./data-key.js";
import { type DataKeys, findMasterKey, type NewDataKey } from "./data-keys.js";
import { Frames, keyOf } from "./frames.js";
import { isBranchKey, isEncryptionRecord, isReadable, keySourceOf, numberInValue, numberOfTape } from "./key-kinds.js";
import type { KeyRing } from "./key-ring.js";
import { createEncryption } from "./open.js";
import { encodeHeader } from "./records.js";
import type { RekeyProgress } from "./rekey.js";
import { readTapeEnds } from "./tape-ends.js";
import { PLAIN_TAPES, tapeBelow } from "./tapes.js";

/** What a conversion uses of the process. */
export interface ConversionHost {
  /** @throws BUSY if another process may have the store open */
  requireAlone(): Promise<void>;
}

const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };
/** How many items are read together. */
const SPAN = 256;
/** The most characters of items in one commit. */
const MAX_COMMIT_LENGTH = 1 << 20;
/** A tape whose end is unknown ends where this many items in a row are missing. */
const MAX_GAP = 1 << 16;
/** The most new names of blobs that are remembered. */
const MAX_NAMES = 100_000;
/** Later than every use of a blob, even if the clocks of two machines differ. */
const FUTURE = 3_600_000;
/** The length of the random bytes that replace a damaged record. */
const DAMAGED_BYTES = 48;

/** The encryption of a store that was converted. */
export interface Converted {
  readonly keys: DataKeys;
  /** Plain data that is still in the store's files, why, and what removes it. */
  readonly pending: string | undefined;
}

/** Encrypts a plain store, and removes the plain data from its files. */
export async function convert(
  store: Store,
  ring: KeyRing,
  host: ConversionHost,
  onProgress: (progress: RekeyProgress) => void,
): Promise<Converted> {
  await host.requireAlone();
  const keys = await createEncryption(store, ring, "converting");
  try {
    // A process may have written before the header was stored. Any other process fails with its first commit.
    await host.requireAlone();
  } catch (error) {
    await store.commit({
      checks: [{ key: ENCRYPTION_KEY, value: keys.headerValue }],
      deletes: [ENCRYPTION_KEY, STORE_DATA_KEY],
    });
    throw error;
  }
  return { keys, pending: await completeConversion(store, keys, onProgress) };
}

/**
 * Continues a conversion that was interrupted.
 *
 * @returns what is pending: then the next process that opens the store completes it
 */
export async function completeConversion(
  store: Store,
  keys: DataKeys,
  onProgress: (progress: RekeyProgress) => void = () => {},
): Promise<string | undefined> {
  const conversion = new Conversion(store, keys);
  await conversion.copyBlobs();
  await conversion.copyTapes(onProgress);
  await conversion.sealRecords();
  await conversion.deletePlainData();
  await store.texts?.clear();
  await store.compact();
  const { pending } = (await store.scrub?.()) ?? {};
  const { header } = keys;
  if (pending !== undefined || header.state === "ready") return pending;
  const ready = { ...header, state: "ready" } as const;
  const value = encodeHeader(ready, await findMasterKey(store, keys.ring, header.key));
  await unlessConflict(
    store.commit({
      checks: [{ key: ENCRYPTION_KEY, value: keys.headerValue }],
      puts: [{ key: ENCRYPTION_KEY, value }],
    }),
  );
  await keys.reloadHeader();
  return undefined;
}

class Conversion {
  readonly #store: Store;
  readonly #keys: DataKeys;
  readonly #frames: Frames;
  /** The new names of blobs. */
  readonly #names = new LruMap<string, string>(MAX_NAMES);
  /** The numbers of sessions and conversations, by the keys of their records. */
  readonly #numbers = new Map<string, number>();

  constructor(store: Store, keys: DataKeys) {
    this.#store = store;
    this.#keys = keys;
    this.#frames = new Frames(keys);
  }

  async copyBlobs(): Promise<void> {
    for await (const { hash, bytes } of this.#plainBlobs()) {
      const sealed = this.#frames.sealBlob(bytes);
      this.#names.set(hash, sealed.hash);
      await this.#store.commit({ blobs: [sealed] });
    }
  }

  async copyTapes(onProgress: (progress: RekeyProgress) => void): Promise<void> {
    const tapes = await this.#plainTapes();
    const ends = await readTapeEnds(this.#store, (record) => this.#toPlain(record));
    for (const [index, tape] of tapes.entries()) {
      await this.#copyTape(tape, ends.get(tape));
      onProgress({ done: index + 1, total: tapes.length });
    }
  }

  async sealRecords(): Promise<void> {
    for await (const page of scanPages(this.#store, EVERYTHING)) {
      const plain = page.filter(
        (record) => !isEncryptionRecord(record.key) && !isReadable(record.key) && !isSealed(record),
      );
      for (const record of plain) await this.#sealRecord(record);
    }
  }

  async deletePlainData(): Promise<void> {
    for (const tape of await this.#plainTapes()) {
      await this.#store.retain(tape, [], { below: Number.MAX_SAFE_INTEGER });
    }
    const unusedSince = (await this.#store.now()) + FUTURE;
    for await (const { hash } of this.#plainBlobs()) await this.#store.dropBlobs([hash], { unusedSince });
  }

  async *#plainBlobs(): AsyncGenerator<{ readonly hash: string; readonly bytes: Uint8Array }> {
    for (let after = ""; ;) {
      const hashes = await this.#store.blobs({ after, limit: 100 });
      for (const hash of hashes) {
        const bytes = await this.#store.blob(hash);
        if ("unreadable" in bytes || !("unreadable" in this.#frames.openBlob(hash, bytes))) continue;
        yield { hash, bytes };
      }
      const last = hashes.at(-1);
      if (last === undefined) return;
      after = last;
    }
  }

  async #plainTapes(): Promise<string[]> {
    const tapes: string[] = [];
    for (const range of PLAIN_TAPES) tapes.push(...(await this.#store.tapes(range)));
    return tapes;
  }

  /** Copies a tape. @param end the number after its last item; `undefined` if it is unknown */
  async #copyTape(tape: string, end: number | undefined): Promise<void> {
    const key = await this.#dataKey(numberOfTape(tape));
    let missing = 0;
    for (let start = 0; end === undefined ? missing < MAX_GAP : start < end; start += SPAN) {
      const span = { start, count: SPAN };
      const plain = await this.#store.items([{ ...span, tape }]);
      missing = plain.every((item) => "unreadable" in item) ? missing + SPAN : 0;
      if (missing > 0) continue;
      const copied = await this.#store.items([{ ...span, tape: tapeBelow(tape) }]);
      for (let at = 0; at < SPAN;) {
        const items: Frame[] = [];
        let length = 0;
        const first = start + at;
        for (; at < SPAN && length < MAX_COMMIT_LENGTH; at++) {
          const item = plain[at];
          if (!item || "unreadable" in item || "json" in (copied[at] ?? {})) break;
          const renamed = { json: item.json, refs: await this.#rename(item.refs) };
          items.push(this.#frames.sealItem(key, tape, start + at, renamed));
          length += item.json.length;
        }
        if (items.length === 0) at++;
        else await unlessConflict(this.#store.commit({ items: [{ tape: tapeBelow(tape), first, items }] }));
      }
    }
  }

  async #sealRecord(record: RecordResult): Promise<void> {
    const { key } = record;
    if (!("value" in record)) {
      // The remains of a damaged record may be plain text. The record stays damaged.
      const value = sealedText(randomBytes(DAMAGED_BYTES));
      await this.#store.commit({ checks: [{ key, exists: true }], puts: [{ key, value }] });
      return;
    }
    const number = await this.#numberOf(record);
    const dataKey = await this.#dataKey(number);
    const refs = await this.#rename(record.refs);
    const value = isBranchKey(key) ? await this.#renameInBranch(record.value) : record.value;
    const checks: Check[] = [{ key, value: record.value }];
    const puts: Put[] = [{ key, value: this.#frames.sealRecord(dataKey, key, value, refs), refs }];
    // Only another process that completes the same conversion can have replaced it first.
    await unlessConflict(this.#store.commit({ checks, puts }));
  }

  /** The number of the data key of a record. */
  async #numberOf({ key, value }: StoredRecord): Promise<number> {
    const source = keySourceOf(key);
    if (typeof source === "number") return source;
    const known = numberInValue(key, value) ?? this.#numbers.get(source.record);
    if (known !== undefined) return known;
    const [owner] = await this.#store.get([source.record]);
    const sealed = owner && "value" in owner ? owner.value : "";
    const number = keyOf(sealed) ?? numberInValue(source.record, sealed) ?? STORE_KEY;
    this.#numbers.set(source.record, number);
    return number;
  }

  /** A data key. It is created if it does not exist. */
  async #dataKey(number: number): Promise<DataKey> {
    for (;;) {
      await this.#keys.loadForWriting([number]);
      const existing = this.#keys.peek(number);
      if (existing) return existing;
      const created: NewDataKey = await this.#keys.create(number);
      const { checks, puts } = created;
      if (await unlessConflict(this.#store.commit({ checks, puts }))) this.#keys.set(created.key);
    }
  }

  /** References with the new names of blobs. */
  async #rename(refs: string): Promise<string> {
    return renameBlobs(refs, await this.#newNames(refs));
  }

  /** The new names of the blobs that a string references. */
  async #newNames(text: string): Promise<(name: string) => string> {
    const names = new Map<string, string>();
    for (const [, name = ""] of text.matchAll(BLOB_NAMES)) names.set(name, await this.#nameOf(name));
    return (name) => names.get(name) ?? name;
  }

  /** The new name of a blob; the old one if the blob is damaged or missing. */
  async #nameOf(hash: string): Promise<string> {
    const known = this.#names.get(hash);
    if (known !== undefined) return known;
    const bytes = await this.#store.blob(hash);
    if ("unreadable" in bytes) return hash;
    const name = this.#frames.sealBlob(bytes).hash;
    this.#names.set(hash, name);
    return name;
  }

  async #renameInBranch(value: string): Promise<string> {
    try {
      return renameBlobsInBranch(value, await this.#newNames(value));
    } catch (error) {
      // An invalid record stays invalid.
      if (isSavepointError(error, "DAMAGED")) return value;
      throw error;
    }
  }

  /** A record whose value may be encrypted already. */
  async #toPlain(record: RecordResult): Promise<RecordResult> {
    if (!isSealed(record)) return record;
    const number = keyOf(record.value);
    if (number !== undefined) await this.#keys.load([number]);
    return this.#frames.openRecord(record);
  }
}

function isSealed(record: RecordResult): record is StoredRecord {
  return "value" in record && record.value.startsWith(SEAL_MARKER);
}
