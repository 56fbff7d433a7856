/**
 * The store contract: what Savepoint needs from a storage backend.
 *
 * A store holds three kinds of data and does not interpret any of them:
 *
 * - **records**: small strings under ordered keys, read by key or by key range;
 * - **items**: strings on append-only, numbered **tapes**, read by ranges of numbers;
 * - **blobs**: bytes under their hash.
 *
 * There is one write, {@link Store.commit}. It is atomic.
 *
 * Strings are well-formed Unicode without NUL characters (all JSON is). Keys are at most 4,096 bytes of UTF-8.
 *
 * Every read verifies a checksum that covers the location as well as the bytes. Data that fails it is returned as
 * {@link Unreadable}, never as good data and never as an exception, so that callers can work around it.
 */
import type { Frame, Unreadable } from "../../state/index.js";
import type { KeyRange } from "./key-range.js";
import type { TextIndex } from "./text-index.js";

export type { Frame, KeyRange, Unreadable };

/** A string under a key, with the references that garbage collection reads. */
export interface StoredRecord {
  readonly key: string;
  readonly value: string;
  /** What the value points at; see `docs/architecture.md`. Empty if it points at nothing. */
  readonly refs: string;
}

/** A record that exists but cannot be read. */
export interface UnreadableRecord extends Unreadable {
  readonly key: string;
}

/** Consecutive items of one tape. */
export interface ItemSpan {
  readonly tape: string;
  readonly start: number;
  readonly count: number;
}

/** A condition of a commit. It is evaluated inside the commit, before the commit's own writes. */
export type Check = {
  readonly key: string;
  /**
   * Names what the check protects. If the check fails, the `CONFLICT` error has the tag in `details.tags`, so that the
   * caller need not infer the reason from the key.
   * @default none
   */
  readonly tag?: string;
} & (
  | {
      /** The exact value of the record; `undefined` if it must not exist. A damaged record equals no value. */
      readonly value: string | undefined;
    }
  | {
      /** The record must exist, with any value. */
      readonly exists: true;
    }
);

/** A record to write. */
export interface Put {
  readonly key: string;
  readonly value: string;
  /** @default "" */
  readonly refs?: string;
  /**
   * Keep an existing record unchanged, without failing.
   * @default false
   */
  readonly ifAbsent?: boolean;
}

/**
 * Items to append to a tape. A number that the tape already has fails the commit with `CONFLICT`, and `details.keys` has
 * the tape. An empty batch appends nothing.
 */
export type ItemBatch = { readonly tape: string } & (
  | {
      readonly items: readonly Frame[];
      /** The number of the first item. */
      readonly first: number;
    }
  | {
      /**
       * The items; or a function that returns them, for items that depend on their numbers. It is pure, and the store calls it
       * with the number of the first item: more than once, if it assigns the numbers again.
       */
      readonly items: readonly Frame[] | ((first: number) => readonly Frame[]);
      /**
       * The key of a record that holds the next number as decimal digits; a missing record counts as 0. The store assigns
       * the numbers and raises the counter inside the commit, so concurrent commits never get the same ones. A counter
       * that is damaged or not a number fails the commit with `DAMAGED`.
       */
      readonly counter: string;
    }
);

/**
 * A blob that the commit refers to. Without `bytes`, the blob must exist already; otherwise the commit fails with
 * `CONFLICT`, and `details.keys` has the hash. The blob counts as used from now on. Bytes of an existing blob replace
 * damaged ones.
 */
export interface BlobUse {
  /** The SHA-256 of the bytes, as lower-case hex. */
  readonly hash: string;
  readonly bytes?: Uint8Array;
}

/** An atomic write. Its parts are applied in this order: checks, deletes, puts, items, blobs. */
export interface Commit {
  readonly checks?: readonly Check[];
  /**
   * Fails the commit with `CONFLICT` while the store's clock is before this time, in milliseconds. `details.keys` has
   * `"notBefore"` then. Taking over an expired lease uses it.
   */
  readonly notBefore?: number;
  /** Keys and key ranges to remove. A missing key is not an error. */
  readonly deletes?: readonly (string | KeyRange)[];
  readonly puts?: readonly Put[];
  readonly items?: readonly ItemBatch[];
  readonly blobs?: readonly BlobUse[];
  /** Names to send to the listeners of {@link Store.listen} after the commit. A store without `listen` ignores them. */
  readonly wakes?: readonly string[];
}

/** The result of a commit. */
export interface CommitResult {
  /** The number of the first item of each batch, in the order of the batches. */
  readonly firsts: readonly number[];
}

/** How stores differ. Everything else is the same for all of them. */
export interface StoreCapabilities {
  /** Whether committed data survives the end of the process. */
  readonly durable: boolean;
  /** Whether several processes can have the store open at the same time. If not, a second open fails with `BUSY`. */
  readonly shared: boolean;
}

/** An item with references. */
export interface ItemRefs {
  readonly item: number;
  readonly refs: string;
}

/** Ranges of records (by key) and of items (by the name of their tape). */
export interface StoredRanges {
  readonly records: readonly KeyRange[];
  readonly tapes: readonly KeyRange[];
}

/** A problem of a store, found by {@link Store.check}. */
export interface StoreProblem {
  /** A file, a table or a page, for people to read. */
  readonly place: string;
  readonly reason: string;
  /** The key of the record that is lost, if it is known and reading the record does not show it. */
  readonly record?: string;
}

/** How much a call has freed. */
export interface Freed {
  readonly items: number;
  readonly bytes: number;
}

/** What a scrub could not remove. */
export interface ScrubResult {
  /** Deleted data that is still in the store's files, why, and what removes it; `undefined` if there is none. */
  readonly pending?: string;
  /** Copies that the store cannot change, such as the log of a server; `undefined` if there are none. */
  readonly elsewhere?: string;
}

/** A storage backend. See `docs/writing-a-store.md` for how to write and test one. */
export interface Store extends AsyncDisposable {
  /** The location of the store, for messages. Never contains a password. */
  readonly url: string;
  readonly capabilities: StoreCapabilities;

  /**
   * Reads the records under these keys, in the order of the keys; `undefined` for a missing one. All records are read
   * from one snapshot, which includes every commit that has resolved, in this or another process.
   */
  get(keys: readonly string[]): Promise<(StoredRecord | UnreadableRecord | undefined)[]>;

  /**
   * Reads up to `limit` records of a range in the order of their keys, or in reverse order. An empty range returns `[]`.
   * To read the next page, start behind the last key: from `${key}\u0001`.
   */
  list(
    range: KeyRange,
    options: { readonly limit: number; readonly reverse?: boolean },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;

  /** Reads the items of these spans, in order. A missing item is {@link Unreadable}, like a damaged one. */
  items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]>;

  /** Reads the bytes of a blob. A missing blob is {@link Unreadable}, like a damaged one. */
  blob(hash: string): Promise<Uint8Array | Unreadable>;

  /**
   * Applies a commit. When it resolves, the write is durable as the store promises.
   *
   * When it rejects with `CONFLICT`, nothing was written: `details.keys` has the keys of the failed checks, in the order of
   * the checks, and `details.tags` the tags of those that have one.
   *
   * Commits of one caller are applied in the order of the calls. Commits that wait at the same time may share one sync to
   * disk, but each conflicts alone. The queue is bounded; a caller that exceeds it gets `BUSY`.
   */
  commit(commit: Commit): Promise<CommitResult>;

  /**
   * Applies a commit before it returns, without waiting for a lock or the disk; does nothing if that is not possible. It is the last
   * call of a process that exits without closing the store. A store without it reports such a process as crashed.
   */
  commitAtExit?(commit: Commit): void;

  /** The store's clock, in milliseconds: the one that `notBefore` is compared with. */
  now(): Promise<number>;

  /**
   * Lists the items of a span that have references, in order, for garbage collection. If the references cannot be read,
   * the result is {@link Unreadable}, and nothing may be freed. Missing items have no references.
   */
  itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable>;

  /** Lists the names of all tapes in a range, in order, for garbage collection. */
  tapes(range: KeyRange): Promise<string[]>;

  /**
   * Frees the items of a tape that are numbered below `below` and in none of the `live` spans. The spans may overlap and
   * come in any order. Items that are packed together with live ones may stay, unless `repack` is set.
   */
  retain(
    tape: string,
    live: readonly { readonly start: number; readonly count: number }[],
    options: { readonly below: number; readonly repack?: boolean },
  ): Promise<Freed>;

  /** Lists up to `limit` hashes of blobs greater than `after`, in order, for garbage collection. */
  blobs(options: { readonly after: string; readonly limit: number }): Promise<string[]>;

  /** Frees those of these blobs that no commit has used since `unusedSince` (by the store's clock). */
  dropBlobs(hashes: readonly string[], options: { readonly unusedSince: number }): Promise<Freed>;

  /** Packs stored data more tightly and returns the space. Safe while others write; reads return the same as before. */
  compact(): Promise<void>;

  /**
   * Removes deleted data from the store's files: from free pages, old versions of rows and deleted lines. When it resolves
   * without `pending`, no byte that was deleted before the call can be found in them. May rewrite the whole store; waits for
   * readers of other processes at most for the busy timeout.
   *
   * Optional: not needed if the files contain no deleted data after {@link Store.compact}.
   */
  scrub?(): Promise<ScrubResult>;

  /** The bytes that the store occupies. */
  bytes(): Promise<number>;

  /** The stored bytes of the records and items in these ranges, without blobs. Does not read the data itself. */
  bytesOf(ranges: StoredRanges): Promise<number>;

  /**
   * Reads up to `limit` records of these ranges, in the order of the ranges and keys, and reserves them for `forMs`
   * milliseconds: meanwhile no other call returns them, so that concurrent workers find different work. A reservation does
   * not prevent reads or writes, and any write of the record removes it.
   *
   * Optional: without it, workers that search for work at the same time collide more often.
   */
  reserve?(
    ranges: readonly KeyRange[],
    options: { readonly limit: number; readonly forMs: number },
  ): Promise<(StoredRecord | UnreadableRecord)[]>;

  /**
   * Calls `listener` with the names that commits of any process send ({@link Commit.wakes}). Names that are sent while the
   * connection is down are lost, so callers must also poll.
   *
   * Optional: left out by a store whose processes cannot notify each other.
   *
   * @returns a function that removes the listener
   */
  listen?(listener: (name: string) => void): Promise<() => Promise<void>>;

  /**
   * The name under which {@link Commit.blobs} must contain these bytes, if that is not their SHA-256. Optional: only defined by views that store other bytes than they receive, such as encrypted ones.
   */
  blobName?(bytes: Uint8Array): string;

  /** The full-text index of the store. Optional: without it, each process builds one in memory. */
  readonly texts?: TextIndex;

  /**
   * Replaces those of these items of a tape that are damaged or missing. Readable items stay unchanged.
   *
   * @returns the number of items replaced
   */
  heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number>;

  /** Finds problems that reading each record, item and blob does not show. Optional. */
  check?(): Promise<StoreProblem[]>;

  /** Waits for pending commits and releases all resources. Further calls do nothing. */
  close(): Promise<void>;
}

/** The range of all keys that begin with `prefix`, which must end with an ASCII character. */
export function prefixRange(prefix: string): KeyRange {
  const last = prefix.charCodeAt(prefix.length - 1);
  return { from: prefix, to: prefix.slice(0, -1) + String.fromCharCode(last + 1) };
}
