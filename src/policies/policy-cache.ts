/**
 * The retention policies of a store, as this process knows them. They are looked at after every save, so they are kept in
 * memory, and one small record that changes with them is read again after a second: what another process has set is obeyed
 * that much later. Before anything is removed the policy is read once more.
 */
import { randomUUID } from "node:crypto";
import { type RecordResult, type Put, scan, type Store } from "../store/index.js";
import type { Events } from "../events/index.js";
import {
  agentOfHistoryId,
  agentRetentionKey,
  ALL_RETENTION_POLICIES,
  RETENTION_STAMP_KEY,
  sessionRetentionKey,
  STORE_RETENTION_KEY,
} from "../records/index.js";
import type { SweepSchedule } from "./sweep-schedule.js";
import { type RetentionRules, type RetentionOptions, parseRetentionOptions } from "./rules.js";

/** A policy as it is stored. */
export interface StoredPolicy {
  readonly value: string;
  /** Missing where it cannot be read: then everything stays. */
  readonly rules: RetentionRules | undefined;
}

const REFRESH_AFTER = 1000;
/** Sessions of which it is remembered when to look at them again. */
const MAX_LOOKS = 10_000;

export class PolicyCache {
  readonly #store: Store;
  readonly #events: Events;
  readonly #now: () => number;
  #known: ReadonlyMap<string, StoredPolicy> = new Map();
  /** `undefined`: they are to be read. `""`: there is none. */
  #stamp: string | undefined;
  #readAt = 0;
  /** How often they were changed here. */
  #changes = 0;
  #reading: Promise<void> | undefined;
  readonly #looks = new Map<string, SweepSchedule>();

  constructor(store: Store, events: Events, now: () => number) {
    this.#store = store;
    this.#events = events;
    this.#now = now;
  }

  /** Is what is known recent enough? */
  get isFresh(): boolean {
    const age = this.#now() - this.#readAt;
    return this.#stamp !== undefined && age >= 0 && age < REFRESH_AFTER;
  }

  /** Reads what has changed, if anything has. */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Reads all of them again the next time: one was changed here. */
  invalidate(): void {
    this.#changes++;
    this.#stamp = undefined;
  }

  /** The policy that is in force for a session, or for the checkpoints of a whole agent. */
  policyFor(sessionId: string, agent: string | undefined): StoredPolicy | undefined {
    if (this.#known.size === 0) return undefined;
    for (const key of keysFor(sessionId, agent)) {
      const policy = this.#known.get(key);
      if (policy) return policy;
    }
    return undefined;
  }

  /** The same, as the store has it now. */
  async readPolicyFor(sessionId: string, agent: string | undefined): Promise<StoredPolicy | undefined> {
    const records = await this.#store.get(keysFor(sessionId, agent));
    const record = records.find((each) => each !== undefined);
    return record && this.#decode(record);
  }

  /** When a session is to be looked at again, if it was looked at before. */
  sweepSchedule(sessionId: string): SweepSchedule | undefined {
    return this.#looks.get(sessionId);
  }

  /** @param look `undefined` where something may have to go that had not when it was looked at */
  recordSweep(sessionId: string, look: SweepSchedule | undefined): void {
    this.#looks.delete(sessionId);
    if (look) this.#looks.set(sessionId, look);
    const [oldest] = this.#looks.size > MAX_LOOKS ? this.#looks.keys() : [];
    if (oldest !== undefined) this.#looks.delete(oldest);
  }

  /** A checkpoint was saved that expires: that may be before the session would be looked at again. */
  recordExpiry(sessionId: string, expiresAt: number | undefined): void {
    const look = expiresAt === undefined ? undefined : this.#looks.get(sessionId);
    if (look && expiresAt !== undefined && expiresAt < look.safeUntilTime) {
      this.#looks.set(sessionId, { ...look, safeUntilTime: expiresAt });
    }
  }

  async #read(): Promise<void> {
    let changes: number;
    do {
      changes = this.#changes;
      const readAt = this.#now();
      const [record] = await this.#store.get([RETENTION_STAMP_KEY]);
      const stamp = record ? ("value" in record ? record.value : undefined) : "";
      // A damaged one says nothing: then all of them are read each time.
      if (stamp === undefined || stamp !== this.#stamp) {
        const known = new Map<string, StoredPolicy>();
        for await (const each of scan(this.#store, ALL_RETENTION_POLICIES)) known.set(each.key, this.#decode(each));
        this.#known = known;
      }
      this.#readAt = readAt;
      this.#stamp = stamp ?? "damaged";
    } while (changes !== this.#changes);
  }

  #decode(record: RecordResult): StoredPolicy {
    const unreadable = (reason: string): StoredPolicy => {
      const damage = { sessionId: undefined, checkpointId: undefined, seq: undefined };
      this.#events.emit("damage", { ...damage, reason: `a retention policy cannot be obeyed: ${reason}` });
      return { value: "", rules: undefined };
    };
    if (!("value" in record)) return unreadable(record.unreadable);
    try {
      return { value: record.value, rules: parseRetentionOptions(decodePolicy(record.value)) };
    } catch (error) {
      // A newer version may have said what this one does not know.
      return unreadable((error as Error).message);
    }
  }
}

/** What else a commit has that deletes those whose policies these are: other processes must not go on obeying them. */
export async function buildPolicyRemoval(
  store: Store,
  keys: readonly string[],
): Promise<{ deletes: string[]; puts: Put[] }> {
  const found = (await store.get(keys)).some((record) => record !== undefined);
  return { deletes: [...keys], puts: found ? [newPolicyStamp()] : [] };
}

/** Says that a policy has changed. */
export const newPolicyStamp = (): Put => ({ key: RETENTION_STAMP_KEY, value: randomUUID() });

/** Whose policy is in force: the first that there is. */
function keysFor(sessionId: string, agent: string | undefined): string[] {
  const owner = agentOfHistoryId(sessionId) ?? agent;
  return [
    ...(agentOfHistoryId(sessionId) === undefined ? [sessionRetentionKey(sessionId)] : []),
    ...(owner === undefined ? [] : [agentRetentionKey(owner)]),
    STORE_RETENTION_KEY,
  ];
}

/** The options, with lengths of time in milliseconds. JSON has no number for "no end": that is `null`. */
export function encodePolicy(options: RetentionOptions): string {
  const { last, hourly, daily, weekly, within, ttl } = parseRetentionOptions(options);
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepLabelled, kinds, expired } = options;
  return JSON.stringify({
    ...(keepLast !== undefined && { keepLast: last }),
    ...(keepHourly !== undefined && { keepHourly: hourly }),
    ...(keepDaily !== undefined && { keepDaily: daily }),
    ...(keepWeekly !== undefined && { keepWeekly: weekly }),
    ...(within !== undefined && { keepWithin: within }),
    ...(keepLabelled !== undefined && { keepLabelled: Boolean(keepLabelled) }),
    ...(kinds !== undefined && { kinds }),
    ...(ttl !== undefined && { ttl }),
    ...(expired && { expired: true }),
  });
}

export function decodePolicy(value: string): RetentionOptions {
  const stored = JSON.parse(value) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(stored).map(([name, each]) => [name, each === null ? Number.POSITIVE_INFINITY : each]),
  );
}
