/** The option `encryption`: the keys of the application, or a provider that keeps them. */
import { randomBytes } from "node:crypto";
import { invalidArgument, Mutex, validateFields } from "../util/index.js";
import { providerFailed, wrappedKeyDamaged } from "./errors.js";
import { KEY_BYTES, MasterKey } from "./master-key.js";

/**
 * A service that keeps keys and never reveals them, such as AWS KMS or Google Cloud KMS. It encrypts one key of 32 bytes for each
 * name that is used; everything else is encrypted with that key in this process.
 */
export interface KeyProvider {
  /** Encrypts 32 bytes with the key of this name. Called once, when a name is first used for a store. */
  wrap(name: string, key: Uint8Array): Promise<Uint8Array>;
  /** Decrypts what `wrap` has returned. Called when a store is opened; the result is kept in memory until it is closed. */
  unwrap(name: string, wrapped: Uint8Array): Promise<Uint8Array>;
}

/**
 * The keys of an encrypted store: one key of 32 bytes; several, of which `current` encrypts the keys of new sessions; or those of a
 * provider. Names are only for people and providers: keys are identified by their fingerprints.
 */
export type EncryptionOptions =
  | { readonly key: Uint8Array }
  | { readonly current: string; readonly keys: Readonly<Record<string, Uint8Array>> }
  | { readonly current: string; readonly provider: KeyProvider };

/** A master key that a provider has wrapped, as it is stored. */
export interface WrappedMasterKey {
  readonly fingerprint: string;
  readonly name: string;
  readonly wrapped: Uint8Array;
}

/** The master keys that a process has. */
export interface KeyRing {
  /** The key for new data keys. @param stored the wrapped keys of the store, which a provider has created before */
  current(stored: () => Promise<readonly WrappedMasterKey[]>): Promise<CurrentKey>;
  /** The key with a fingerprint; `undefined` if the process does not have it. @param stored its wrapped form, if it has one */
  find(fingerprint: string, stored: () => Promise<WrappedMasterKey | undefined>): Promise<MasterKey | undefined>;
}

/** The key for new data keys. */
export interface CurrentKey {
  readonly key: MasterKey;
  /** Its wrapped form, which must be stored before the key is used; `undefined` if it needs none, or is stored already. */
  readonly unstored?: WrappedMasterKey;
}

/** Parses the option. @param what its name, for messages */
export function parseKeyRing(options: EncryptionOptions, what = "`encryption`"): KeyRing {
  validateFields(options, what, new Set(["key", "current", "keys", "provider"]));
  const { key, current, keys, provider } = options as Partial<Record<"key" | "current" | "keys" | "provider", unknown>>;
  if (key !== undefined && current === undefined && keys === undefined && provider === undefined) {
    const only = new MasterKey(key as Uint8Array);
    return new StaticRing(only, [only]);
  }
  const isNamed = typeof current === "string" && current !== "" && key === undefined;
  if (isNamed && typeof keys === "object" && keys !== null && provider === undefined) {
    const all = Object.entries(keys).map(([name, bytes]) => new MasterKey(bytes as Uint8Array, name));
    const named = all.find(({ name }) => name === current);
    if (!named)
      throw invalidArgument(`${what}.keys has no key with the name of \`current\`, ${JSON.stringify(current)}.`);
    return new StaticRing(named, all);
  }
  const { wrap, unwrap } = (provider ?? {}) as Partial<KeyProvider>;
  if (isNamed && keys === undefined && typeof wrap === "function" && typeof unwrap === "function") {
    return new ProviderRing(current, provider as KeyProvider);
  }
  throw invalidArgument(`${what} must be { key }, { current, keys } or { current, provider }.`);
}

class StaticRing implements KeyRing {
  readonly #current: MasterKey;
  readonly #keys: ReadonlyMap<string, MasterKey>;

  constructor(current: MasterKey, keys: readonly MasterKey[]) {
    this.#current = current;
    this.#keys = new Map([...keys, current].map((key) => [key.fingerprint, key]));
  }

  async current(): Promise<CurrentKey> {
    return { key: this.#current };
  }

  async find(fingerprint: string): Promise<MasterKey | undefined> {
    return this.#keys.get(fingerprint);
  }
}

class ProviderRing implements KeyRing {
  readonly #current: string;
  readonly #provider: KeyProvider;
  /** By fingerprint. */
  readonly #keys = new Map<string, MasterKey>();
  #created: CurrentKey | undefined;
  /** One call creates the key, and the others get it: each of them stores it. */
  readonly #order = new Mutex();

  constructor(current: string, provider: KeyProvider) {
    this.#current = current;
    this.#provider = provider;
  }

  current(stored: () => Promise<readonly WrappedMasterKey[]>): Promise<CurrentKey> {
    return this.#order.run(() => this.#findOrCreate(stored));
  }

  async #findOrCreate(stored: () => Promise<readonly WrappedMasterKey[]>): Promise<CurrentKey> {
    for (const key of this.#keys.values()) if (key.name === this.#current && key !== this.#created?.key) return { key };
    for (const wrapped of await stored()) {
      if (wrapped.name !== this.#current) continue;
      const key = this.#keys.get(wrapped.fingerprint) ?? (await this.#unwrap(wrapped));
      if (this.#created?.key === key) this.#created = undefined;
      return { key };
    }
    if (this.#created) return this.#created;
    const bytes = randomBytes(KEY_BYTES);
    const wrapped = await this.#ask("wrap", this.#current, bytes);
    const key = new MasterKey(bytes, this.#current);
    this.#keys.set(key.fingerprint, key);
    return (this.#created = { key, unstored: { fingerprint: key.fingerprint, name: this.#current, wrapped } });
  }

  async find(fingerprint: string, stored: () => Promise<WrappedMasterKey | undefined>): Promise<MasterKey | undefined> {
    const known = this.#keys.get(fingerprint);
    if (known) return known;
    const wrapped = await stored();
    return wrapped && this.#unwrap(wrapped);
  }

  /** The key of a stored record. Another key than the record names was never stored: what it encrypts would be lost. */
  async #unwrap({ fingerprint, name, wrapped }: WrappedMasterKey): Promise<MasterKey> {
    const bytes = await this.#ask("unwrap", name, wrapped);
    if (bytes.length !== KEY_BYTES) throw providerFailed(name, "unwrap", `it returned ${bytes.length} bytes`);
    const key = new MasterKey(bytes, name);
    if (key.fingerprint !== fingerprint) throw wrappedKeyDamaged(name, fingerprint);
    this.#keys.set(key.fingerprint, key);
    return key;
  }

  /** Asks the provider. Its answers are as little trusted as any other input. */
  async #ask(method: "wrap" | "unwrap", name: string, bytes: Uint8Array): Promise<Uint8Array> {
    let result: unknown;
    try {
      result = await this.#provider[method](name, bytes);
    } catch (error) {
      throw providerFailed(name, method, "it failed", error);
    }
    if (!(result instanceof Uint8Array))
      throw providerFailed(name, method, `it returned a value of type ${typeof result}`);
    return result;
  }
}
