/** Seals and opens records, items and blobs of one store. */
import { createHash } from "node:crypto";
import { type Frame, type RecordResult, SEAL_MARKER, sealedBytes, type Unreadable } from "../store/index.js";
import { LruMap } from "../util/index.js";
import { type DataKey, type ParsedFrame, parseFrameBytes, parseHead } from "./data-key.js";
import type { DataKeys } from "./data-keys.js";
import { isReadable } from "./key-kinds.js";

/** The most characters of records that are remembered. */
const MAX_REMEMBERED_LENGTH = 16_777_216;

/** A record in both forms. */
interface Remembered {
  readonly value: string;
  readonly sealed: string;
  readonly refs: string;
}

export class Frames {
  readonly #keys: DataKeys;
  readonly #prefix: string;
  /** Recently read and written records: checks of their values need no encryption, and reading them again no decryption. */
  readonly #remembered = new LruMap<string, Remembered>(MAX_REMEMBERED_LENGTH);

  constructor(keys: DataKeys) {
    this.#keys = keys;
    this.#prefix = `savepoint 1\n${keys.header.store}\n`;
  }

  /** Encrypts the value of a record. @param remembers whether the record is known to have this value from now on */
  sealRecord(dataKey: DataKey, key: string, value: string, refs: string, remembers = true): string {
    const sealed = dataKey.seal(this.#recordPlace(key, refs), value);
    if (remembers) this.#remember(key, { value, sealed, refs });
    else this.forget(key);
    return sealed;
  }

  /** The encrypted form of an expected value, if the record was recently read or written with this value. */
  rememberedForm(key: string, value: string): string | undefined {
    const remembered = this.#remembered.peek(key);
    return remembered?.value === value ? remembered.sealed : undefined;
  }

  /** Forgets a record, or all. */
  forget(key?: string): void {
    if (key === undefined) this.#remembered.clear();
    else this.#remembered.delete(key);
  }

  sealItem(dataKey: DataKey, tape: string, item: number, { json, refs }: Frame): Frame {
    return { json: dataKey.seal(this.#itemPlace(tape, item, refs), json), refs };
  }

  /** Encrypts a blob with the key of the store: blobs have no place, and are found by their names alone. */
  sealBlob(bytes: Uint8Array): { readonly hash: string; readonly bytes: Uint8Array } {
    const sealed = this.#keys.storeKey.sealBytes(this.#blobPlace(), bytes);
    return { hash: nameOfBlob(sealed), bytes: sealed };
  }

  /**
   * Decrypts a record. The data keys of {@link keyOf} must be in memory.
   *
   * @param remembers whether to remember the record
   */
  openRecord(record: RecordResult, remembers = true): RecordResult {
    if (!("value" in record)) return record;
    const { key, value: sealed, refs } = record;
    if (isReadable(key)) return sealed.startsWith(SEAL_MARKER) ? undecryptable(record) : record;
    const remembered = this.#remembered.peek(key);
    if (remembered?.sealed === sealed && remembered.refs === refs) return { key, value: remembered.value, refs };
    const value = this.#open(sealed, this.#recordPlace(key, refs));
    if (value === undefined) return undecryptable(record);
    if (remembers) this.#remember(key, { value, sealed, refs });
    return { key, value, refs };
  }

  /** Decrypts an item. The data keys of {@link keyOf} must be in memory. */
  openItem(tape: string, item: number, { json, refs }: Frame): Frame | Unreadable {
    const opened = this.#open(json, this.#itemPlace(tape, item, refs));
    return opened === undefined ? { unreadable: `item ${item} of tape ${tape} ${REASON}` } : { json: opened, refs };
  }

  /** Decrypts a blob. Its name is its place, and not every store verifies it. */
  openBlob(hash: string, bytes: Uint8Array): Uint8Array | Unreadable {
    const frame = nameOfBlob(bytes) === hash ? parseFrameBytes(bytes) : undefined;
    const opened = frame && this.#keys.peek(frame.key)?.openBytes(this.#blobPlace(), frame);
    return opened ?? { unreadable: `blob ${hash} ${REASON}` };
  }

  #open(sealed: string, place: string): string | undefined {
    const frame = parseSealed(sealed);
    return frame && this.#keys.peek(frame.key)?.open(place, frame);
  }

  #remember(key: string, record: Remembered): void {
    this.#remembered.set(key, record, key.length + record.value.length + record.sealed.length);
  }

  #recordPlace(key: string, refs: string): string {
    return `${this.#prefix}r${key.length}:${key}${refs}`;
  }

  #itemPlace(tape: string, item: number, refs: string): string {
    return `${this.#prefix}i${tape.length}:${tape}${item}:${refs}`;
  }

  #blobPlace(): string {
    return `${this.#prefix}b`;
  }
}

function nameOfBlob(sealed: Uint8Array): string {
  return createHash("sha256").update(sealed).digest("hex");
}

const REASON = "cannot be decrypted: it was changed or moved, is not encrypted, or its data key was deleted";

function undecryptable({ key }: { readonly key: string }): RecordResult {
  return { key, unreadable: `the record ${key} ${REASON}` };
}

function parseSealed(sealed: string): ParsedFrame | undefined {
  const bytes = sealedBytes(sealed);
  return bytes && parseFrameBytes(bytes);
}

/** The number of the data key of a sealed string; `undefined` if it is not one. */
export function keyOf(sealed: string): number | undefined {
  if (!sealed.startsWith(SEAL_MARKER)) return undefined;
  // Of the base64, only the characters with the version and the key number.
  return parseHead(Buffer.from(sealed.slice(1, 1 + HEAD_CHARACTERS), "base64"))?.key;
}

const HEAD_CHARACTERS = 12;
