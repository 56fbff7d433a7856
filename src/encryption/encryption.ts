/** The encryption of one open store: whether it is encrypted, its keys, and the views that use them. */
import { isSavepointError, SavepointError } from "../errors.js";
import { ENCRYPTION_KEY } from "../records/index.js";
import { hashBytes } from "../state/index.js";
import { type Commit, type CommitResult, covers, overrideStore, type Store, StoreSwitch } from "../store/index.js";
import { completeConversion, convert, type ConversionHost } from "./convert.js";
import { countDataKeys, type DataKeys, sealingKey } from "./data-keys.js";
import { encryptStore } from "./encrypted-store.js";
import { keyRequired } from "./errors.js";
import { isReadable } from "./key-kinds.js";
import type { KeyRing } from "./key-ring.js";
import { openDataKeys, readHeader } from "./open.js";
import { rekey, type RekeyProgress, type RekeyReport } from "./rekey.js";
import type { SealingKey } from "./sealed-stream.js";

/** The data keys that one master key has encrypted. */
export interface KeyUse {
  /** Identifies the key. */
  readonly fingerprint: string;
  /** Its name in the ring of this process; `undefined` if the key has no name or is not in it. */
  readonly name: string | undefined;
  /** Whether new data keys are encrypted with it. */
  readonly current: boolean;
  /** How many data keys it encrypts. If it is 0, the key is needed only for older backups and copies. */
  readonly dataKeys: number;
}

export class Encryption {
  /** The store to use: a view that encrypts, if the store is encrypted. */
  readonly store: Store;
  /** The store with the sealed values. */
  readonly raw: Store;
  readonly #switch: StoreSwitch | undefined;
  #keys: DataKeys | undefined;
  #current: Store;

  private constructor(raw: Store, keys: DataKeys | undefined, isConvertible: boolean) {
    this.raw = raw;
    this.#keys = keys;
    this.#current = keys ? encryptStore(raw, keys) : plainView(raw);
    // Only a plain store can be replaced by its encrypted view.
    this.#switch = !keys && isConvertible ? new StoreSwitch(this.#current) : undefined;
    this.store = this.#switch?.store ?? this.#current;
  }

  /**
   * Opens the encryption of a store.
   *
   * @param ring the keys; `undefined` if none were passed
   * @param options.isWritable whether the store may be written
   * @param options.create whether an empty store becomes encrypted
   * @throws WRONG_KEY, NOT_ENCRYPTED, DAMAGED
   */
  static async open(
    raw: Store,
    ring: KeyRing | undefined,
    { isWritable, create }: { readonly isWritable: boolean; readonly create: boolean },
  ): Promise<Encryption> {
    if (!ring) {
      // Others are read when they are opened, which finds the header.
      if (!raw.capabilities.durable && (await readHeader(raw))) throw keyRequired(raw.url);
      return new Encryption(raw, undefined, isWritable);
    }
    const keys = await openDataKeys(raw, ring, isWritable && create);
    if (keys.header.state === "converting") {
      if (!isWritable) throw unfinished(raw.url);
      await completeConversion(raw, keys);
    }
    return new Encryption(raw, keys, false);
  }

  get isEncrypted(): boolean {
    return this.#keys !== undefined;
  }

  /** The keys of the store; `undefined` if it is not encrypted. */
  get ring(): KeyRing | undefined {
    return this.#keys?.ring;
  }

  /**
   * The key that encrypts bundles of the store: its current master key, also if another process has changed it; `undefined` if the
   * store is not encrypted.
   *
   * @throws WRONG_KEY if this process does not have it
   */
  async sealingKey(): Promise<SealingKey | undefined> {
    return this.#keys && sealingKey(this.raw, this.#keys);
  }

  /** The name of a blob in the store. */
  blobName(bytes: Uint8Array): string {
    return this.#current.blobName?.(bytes) ?? hashBytes(bytes);
  }

  /** Encrypts all data keys with the current key. @throws NOT_ENCRYPTED */
  async rekey(onProgress: (progress: RekeyProgress) => void): Promise<RekeyReport> {
    if (!this.#keys) {
      throw new SavepointError(
        "NOT_ENCRYPTED",
        `The store ${this.raw.url} is not encrypted. To encrypt it, call \`sp.rekey({ to: { key } })\`.`,
      );
    }
    return rekey(this.raw, this.#keys, onProgress);
  }

  /** Encrypts a plain store. @throws INVALID_ARGUMENT if it is encrypted, BUSY if another process has it open */
  async encrypt(
    ring: KeyRing,
    host: ConversionHost,
    onProgress: (progress: RekeyProgress) => void,
  ): Promise<RekeyReport> {
    if (this.#keys || !this.#switch) {
      throw new SavepointError(
        "INVALID_ARGUMENT",
        `The store ${this.raw.url} is encrypted already. To change its key, open it with both keys and call \`sp.rekey()\`.`,
      );
    }
    const resume = this.#switch.pause();
    try {
      const { keys, pending } = await convert(this.raw, ring, host, onProgress);
      this.#keys = keys;
      this.#current = encryptStore(this.raw, keys);
      const total = (await countDataKeys(this.raw)).get(keys.header.key) ?? 0;
      return { keys: total, total, fingerprint: keys.header.key, ...(pending !== undefined && { pending }) };
    } catch (error) {
      // Some of the data may be encrypted already, so this handle must not read or write it.
      const isPlain = await readHeader(this.raw).then(
        (header) => header === undefined,
        () => false,
      );
      if (!isPlain) this.#current = interruptedView(this.raw, error);
      throw error;
    } finally {
      this.#switch.target = this.#current;
      resume();
    }
  }

  /** How many data keys each master key encrypts; `undefined` if the store is not encrypted. */
  async keyUse(): Promise<readonly KeyUse[] | undefined> {
    const keys = this.#keys;
    if (!keys) return undefined;
    const uses: KeyUse[] = [];
    for (const [fingerprint, dataKeys] of await countDataKeys(this.raw)) {
      uses.push({
        fingerprint,
        name: await keys.nameOf(fingerprint),
        current: fingerprint === keys.header.key,
        dataKeys,
      });
    }
    return uses;
  }
}

/**
 * A store without a key. A read that finds the header of an encrypted store fails, which is the first read of every process. So do
 * commits up to the first one with content, if the store was encrypted in between. From then on, the process is registered and its
 * content shows that the store is plain, which prevents that.
 */
function plainView(store: Store): Store {
  // No other process can open such a store.
  if (!store.capabilities.durable) return store;
  let isChecked = false;
  const list: Store["list"] = async (range, options) => {
    const page = await store.list(range, options);
    if (covers(range, ENCRYPTION_KEY) && page.some(({ key }) => key === ENCRYPTION_KEY)) throw keyRequired(store.url);
    return page;
  };
  const commit = async (first: Commit): Promise<CommitResult> => {
    try {
      const checks = [...(first.checks ?? []), { key: ENCRYPTION_KEY, value: undefined }];
      const result = await store.commit({ ...first, checks });
      isChecked = (first.items ?? []).length > 0 || (first.puts ?? []).some(({ key }) => !isReadable(key));
      return result;
    } catch (error) {
      const keys = isSavepointError(error, "CONFLICT") ? (error.details["keys"] as readonly string[]) : [];
      if (keys.includes(ENCRYPTION_KEY)) throw keyRequired(store.url);
      throw error;
    }
  };
  return overrideStore(store, { list, commit: (each) => (isChecked ? store.commit(each) : commit(each)) });
}

/** A store whose conversion was interrupted: it has to be opened again. */
function interruptedView(store: Store, cause: unknown): Store {
  const reject = async (): Promise<never> => {
    throw new SavepointError(
      "KEY_REQUIRED",
      `Encrypting the store ${store.url} was interrupted. Open it with its key, which completes the encryption.`,
      { cause },
    );
  };
  const reads = {
    get: reject,
    list: reject,
    items: reject,
    blob: reject,
    itemRefs: reject,
    tapes: reject,
    blobs: reject,
  };
  const writes = { commit: reject, retain: reject, dropBlobs: reject, heal: reject, compact: reject, scrub: reject };
  return overrideStore(store, { ...reads, ...writes, reserve: reject, commitAtExit: undefined, texts: undefined });
}

function unfinished(url: string): SavepointError<"READ_ONLY"> {
  return new SavepointError(
    "READ_ONLY",
    `The encryption of the store ${url} was interrupted. Open it with its key and without \`readOnly\`, which completes the encryption.`,
  );
}
