/**
 * The retention policies of a store, cached.
 *
 * Every save consults them, so they are kept in memory. A stamp, one small record that changes with every policy, is read
 * again after a second: a change by another process takes effect that much later. Before anything is removed, the policy is
 * read once more.
 */
import { randomUUID } from "node:crypto";
import { type KeyRange, type RecordResult, scan, type Store } from "../store/index.js";
import type { Events } from "../events/index.js";
import {
  agentOfHistoryId,
  agentRetentionKey,
  ALL_RETENTION_POLICIES,
  RETENTION_STAMP_KEY,
  sessionRetentionKey,
  STORE_RETENTION_KEY,
} from "../records/index.js";
import { parseRetentionOptions } from "./rules.js";
import { decodePolicy, type StoredPolicy } from "./stored-policy.js";

const REFRESH_AFTER_MS = 1000;

/** The key of the stamp is the first one of this range. */
const STAMP_AND_POLICIES: KeyRange = { from: RETENTION_STAMP_KEY, to: ALL_RETENTION_POLICIES.to };

/** The cached policies of one store. Damaged policies are reported and remove nothing. */
export class PolicyCache {
  readonly #store: Store;
  readonly #events: Events;
  readonly #now: () => number;
  #policies: ReadonlyMap<string, StoredPolicy> = new Map();
  /** The stamp that `#policies` was read with; `undefined` before the first read, `""` if the store has no stamp. */
  #stamp: string | undefined;
  #readAt = 0;
  /** How often {@link invalidate} was called; a read that overlaps with a call is repeated. */
  #invalidations = 0;
  #reading: Promise<void> | undefined;

  constructor(store: Store, events: Events, now: () => number) {
    this.#store = store;
    this.#events = events;
    this.#now = now;
  }

  /** Whether the policies were read recently enough to be used. If not, call {@link refresh}. */
  get isFresh(): boolean {
    const age = this.#now() - this.#readAt;
    return this.#stamp !== undefined && age >= 0 && age < REFRESH_AFTER_MS;
  }

  /** Reads the stamp, and the policies if it has changed. Concurrent calls share one read. */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Makes the next use read all policies again: this process has changed one. */
  invalidate(): void {
    this.#invalidations++;
    this.#stamp = undefined;
  }

  /** The policy in force for a session, or for the checkpoints of a whole agent, from the cache. */
  policyFor(sessionId: string, agent: string | undefined): StoredPolicy | undefined {
    if (this.#policies.size === 0) return undefined;
    for (const key of keysFor(sessionId, agent)) {
      const policy = this.#policies.get(key);
      if (policy) return policy;
    }
    return undefined;
  }

  /** The policy in force, read from the store. */
  async readPolicyFor(sessionId: string, agent: string | undefined): Promise<StoredPolicy | undefined> {
    const records = await this.#store.get(keysFor(sessionId, agent));
    const record = records.find((each) => each !== undefined);
    return record && this.#decode(record);
  }

  async #read(): Promise<void> {
    let invalidations: number;
    do {
      invalidations = this.#invalidations;
      const readAt = this.#now();
      const isUnchanged = this.#stamp !== undefined && (await this.#readStamp()) === this.#stamp;
      if (!isUnchanged) this.#stamp = await this.#readAll();
      this.#readAt = readAt;
    } while (invalidations !== this.#invalidations);
  }

  async #readStamp(): Promise<string> {
    const [record] = await this.#store.get([RETENTION_STAMP_KEY]);
    return stampOf(record);
  }

  /** Reads the stamp and all policies. Returns the stamp. */
  async #readAll(): Promise<string> {
    const policies = new Map<string, StoredPolicy>();
    let stamp = stampOf(undefined);
    // The stamp is read first: if a policy changes meanwhile, all are read again.
    for await (const record of scan(this.#store, STAMP_AND_POLICIES)) {
      if (record.key === RETENTION_STAMP_KEY) stamp = stampOf(record);
      else policies.set(record.key, this.#decode(record));
    }
    this.#policies = policies;
    return stamp;
  }

  #decode(record: RecordResult): StoredPolicy {
    const unreadable = (reason: string): StoredPolicy => {
      const damage = { sessionId: undefined, checkpointId: undefined, seq: undefined };
      this.#events.emit("damage", { ...damage, reason: `a retention policy cannot be applied: ${reason}` });
      return { value: "", rules: undefined };
    };
    if (!("value" in record)) return unreadable(record.unreadable);
    try {
      return { value: record.value, rules: parseRetentionOptions(decodePolicy(record.value)) };
    } catch (error) {
      // A newer version may have stored options that this version does not support.
      return unreadable((error as Error).message);
    }
  }
}

/** A damaged stamp is never equal to another one, because it proves nothing: all policies are read each time. */
function stampOf(record: RecordResult | undefined): string {
  if (!record) return "";
  return "value" in record ? record.value : `damaged ${randomUUID()}`;
}

/** The policies that can apply, the most specific first: the first that exists is in force. */
function keysFor(sessionId: string, agent: string | undefined): string[] {
  const storedAgent = agentOfHistoryId(sessionId);
  const owner = storedAgent ?? agent;
  return [
    ...(storedAgent === undefined ? [sessionRetentionKey(sessionId)] : []),
    ...(owner === undefined ? [] : [agentRetentionKey(owner)]),
    STORE_RETENTION_KEY,
  ];
}
