/** `sp.retention`: stored policies that say which checkpoints are kept. */
import { SavepointError } from "../errors.js";
import {
  decodePolicy,
  encodePolicy,
  newPolicyStamp,
  parseRetentionOptions,
  type RetentionOptions,
} from "../policies/index.js";
import {
  agentRetentionKey,
  ALL_RETENTION_POLICIES,
  ALL_SESSION_NUMBERS,
  checkId,
  sessionRetentionKey,
  STORE_RETENTION_KEY,
} from "../records/index.js";
import { type PruneResult, pruneSession, type PruneTarget, sumPruneResults } from "../retention/index.js";
import { SessionReader } from "../sessions/index.js";
import { type Commit, scan } from "../store/index.js";
import { validateFields, createListing, invalidArgument, type Listing } from "../util/index.js";
import type { Services } from "./services.js";

/** A stored policy and its target: a session, or an agent with its sessions. An empty target means the whole store. */
export interface RetentionPolicy {
  readonly target: PruneTarget;
  /** Durations are in milliseconds. */
  readonly options: RetentionOptions;
}

const TARGET_FIELDS = new Set(["session", "agent"]);
const EXPIRED_ONLY = parseRetentionOptions({ expired: true });

/**
 * Retention policies. They are stored in the store, and every process enforces them after its saves. `keepLast` is exact. In
 * sessions with more than 64 checkpoints, a checkpoint that has become too old, or that a calendar rule such as `keepDaily` no
 * longer keeps, may be removed some saves later.
 *
 * Exactly one policy applies to a session: the policy of the session if there is one, otherwise that of its agent, otherwise that of
 * the store. For checkpoints of a whole agent it is the policy of the agent, otherwise that of the store. Other processes see a
 * change within a second.
 *
 * @example
 * await sp.retention.set({}, { keepLast: 100, keepDaily: 30 });
 * await sp.retention.set({ agent: "support" }, { keepLast: 20, ttl: "90d" });
 */
export class RetentionPolicies {
  readonly #services: Services;

  /** Use `sp.retention`. */
  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * Sets the policy of a session, or of an agent with its sessions; `{}` means the whole store. Replaces an earlier policy of the
   * same target. The session or agent need not exist yet. Removes nothing before the next save or {@link apply}.
   */
  async set(target: PruneTarget, options: RetentionOptions): Promise<void> {
    const key = this.#keyOf(target);
    const value = encodePolicy(options);
    await this.#commit({ puts: [{ key, value }] });
  }

  /** The policy that was set for exactly this target; `undefined` if there is none. */
  async load(target: PruneTarget): Promise<RetentionOptions | undefined> {
    const [record] = await this.#services.open().store.get([this.#keyOf(target)]);
    if (!record) return undefined;
    if ("value" in record) return decodePolicy(record.value);
    const advice =
      "Set it again or delete it; until then, retention removes no checkpoints of the sessions that it applies to.";
    throw new SavepointError("DAMAGED", `A retention policy is damaged: ${record.unreadable}. ${advice}`);
  }

  /** All policies: that of the store, then those of agents, then those of sessions. Damaged ones are left out. */
  list(): Listing<RetentionPolicy> {
    const services = this.#services;
    return createListing(async function* () {
      for await (const record of scan(services.open().store, ALL_RETENTION_POLICIES)) {
        const isHidden = services.scope.agent !== undefined && record.key === STORE_RETENTION_KEY;
        if ("value" in record && !isHidden) yield { target: targetOf(record.key), options: decodePolicy(record.value) };
      }
    });
  }

  /** Deletes the policy of exactly this target. Returns whether there was one. */
  async delete(target: PruneTarget): Promise<boolean> {
    const key = this.#keyOf(target);
    const [record] = await this.#services.open().store.get([key]);
    if (record) await this.#commit({ deletes: [key] });
    return record !== undefined;
  }

  /**
   * Enforces all policies on all sessions and agents now, including those that are no longer saved to, and frees data that
   * only the removed checkpoints needed. Reads the checkpoint rows of every session that a policy applies to or that has
   * expired checkpoints. The result contains only checkpoints of these sessions.
   */
  async apply(): Promise<PruneResult> {
    const context = this.#services.open();
    const { policies, store } = context;
    const results: PruneResult[] = [];
    await policies.refresh();
    for await (const record of scan(store, ALL_SESSION_NUMBERS)) {
      if (!("value" in record)) continue;
      const reader = new SessionReader(context, record.value);
      const session = (await reader.session())?.record;
      if (!session) continue;
      const policy = policies.policyFor(reader.sessionId, session.agent);
      const rules = policy ? policy.rules : EXPIRED_ONLY;
      const hasExpired = session.earliestExpiry !== undefined && context.now() > session.earliestExpiry;
      if (!rules || (!policy && !hasExpired)) continue;
      const result = await pruneSession(reader, rules, true, false);
      if (result.removed > 0) this.#services.cursors.invalidateSession(reader.sessionId);
      results.push(result);
    }
    return sumPruneResults(results, false);
  }

  /** The key of a policy. @throws `OUT_OF_SCOPE` if this `Savepoint` may not access the policy */
  #keyOf(target: PruneTarget): string {
    const key = keyOf(target);
    const { scope } = this.#services;
    if (key === STORE_RETENTION_KEY) scope.requireStore("the retention policy of the store");
    if (target.agent !== undefined && target.agent !== scope.agent)
      scope.requireStore("the retention policy of this agent");
    return key;
  }

  async #commit({ puts = [], ...changes }: Commit): Promise<void> {
    const { store, policies } = this.#services.open();
    await store.commit({ ...changes, puts: [...puts, newPolicyStamp()] });
    policies.invalidate();
  }
}

function keyOf(target: PruneTarget): string {
  validateFields(target, "The target of a retention policy", TARGET_FIELDS);
  const { session, agent } = target;
  if (session !== undefined && agent !== undefined) {
    throw invalidArgument("A retention policy is for a session or for an agent, not for both. Set two policies.");
  }
  if (session !== undefined) return sessionRetentionKey(checkId(session, "session id"));
  return agent === undefined ? STORE_RETENTION_KEY : agentRetentionKey(checkId(agent, "agent id"));
}

function targetOf(key: string): PruneTarget {
  const [, kind, id] = key.split("\t");
  if (id === undefined) return {};
  return kind === "a" ? { agent: id } : { session: id };
}
