/**
 * The contract between Savepoint and what it keeps its data in.
 *
 * A store keeps four kinds of things and has no opinion about what they mean:
 *
 * - **records**: small texts under ordered keys, read by key or by range;
 * - **items**: texts on append-only, numbered **tapes**, read by ranges of numbers;
 * - **blobs**: bytes under their hash;
 * - nothing else: there is one write, {@link Store.commit}, which is all or nothing.
 *
 * Texts are well-formed Unicode without NUL characters (all JSON is); keys are at most 4,096 bytes of UTF-8.
 *
 * Every read verifies a checksum that covers the place as well as the bytes. What fails is returned as
 * {@link Unreadable}, never as good data and never as an exception, so that callers can step around it.
 */
import type { Frame, Unreadable } from "../../state/index.js";
import type { KeyRange } from "./key-range.js";
import type { TextIndex } from "./text-index.js";

export type { Frame, KeyRange, Unreadable };

/** A text under a key, with the line of references that garbage collection reads. */
export interface StoredRecord {
  readonly key: string;
  readonly value: string;
  /** What the value points at; see `docs/architecture.md`. Empty where it points at nothing. */
  readonly refs: string;
}

/** A record that is there and cannot be read. */
export interface UnreadableRecord extends Unreadable {
  readonly key: string;
}

/** Items of one tape, by number. */
export interface ItemSpan {
  readonly tape: string;
  readonly start: number;
  readonly count: number;
}

/** What must hold for a commit to be applied; looked at inside it. */
export type Check =
  /** The record has exactly this value; `undefined`: there is no such record. A damaged record has no value. */
  | { readonly key: string; readonly value: string | undefined }
  /** There is such a record. */
  | { readonly key: string; readonly exists: true };

/** A record to write. */
export interface Put {
  readonly key: string;
  readonly value: string;
  /** @default "" */
  readonly refs?: string;
  /**
   * Leave an existing record as it is, without failing.
   * @default false
   */
  readonly ifAbsent?: boolean;
}

/**
 * Items to add to a tape. A number that the tape has already fails the commit with `CONFLICT`, which names the tape; an
 * empty run adds nothing.
 */
export type ItemBatch = { readonly tape: string; readonly items: readonly Frame[] } & (
  | { readonly first: number }
  /**
   * The store numbers them: the record under this key holds the next number as decimal digits (a missing record counts
   * as 0) and rises by as many as are added, inside the commit. Concurrent commits never get the same numbers. A counter
   * that is damaged or holds no number fails the commit with `DAMAGED`.
   */
  | { readonly counter: string }
);

/**
 * Bytes that the commit points at. Without `bytes` the blob must be there already (else `CONFLICT`, which names the hash).
 * It counts as used from now on. Bytes that come again replace damaged ones.
 */
export interface BlobUse {
  /** The SHA-256 of the bytes, as lower-case hex. */
  readonly hash: string;
  readonly bytes?: Uint8Array;
}

/** One write. All of it is applied, or none. Within it: checks, deletes, puts, items, blobs, in this order. */
export interface Commit {
  readonly checks?: readonly Check[];
  /** Fails the commit while the store's clock is before this time (milliseconds). Leases are taken over with it. */
  readonly notBefore?: number;
  /** Keys, and ranges of keys, to remove. A missing key is no failure. */
  readonly deletes?: readonly (string | KeyRange)[];
  readonly puts?: readonly Put[];
  readonly items?: readonly ItemBatch[];
  readonly blobs?: readonly BlobUse[];
  /** Names to call out once it is applied: those who {@link Store.listen} are told. A store without that ignores them. */
  readonly wakes?: readonly string[];
}

export interface CommitResult {
  /** For each run of items, the number of its first one. */
  readonly firsts: readonly number[];
}

/** How stores differ. Everything else is the same for all of them. */
export interface StoreCapabilities {
  /** Does what was committed outlive the process? */
  readonly durable: boolean;
  /** May several processes have it open at once? If not, opening it again while it is open fails with `BUSY`. */
  readonly shared: boolean;
}

/** An item that points at something. */
export interface ItemRefs {
  readonly item: number;
  readonly refs: string;
}

/** Records by their keys, and items by the names of their tapes. */
export interface StoredRanges {
  readonly records: readonly KeyRange[];
  readonly tapes: readonly KeyRange[];
}

/** Something that is wrong with a store. */
export interface StoreProblem {
  /** A file, a table or a page, for people. */
  readonly place: string;
  readonly reason: string;
  /** The record that is lost by it, where that can be told and reading does not show it. */
  readonly record?: string;
}

/** What was freed. */
export interface Freed {
  readonly items: number;
  readonly bytes: number;
}

export interface Store extends AsyncDisposable {
  /** Where it is, for messages. Never contains a password. */
  readonly url: string;
  readonly capabilities: StoreCapabilities;

  /**
   * The records under these keys, one for one; `undefined` for a key that has none. All are read at one moment.
   * Sees every commit that has resolved, in this process or another.
   */
  get(keys: readonly string[]): Promise<(StoredRecord | UnreadableRecord | undefined)[]>;

  /**
   * Up to `limit` records of a range in the order of their keys, or against it with `reverse`. A range with nothing in
   * it gives `[]`. Longer ranges are read page by page, by starting again behind the last key: from `${key}\u0001`.
   */
  list(
    range: KeyRange,
    options: { readonly limit: number; readonly reverse?: boolean },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;

  /** The items of these spans, one for one and in order. A missing one is {@link Unreadable} too. */
  items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]>;

  /** The bytes of a blob, or why they cannot be read. */
  blob(hash: string): Promise<Uint8Array | Unreadable>;

  /**
   * Applies a commit. When it resolves, the write is durable as the store promises; when it rejects with `CONFLICT`, a
   * check failed (`details.keys` names the keys) and nothing was written. Commits of one caller are applied in the order
   * they were called in. Commits that wait at the same time may share one sync to disk: each still conflicts alone. The
   * queue is bounded: a caller that does not wait for its commits is made to wait (`BUSY` past a bound).
   */
  commit(commit: Commit): Promise<CommitResult>;

  /** The store's clock, in milliseconds: the one that `notBefore` is compared with. */
  now(): Promise<number>;

  /**
   * For garbage collection: the items of a span that point at something, in order. Where that cannot be told, the whole
   * answer is {@link Unreadable}: nothing may be freed then. Missing items point at nothing.
   */
  itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable>;

  /** For garbage collection: the names of all tapes from `from` (included) to `to` (excluded). */
  tapes(range: KeyRange): Promise<string[]>;

  /**
   * Frees the items of a tape that are numbered below `below` and in none of the `live` spans, which may overlap and come
   * in any order. What is packed together with live items may stay as it is, unless `repack` is set.
   */
  retain(
    tape: string,
    live: readonly { readonly start: number; readonly count: number }[],
    options: { readonly below: number; readonly repack?: boolean },
  ): Promise<Freed>;

  /** For garbage collection: up to `limit` hashes of blobs behind `after`, in order. */
  blobs(options: { readonly after: string; readonly limit: number }): Promise<string[]>;

  /** Frees those of these blobs that no commit has used since `unusedSince` (the store's clock). */
  dropBlobs(hashes: readonly string[], options: { readonly unusedSince: number }): Promise<Freed>;

  /** Packs what can be packed closer and gives the space back. Safe while others write; what is stored reads the same. */
  compact(): Promise<void>;

  /** Bytes that the store takes where it lives. */
  bytes(): Promise<number>;

  /**
   * Bytes of the records and items in these ranges, as they are stored. Blobs are not counted: they belong to no range.
   * Reads no bodies.
   */
  bytesOf(ranges: StoredRanges): Promise<number>;

  /**
   * Up to `limit` records of these ranges, in the order of the ranges and of their keys, that no other caller of this was
   * given in the last `forMs` milliseconds. Of many who look for work at once, each is so given something else. It is a
   * hint: it keeps nobody from reading or writing them, and whoever writes one takes the hint away. A store that has
   * none leaves it out; then those who look for work meet more often.
   */
  reserve?(
    ranges: readonly KeyRange[],
    options: { readonly limit: number; readonly forMs: number },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;

  /**
   * Listens to the names that commits call out ({@link Commit.wakes}), of any process. One that is called while nobody
   * can hear it, because the connection is gone, is lost: whoever needs to know looks from time to time as well. A store
   * in which processes cannot tell each other leaves it out.
   *
   * @returns the function that ends it
   */
  listen?(listener: (name: string) => void): Promise<() => Promise<void>>;

  /**
   * Finds documents by what they contain. A store that has none of its own leaves it out; then one in memory is used,
   * which is made anew by every process.
   */
  readonly texts?: TextIndex;

  /**
   * Puts items in the place of those of a tape that are damaged or missing. Those that can be read are left as they are.
   * Returns how many were put.
   */
  heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number>;

  /**
   * What is wrong with how things are stored, beyond what reading each record, item and blob shows. A store that cannot
   * tell more leaves it out.
   */
  check?(): Promise<StoreProblem[]>;

  /** Waits for what was committed and lets go of everything. Calling it again does nothing. */
  close(): Promise<void>;
}

/** The keys that begin with `prefix`, which ends with an ASCII character. */
export function prefixRange(prefix: string): KeyRange {
  const last = prefix.charCodeAt(prefix.length - 1);
  return { from: prefix, to: prefix.slice(0, -1) + String.fromCharCode(last + 1) };
}
