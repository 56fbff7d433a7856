/**
 * A store whose contents are encrypted: the layers above it read and write plain data, the store below it gets sealed values.
 *
 * References, the keys of records and the numbers of items stay readable, so that packing, garbage
 * collection and repair of the store need no keys. Data that does not decrypt is {@link Unreadable}, like damaged data. The
 * full-text index of the store is not used, because it would contain plain text; an index in memory replaces it.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import { ALL_STORED_KEYS, ENCRYPTION_KEY } from "../records/index.js";
import {
  type Commit,
  type CommitResult,
  covers,
  type Frame,
  type ItemSpan,
  type KeyRange,
  overrideStore,
  type RecordResult,
  type Store,
  type StoredRecord,
  type Unreadable,
} from "../store/index.js";
import { Mutex } from "../util/index.js";
import { CommitSealer, type SealedCommit } from "./commit-sealer.js";
import { numberOfDataKey, type DataKeys } from "./data-keys.js";
import { Frames, keyOf } from "./frames.js";
import { aroundEncryption, isEncryptionRecord, isReadable, numberOfTape } from "./key-kinds.js";
import { tapeAbove, tapeBelow, tapesBelow } from "./tapes.js";

type ListOptions = Parameters<Store["list"]>[1];

/** How often a commit is encrypted again because the caches of this process were outdated. */
const MAX_TRIES = 20;

/** A view of a store that encrypts what is written and decrypts what is read. */
export function encryptStore(store: Store, keys: DataKeys): Store {
  const view = new EncryptedView(store, keys);
  return overrideStore(store, {
    get: (names) => view.get(names),
    list: (range, options) => view.list(range, options),
    items: (spans) => view.items(spans),
    blob: (hash) => view.blob(hash),
    blobName: (bytes) => view.frames.sealBlob(bytes).hash,
    commit: (commit) => view.commit(commit),
    commitAtExit: "commitAtExit" in store ? (commit) => view.commitAtExit(commit) : undefined,
    itemRefs: (span) => store.itemRefs({ ...span, tape: tapeBelow(span.tape) }),
    tapes: async (range) => (await store.tapes(tapesBelow(range))).map(tapeAbove),
    retain: (tape, live, options) => store.retain(tapeBelow(tape), live, options),
    bytesOf: ({ records, tapes }) =>
      store.bytesOf({ records: records.flatMap(aroundEncryption), tapes: tapes.map(tapesBelow) }),
    heal: (tape, items) => view.heal(tape, items),
    reserve: "reserve" in store ? (ranges, options) => view.reserve(ranges, options) : undefined,
    texts: undefined,
  });
}

class EncryptedView {
  readonly frames: Frames;
  readonly #store: Store;
  readonly #keys: DataKeys;
  readonly #sealer: CommitSealer;
  /** Commits are sent in the order of the calls, also if one of them has to wait for its data key. */
  readonly #order = new Mutex();
  readonly #inFlight = new Set<Promise<unknown>>();

  constructor(store: Store, keys: DataKeys) {
    this.#store = store;
    this.#keys = keys;
    this.frames = new Frames(keys);
    this.#sealer = new CommitSealer(store, keys, this.frames);
  }

  async get(keys: readonly string[]): Promise<(RecordResult | undefined)[]> {
    const found = await this.#store.get(keys);
    return this.#openAll(found.map((record) => (record && isEncryptionRecord(record.key) ? undefined : record)));
  }

  async list(range: KeyRange, options: ListOptions): Promise<RecordResult[]> {
    const page = await this.#store.list(range, options);
    const records = page.filter(({ key }) => !isEncryptionRecord(key));
    if (records.length === page.length || page.length < options.limit) return this.#openAll(records);
    // The records of the encryption are hidden, and others may follow them.
    const parts = aroundEncryption(range);
    const all: RecordResult[] = [];
    for (const part of options.reverse ? parts.reverse() : parts) {
      const limit = options.limit - all.length;
      if (limit > 0) all.push(...(await this.#store.list(part, { ...options, limit })));
    }
    return this.#openAll(all);
  }

  async reserve(...parameters: Parameters<NonNullable<Store["reserve"]>>): Promise<RecordResult[]> {
    return this.#openAll((await this.#store.reserve?.(...parameters)) ?? []);
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    const found = await this.#store.items(spans.map((span) => ({ ...span, tape: tapeBelow(span.tape) })));
    await this.#loadKeysOf(found.flatMap((item) => ("json" in item ? [item.json] : [])));
    let index = 0;
    const opened: (Frame | Unreadable)[] = [];
    for (const { tape, start, count } of spans) {
      for (let item = start; item < start + count; item++) {
        const frame = found[index++] as Frame | Unreadable;
        opened.push("json" in frame ? this.frames.openItem(tape, item, frame) : nameTape(frame, tape));
      }
    }
    return opened;
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    const bytes = await this.#store.blob(hash);
    return "unreadable" in bytes ? bytes : this.frames.openBlob(hash, bytes);
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    const number = numberOfTape(tape);
    await this.#keys.loadForWriting([number]);
    let key = this.#keys.peek(number);
    if (!key) {
      const created = await this.#keys.create(number);
      await this.#store.commit({ checks: created.checks, puts: created.puts });
      this.#keys.set((key = created.key));
    }
    const dataKey = key;
    const sealed = [...items].map(([item, frame]) => [item, this.frames.sealItem(dataKey, tape, item, frame)] as const);
    return this.#store.heal(tapeBelow(tape), new Map(sealed));
  }

  commit(commit: Commit): Promise<CommitResult> {
    const sealed = this.#order.isIdle ? this.#sealer.trySeal(commit) : undefined;
    return sealed ? this.#send(commit, sealed, 1) : this.#sendInOrder(commit, 1);
  }

  /** Applies a commit if that needs no data key that is not in memory. */
  commitAtExit(commit: Commit): void {
    const sealed = this.#sealer.trySeal(commit);
    if (sealed) this.#store.commitAtExit?.(sealed.commit);
  }

  async #sendInOrder(commit: Commit, tries: number): Promise<CommitResult> {
    // The lock is released when the commit was sent, not when it is durable.
    const { sending } = await this.#order.run(async () => {
      const sealed = await this.#sealer.seal(commit, () => Promise.allSettled(this.#inFlight), tries > 1);
      return { sending: this.#send(commit, sealed, tries) };
    });
    return sending;
  }

  #send(commit: Commit, sealed: SealedCommit, tries: number): Promise<CommitResult> {
    const committing = this.#store.commit(sealed.commit).then((result) => {
      this.#sealer.noteApplied(commit, sealed);
      this.#forgetKeys(commit);
      return result;
    });
    this.#inFlight.add(committing);
    this.#sealer.noteInFlight(commit);
    const end = (isApplied: boolean): void => {
      this.#inFlight.delete(committing);
      this.#sealer.noteSettled(commit, isApplied);
    };
    committing.then(
      () => end(true),
      () => end(false),
    );
    if (sealed.created.length > 0) this.#sealer.noteSending(sealed, committing);
    return committing.catch(async (error: unknown) => {
      if (!isSavepointError(error, "CONFLICT")) throw error;
      const keys = (error.details["keys"] as readonly string[]).map((key) => nameAbove(key, commit));
      const own = keys.filter((key) => !sealed.internal.has(key));
      if (own.length === 0 && tries < MAX_TRIES) {
        await this.#refresh(keys);
        return this.#sendInOrder(commit, tries + 1);
      }
      // Another process may have written the same values in another form, with other references. The next commit reads them again.
      for (const key of own) this.frames.forget(key);
      throw conflictOf(error, own);
    });
  }

  /** Refreshes what this process has cached of the encryption. @param failed the keys of failed checks */
  async #refresh(failed: readonly string[]): Promise<void> {
    if (failed.includes(ENCRYPTION_KEY)) await this.#keys.reloadHeader();
    for (const key of failed) if (key !== ENCRYPTION_KEY) this.#keys.forget(numberOfDataKey(key));
    this.#sealer.forgetNumbers();
  }

  #forgetKeys({ deletes = [] }: Commit): void {
    for (const key of deletes) {
      if (typeof key === "string" && covers(ALL_STORED_KEYS, key)) this.#keys.forget(numberOfDataKey(key));
    }
  }

  async #openAll<Result extends RecordResult | undefined>(records: readonly Result[]): Promise<Result[]> {
    const sealed = records.flatMap((record): StoredRecord[] =>
      record && "value" in record && !isReadable(record.key) ? [record] : [],
    );
    await this.#loadKeysOf(sealed.map(({ value }) => value));
    for (const { key, value } of sealed) if (isOwnerKey(key)) this.#sealer.noteOwner(key, value);
    return records.map((record) => (record ? this.frames.openRecord(record) : record) as Result);
  }

  /** Reads the data keys of sealed strings into memory. */
  async #loadKeysOf(sealed: readonly string[]): Promise<void> {
    const missing = new Set<number>();
    let last: number | undefined;
    for (const each of sealed) {
      const number = keyOf(each);
      if (number === undefined || number === last) continue;
      last = number;
      if (!this.#keys.peek(number)) missing.add(number);
    }
    if (missing.size > 0) await this.#keys.load(missing);
  }
}

/** Whether a record names the number of a session or conversation by its id. */
function isOwnerKey(key: string): boolean {
  return /^[sc]\t[^\t]*$/.test(key);
}

/** A name in a conflict as the caller knows it. */
function nameAbove(name: string, { items = [] }: Commit): string {
  return items.some(({ tape }) => tapeBelow(tape) === name) ? tapeAbove(name) : name;
}

function nameTape({ unreadable }: Unreadable, tape: string): Unreadable {
  return { unreadable: unreadable.replace(`tape ${tapeBelow(tape)}`, `tape ${tape}`) };
}

/** The same conflict with the keys of the caller's own conditions. */
function conflictOf(error: SavepointError, keys: readonly string[]): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Another writer was first: ${keys.map((key) => JSON.stringify(key)).join(", ")}.`,
    { cause: error.cause, details: { ...error.details, keys } },
  );
}
