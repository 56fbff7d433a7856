/** What is kept, said once: policies in the store, which every process obeys after its saves. */
import { SavepointError } from "../errors.js";
import { type Commit, scan } from "../store/index.js";
import { validateFields, createListing, invalidArgument, type Listing } from "../util/index.js";
import type { Context } from "../context.js";
import {
  agentRetentionKey,
  ALL_SESSION_NUMBERS,
  ALL_RETENTION_POLICIES,
  checkId,
  sessionRetentionKey,
  STORE_RETENTION_KEY,
} from "../records/index.js";
import {
  decodePolicy,
  encodePolicy,
  newPolicyStamp,
  type RetentionOptions,
  parseRetentionOptions,
} from "../policies/index.js";
import { sumPruneResults, type PruneResult, pruneSession, type PruneTarget } from "../retention/index.js";
import { SessionReader } from "../sessions/index.js";

/** A policy, and whose it is: that of a session, of an agent and its sessions, or of the store, if it names neither. */
export interface RetentionPolicy {
  readonly target: PruneTarget;
  /** Lengths of time are in milliseconds. */
  readonly options: RetentionOptions;
}

/** What the policies need of the Savepoint they belong to. */
export interface RetentionHost {
  /** @throws CLOSED */
  open(): Context;
  /** Told that the records of a session were changed by other means than a save. */
  resetCursors(sessionId: string): void;
}

const TARGET = new Set(["session", "agent"]);
const EXPIRED = parseRetentionOptions({ expired: true });

/**
 * What is kept, for every process: whoever saves removes what the policy in force does not want, right after the save. For
 * a session that is its own policy, else its agent's, else the store's; for checkpoints of a whole agent the agent's, else
 * the store's. Other processes know a policy a second after it was set.
 *
 * @example
 * await sp.retention.set({}, { keepLast: 100, keepDaily: 30 });
 * await sp.retention.set({ agent: "support" }, { keepLast: 20, ttl: "90d" });
 */
export class RetentionPolicies {
  readonly #host: RetentionHost;

  /** Use `sp.retention`. */
  constructor(host: RetentionHost) {
    this.#host = host;
  }

  /**
   * Says what is kept of a session, of an agent and its sessions, or of the whole store; instead of what was said of it
   * before. A session or an agent need not be there yet. Nothing is removed before the next save, or {@link apply}.
   */
  async set(target: PruneTarget, options: RetentionOptions): Promise<void> {
    const key = keyOf(target);
    const value = encodePolicy(options);
    await this.#commit({ puts: [{ key, value }] });
  }

  /** What was said of exactly this session, agent or store; `undefined` where nothing was. */
  async load(target: PruneTarget): Promise<RetentionOptions | undefined> {
    const [record] = await this.#host.open().store.get([keyOf(target)]);
    if (!record) return undefined;
    if ("value" in record) return decodePolicy(record.value);
    const advice = "Set it again, or delete it; until then everything stays.";
    throw new SavepointError("DAMAGED", `A retention policy is damaged: ${record.unreadable}. ${advice}`);
  }

  /** All policies: that of the store first, then those of agents, then those of sessions. */
  list(): Listing<RetentionPolicy> {
    const open = (): Context => this.#host.open();
    return createListing(async function* () {
      for await (const record of scan(open().store, ALL_RETENTION_POLICIES)) {
        if ("value" in record) yield { target: targetOf(record.key), options: decodePolicy(record.value) };
      }
    });
  }

  /** Takes back what was said. Returns whether anything was. */
  async delete(target: PruneTarget): Promise<boolean> {
    const key = keyOf(target);
    const [record] = await this.#host.open().store.get([key]);
    if (record) await this.#commit({ deletes: [key] });
    return record !== undefined;
  }

  /**
   * Applies all policies to all sessions and agents now, for what is not saved any more; and frees what only the removed
   * checkpoints needed. Sessions that no policy is for, and in which nothing has expired, are not named in the result.
   */
  async apply(): Promise<PruneResult> {
    const context = this.#host.open();
    const { policies, store } = context;
    const results: PruneResult[] = [];
    await policies.refresh();
    for await (const record of scan(store, ALL_SESSION_NUMBERS)) {
      if (!("value" in record)) continue;
      const reader = new SessionReader(context, record.value);
      const session = (await reader.session())?.record;
      if (!session) continue;
      const policy = policies.policyFor(reader.sessionId, session.agent);
      const retention = policy ? policy.rules : EXPIRED;
      const none = !policy && (session.earliestExpiry === undefined || context.now() <= session.earliestExpiry);
      if (!retention || none) continue;
      const result = await pruneSession(reader, retention, true, false);
      if (result.removed > 0) this.#host.resetCursors(reader.sessionId);
      results.push(result);
    }
    return sumPruneResults(results, false);
  }

  async #commit({ puts = [], ...changes }: Commit): Promise<void> {
    const { store, policies } = this.#host.open();
    await store.commit({ ...changes, puts: [...puts, newPolicyStamp()] });
    policies.invalidate();
  }
}

function keyOf(target: PruneTarget): string {
  validateFields(target, "Whose checkpoints are kept", TARGET);
  const { session, agent } = target;
  if (session !== undefined && agent !== undefined) {
    throw invalidArgument("A policy is that of a session or of an agent, not of both. Set two.");
  }
  if (session !== undefined) return sessionRetentionKey(checkId(session, "session id"));
  return agent === undefined ? STORE_RETENTION_KEY : agentRetentionKey(checkId(agent, "agent id"));
}

function targetOf(key: string): PruneTarget {
  const [, whose, id] = key.split("\t");
  if (id === undefined) return {};
  return whose === "a" ? { agent: id } : { session: id };
}
