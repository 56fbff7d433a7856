/**
 * Encrypts commits.
 *
 * A record of a session is encrypted with the data key of the session's number. The number is in the key of the record, in another
 * record of the same commit, or it is remembered from an earlier one. The session may have been deleted since, and created again
 * with another number. So if the number is only remembered, the commit checks that its data key still exists.
 */
import { SavepointError } from "../errors.js";
import {
  type BlobUse,
  type Check,
  type Commit,
  type Frame,
  type ItemBatch,
  type Put,
  type Store,
  type StoredRecord,
} from "../store/index.js";
import { LruMap } from "../util/index.js";
import {
  confirms,
  isSealedCheck,
  newNumbersIn,
  numbersIn,
  type SealedCheck,
  withoutEncryption,
  withoutRepetition,
} from "./commit-parts.js";
import { type DataKey, STORE_KEY } from "./data-key.js";
import { type DataKeys, type NewDataKey, recordOfDataKey } from "./data-keys.js";
import { type Frames, keyOf } from "./frames.js";
import { isReadable, isWrittenOnce, type KeySource, keySourceOf, numberOfTape } from "./key-kinds.js";
import { tapeBelow } from "./tapes.js";

/** The most sessions and conversations whose numbers are remembered. */
const MAX_NUMBERS = 20_000;

/** A commit as the store gets it. */
export interface SealedCommit {
  readonly commit: Commit;
  /** The data keys that it creates. */
  readonly created: readonly DataKey[];
  /** The keys of its checks that the caller does not know. */
  readonly internal: ReadonlySet<string>;
}

/** What has to be read before a commit can be encrypted. */
interface Demand {
  readonly numbers: Set<number>;
  /** The keys of records of sessions and conversations whose numbers are unknown. */
  readonly owners: Set<string>;
  /** The keys of records whose encrypted form is unknown, and whose values are checked. */
  readonly checked: Set<string>;
}

/** The encrypted form of a record, and its value. */
interface KnownForm {
  readonly value: string;
  readonly sealed: string;
}

/** What has been read and created for one commit. */
interface Preparation {
  readonly created: ReadonlyMap<number, NewDataKey>;
  /** The numbers of sessions and conversations, by the keys of their records. */
  readonly numbers: ReadonlyMap<string, number>;
  /** The encrypted forms of records that have the expected values, by key. */
  readonly forms: ReadonlyMap<string, KnownForm>;
}

const UNPREPARED: Preparation = { created: new Map(), numbers: new Map(), forms: new Map() };

/** The data keys and encrypted forms for the parts of a commit, in the order of the parts. */
interface Resolution {
  /** The encrypted form of the expected value of each check; `undefined` for checks that need none. */
  readonly forms: readonly (string | undefined)[];
  /** The data key of each put; `undefined` for records that stay readable. */
  readonly putKeys: readonly (DataKey | undefined)[];
  readonly itemKeys: readonly DataKey[];
  /** The cached numbers of sessions and conversations that no check confirms. The commit checks that their data keys still exist. */
  readonly assumed: ReadonlySet<number>;
}

const NOTHING_ASSUMED: ReadonlySet<number> = new Set();

export class CommitSealer {
  readonly #store: Store;
  readonly #keys: DataKeys;
  readonly #frames: Frames;
  /** The numbers of sessions and conversations, by the keys of their records. */
  readonly #numbers = new LruMap<string, number>(MAX_NUMBERS);
  /** How many commits in flight write a record, by key. */
  readonly #inFlight = new Map<string, number>();
  /** Data keys that commits in progress create. */
  readonly #creating = new Map<number, Promise<unknown>>();

  constructor(store: Store, keys: DataKeys, frames: Frames) {
    this.#store = store;
    this.#keys = keys;
    this.#frames = frames;
  }

  /** Encrypts a commit if everything that it needs is in memory. */
  trySeal(commit: Commit): SealedCommit | undefined {
    const known = numbersIn(commit);
    const resolution = this.#resolve(commit, known, UNPREPARED);
    return resolution && this.#seal(commit, known, resolution, NO_NEW_KEYS);
  }

  /**
   * Encrypts a commit, and reads or creates the data keys that it needs.
   *
   * @param settled resolves when earlier commits are applied: before that, a record may have another value than they expect
   * @param isRepeated whether an earlier attempt has conflicted: then nothing is assumed to be new
   */
  async seal(commit: Commit, settled: () => Promise<unknown>, isRepeated: boolean): Promise<SealedCommit> {
    const known = numbersIn(commit);
    for (;;) {
      if (this.#demandOf(commit, known, UNPREPARED).checked.size > 0) await settled();
      const prepared = await this.#prepare(commit, known, isRepeated ? new Set() : newNumbersIn(commit));
      const resolution = this.#resolve(commit, known, prepared);
      // Without a resolution, another call has dropped a data key from the cache meanwhile.
      if (resolution) return this.#seal(commit, known, resolution, prepared.created);
    }
  }

  /** Notes that a commit is being sent: other commits that need its new data keys wait for it. */
  noteSending({ created }: SealedCommit, sending: Promise<unknown>): void {
    for (const { number } of created) {
      this.#creating.set(number, sending);
      const end = (): void => void this.#creating.delete(number);
      sending.then(end, end);
    }
  }

  /** Updates what is remembered after a commit. */
  noteApplied({ deletes = [] }: Commit, { created }: SealedCommit): void {
    for (const key of created) this.#keys.set(key);
    for (const target of deletes) {
      if (typeof target !== "string") this.#frames.forget();
      else {
        this.#frames.forget(target);
        this.#numbers.delete(target);
      }
    }
  }

  /**
   * Notes that a commit is in flight. It may still be rejected, so commits that check what it writes wait for it: which encrypted form
   * a record has then is unknown.
   */
  noteInFlight({ puts = [] }: Commit): void {
    for (const { key } of puts) {
      if (!isWrittenOnce(key)) this.#inFlight.set(key, (this.#inFlight.get(key) ?? 0) + 1);
    }
  }

  /** Notes that a commit is not in flight any more. @param isApplied whether its values are those of the records */
  noteSettled({ puts = [] }: Commit, isApplied: boolean): void {
    for (const { key } of puts) {
      if (isWrittenOnce(key)) continue;
      const others = (this.#inFlight.get(key) ?? 0) - 1;
      if (others > 0) this.#inFlight.set(key, others);
      else this.#inFlight.delete(key);
      if (!isApplied) this.#frames.forget(key);
    }
  }

  /** Remembers the number of a session or conversation whose record was read. */
  noteOwner(key: string, sealed: string): void {
    const number = keyOf(sealed);
    if (number !== undefined) this.#numbers.set(key, number);
  }

  /** Forgets the numbers of sessions and conversations, because one of them was wrong. */
  forgetNumbers(): void {
    this.#numbers.clear();
  }

  #demandOf(commit: Commit, known: ReadonlyMap<string, number>, prepared: Preparation): Demand {
    const demand: Demand = { numbers: new Set(), owners: new Set(), checked: new Set() };
    const need = (number: number | string): void => {
      if (typeof number === "string") demand.owners.add(number);
      else if (!this.#keys.peek(number) && !prepared.created.has(number)) demand.numbers.add(number);
    };
    for (const check of commit.checks ?? []) {
      if (!isSealedCheck(check) || this.#formOf(check, prepared) !== undefined) continue;
      demand.checked.add(check.key);
      need(this.#numberOf(check.key, known, prepared));
    }
    for (const { key } of commit.puts ?? []) if (!isReadable(key)) need(this.#numberOf(key, known, prepared));
    for (const { tape } of commit.items ?? []) need(numberOfTape(tape));
    return demand;
  }

  /** The encrypted form of an expected value, if it is known. */
  #formOf({ key, value }: SealedCheck, prepared: Preparation): string | undefined {
    const form = prepared.forms.get(key);
    if (form?.value === value) return form.sealed;
    return this.#inFlight.has(key) ? undefined : this.#frames.rememberedForm(key, value);
  }

  /** The number of the data key of a record; the key of the record that has the number, if it is unknown. */
  #numberOf(key: string, known: ReadonlyMap<string, number>, prepared: Preparation): number | string {
    return this.#numberIn(keySourceOf(key), known, prepared);
  }

  #numberIn(source: KeySource, known: ReadonlyMap<string, number>, prepared: Preparation): number | string {
    if (typeof source === "number") return source;
    const { record } = source;
    return known.get(record) ?? prepared.numbers.get(record) ?? this.#numbers.get(record) ?? record;
  }

  async #prepare(commit: Commit, known: ReadonlyMap<string, number>, fresh: ReadonlySet<number>): Promise<Preparation> {
    const numbers = new Map<string, number>();
    const created = new Map<number, NewDataKey>();
    const forms = new Map<string, KnownForm>();
    const prepared = { numbers, created, forms };
    const { owners, checked } = this.#demandOf(commit, known, prepared);
    if (checked.size > 0) await this.#findForms(commit, [...checked], forms);
    if (owners.size > 0) await this.#findNumbers([...owners], numbers);
    const demand = this.#demandOf(commit, known, prepared);
    for (const number of demand.numbers) await this.#creating.get(number)?.catch(() => {});
    await this.#keys.loadForWriting([...demand.numbers].filter((number) => !fresh.has(number)));
    for (const number of demand.numbers) {
      if (!this.#keys.peek(number)) created.set(number, await this.#keys.create(number));
    }
    return prepared;
  }

  /**
   * Reads the encrypted forms of checked values. The form depends on the references of a record, which a check does not name. A
   * record with another value fails the check in any form.
   */
  async #findForms(commit: Commit, checked: readonly string[], forms: Map<string, KnownForm>): Promise<void> {
    const found = new Map<string, StoredRecord>();
    for (const record of await this.#store.get(checked)) if (record && "value" in record) found.set(record.key, record);
    const numbers = [...found.values()].flatMap(({ value }) => keyOf(value) ?? []);
    await this.#keys.load(numbers);
    for (const check of commit.checks ?? []) {
      const record = found.get(check.key);
      if (!record || !isSealedCheck(check)) continue;
      const opened = this.#frames.openRecord(record, false);
      if ("value" in opened && opened.value === check.value) {
        forms.set(check.key, { value: check.value, sealed: record.value });
      }
    }
  }

  /** Reads which numbers sessions and conversations have: their sealed records name them. */
  async #findNumbers(owners: readonly string[], numbers: Map<string, number>): Promise<void> {
    for (const [index, record] of (await this.#store.get(owners)).entries()) {
      const owner = owners[index] as string;
      const number = record && "value" in record ? keyOf(record.value) : undefined;
      if (number !== undefined) this.#numbers.set(owner, number);
      // Data that belongs to no session is encrypted with the key of the store.
      numbers.set(owner, number ?? STORE_KEY);
    }
  }

  /**
   * Finds the data keys and encrypted forms for a commit.
   *
   * @returns `undefined` if something is not in memory and was not prepared
   */
  #resolve(
    { checks = [], puts = [], items = [] }: Commit,
    known: ReadonlyMap<string, number>,
    prepared: Preparation,
  ): Resolution | undefined {
    const isPrepared = prepared !== UNPREPARED;
    const keyFor = (number: number | string): DataKey | undefined =>
      typeof number === "string" ? undefined : (this.#keys.peek(number) ?? prepared.created.get(number)?.key);
    const forms: (string | undefined)[] = [];
    for (const check of checks) {
      let form: string | undefined;
      if (isSealedCheck(check)) {
        form = this.#formOf(check, prepared);
        if (form === undefined) {
          const key = isPrepared ? keyFor(this.#numberOf(check.key, known, prepared)) : undefined;
          if (!key) return undefined;
          // The record has another value or does not exist, so the check fails with any form.
          form = this.#frames.sealRecord(key, check.key, check.value, "", false);
        }
      }
      forms.push(form);
    }
    const putKeys: (DataKey | undefined)[] = [];
    let assumed: Set<number> | undefined;
    for (const { key } of puts) {
      if (isReadable(key)) {
        putKeys.push(undefined);
        continue;
      }
      const source = keySourceOf(key);
      const dataKey = keyFor(this.#numberIn(source, known, prepared));
      if (!dataKey) return undefined;
      putKeys.push(dataKey);
      if (typeof source === "number" || dataKey.number === STORE_KEY || known.has(source.record)) continue;
      if (!confirms(checks, source.record)) (assumed ??= new Set()).add(dataKey.number);
    }
    const itemKeys: DataKey[] = [];
    for (const { tape } of items) {
      const dataKey = keyFor(numberOfTape(tape));
      if (!dataKey) return undefined;
      itemKeys.push(dataKey);
    }
    return { forms, putKeys, itemKeys, assumed: assumed ?? NOTHING_ASSUMED };
  }

  #seal(
    commit: Commit,
    known: ReadonlyMap<string, number>,
    { forms, putKeys, itemKeys, assumed }: Resolution,
    prepared: ReadonlyMap<number, NewDataKey>,
  ): SealedCommit {
    const { checks = [], puts = [], deletes = [], items = [], blobs = [] } = commit;
    const created = newKeysAmong([...putKeys, ...itemKeys], prepared);
    const sealedChecks = checks.map((check, index): Check => {
      const form = forms[index];
      return form === undefined ? check : ({ ...check, value: form } as Check);
    });
    const sealedPuts = puts.map((put, index): Put => {
      const dataKey = putKeys[index];
      if (!dataKey) return put;
      const { key, value, refs = "" } = put;
      const remembers = put.ifAbsent !== true && !isWrittenOnce(key);
      return { ...put, value: this.#frames.sealRecord(dataKey, key, value, refs, remembers) };
    });
    for (const [owner, number] of known) this.#numbers.set(owner, number);
    const sealedItems = items.map((batch, index) => this.#sealItems(batch, itemKeys[index] as DataKey));
    const own: Check[] = created.flatMap((each) => each.checks);
    for (const number of assumed) {
      if (!created.some(({ key }) => key.number === number)) own.push(dataKeyExists(number));
    }
    const sealed: Commit = {
      ...commit,
      ...(checks.length + own.length > 0 && {
        checks: own.length > 0 ? withoutRepetition([...sealedChecks, ...own]) : sealedChecks,
      }),
      ...(puts.length + created.length > 0 && { puts: [...sealedPuts, ...created.flatMap((each) => each.puts)] }),
      ...(deletes.length > 0 && { deletes: deletes.flatMap(withoutEncryption) }),
      ...(items.length > 0 && { items: sealedItems }),
      ...(blobs.length > 0 && { blobs: blobs.map((blob) => this.#sealBlob(blob)) }),
    };
    return { commit: sealed, created: created.map(({ key }) => key), internal: new Set(own.map(({ key }) => key)) };
  }

  #sealItems(batch: ItemBatch, key: DataKey): ItemBatch {
    const { tape } = batch;
    const seal = (first: number, items: readonly Frame[]): Frame[] =>
      items.map((frame, index) => this.#frames.sealItem(key, tape, first + index, frame));
    if ("first" in batch) return { tape: tapeBelow(tape), first: batch.first, items: seal(batch.first, batch.items) };
    const { items, counter } = batch;
    const build = (first: number): readonly Frame[] => seal(first, typeof items === "function" ? items(first) : items);
    return { tape: tapeBelow(tape), counter, items: build };
  }

  #sealBlob(blob: BlobUse): BlobUse {
    if (!blob.bytes) return blob;
    const sealed = this.#frames.sealBlob(blob.bytes);
    if (sealed.hash === blob.hash) return sealed;
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `The blob ${blob.hash} was not named with blobName() of the encrypted store ${this.#store.url}. Nothing was written.`,
    );
  }
}

const NO_NEW_KEYS: ReadonlyMap<number, NewDataKey> = new Map();

/** The new data keys among those that encrypt a commit. */
function newKeysAmong(
  keys: readonly (DataKey | undefined)[],
  prepared: ReadonlyMap<number, NewDataKey>,
): readonly NewDataKey[] {
  if (prepared.size === 0) return [];
  return [...prepared.values()].filter(({ key }) => keys.includes(key));
}

function dataKeyExists(number: number): Check {
  return { key: recordOfDataKey(number), exists: true };
}
