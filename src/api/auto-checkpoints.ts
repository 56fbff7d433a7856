/** `sp.autoCheckpoints`: checkpoints at intervals and before destructive operations. */
import { isDeepStrictEqual } from "node:util";
import { agentNotFound } from "../agents/index.js";
import {
  agentHistoryId,
  type AutoPolicy,
  checkId,
  encodeSession,
  newSessionRecord,
  sessionKey,
  sessionNumberKey,
} from "../records/index.js";
import { SessionReader } from "../sessions/index.js";
import {
  validateFields,
  type Duration,
  invalidArgument,
  MAX_TIMER,
  retryOnConflict,
  toMilliseconds,
} from "../util/index.js";
import type { Checkpoints } from "./checkpoints/checkpoints.js";
import type { Services } from "./services.js";
import { openSession, type Session } from "./session.js";

/** A policy for automatic checkpoints. Fields that are not given keep their stored values, or else get their defaults. */
export interface AutoCheckpointOptions {
  /**
   * Time between two checkpoints. If nothing has changed, none is saved.
   * @default "5m"
   */
  readonly interval?: Duration;
  /**
   * The maximum number of checkpoints of the kinds `automatic` and `preOperation`. Every save except one of the kind `manual`
   * enforces it, in any process. The oldest are removed first. Pinned checkpoints do not count. Heads, checkpoints that a branch
   * or a step starts from, and the newest `preOperation` checkpoint are never removed, so more may stay. In sessions with more than
   * 64 checkpoints, several are removed together, so up to an eighth of all checkpoints more may stay for some saves.
   * @default 10
   */
  readonly max?: number;
  /**
   * Save a checkpoint before a conversation of the agent is deleted, before `sp.prune({ agent })`, and before the first save that
   * stores a migrated state of the agent. (A rewind or restore always saves one.)
   * @default true
   */
  readonly beforeOperations?: boolean;
  /** @default true */
  readonly enabled?: boolean;
}

/** The agent or session that a policy is for, by id. */
export type PolicyTarget = { readonly agent: string } | { readonly session: string };

/** What is saved at intervals: an agent; or the value that `state()` returns, saved through the handle `session`. */
export type AutoTarget =
  | { readonly agent: string }
  | { readonly session: Session<never> | Session; readonly state: () => unknown };

type TimerTarget = PolicyTarget | { readonly session: Session<never> | Session };

const FIELDS = new Set(["interval", "max", "beforeOperations", "enabled"]);
const DEFAULTS: AutoPolicy = { interval: 300_000, max: 10, beforeOperations: true, enabled: true };

/**
 * Automatic checkpoints. Policies are stored with their agent or session and apply to every process; the timers belong to the
 * process that called {@link start}. Without a policy, no checkpoint is saved at intervals or before operations; {@link start}
 * stores the default policy if there is none.
 *
 * @example
 * await sp.autoCheckpoints.set({ agent: "support" }, { interval: "10m", max: 20 });
 * await sp.autoCheckpoints.start({ agent: "support" });
 */
export class AutoCheckpoints {
  readonly #services: Services;
  readonly #checkpoints: Checkpoints;
  readonly #timers = new Map<string, Timer>();

  /** Use `sp.autoCheckpoints`. */
  constructor(services: Services, checkpoints: Checkpoints) {
    this.#services = services;
    this.#checkpoints = checkpoints;
  }

  /**
   * Stores the policy of an agent or a session, for every process. A session need not exist yet.
   *
   * @returns the complete policy
   * @throws `AGENT_NOT_FOUND` if the agent was never saved
   */
  async set(target: PolicyTarget, options: AutoCheckpointOptions = {}): Promise<AutoPolicy> {
    const fields = parsePolicy(options);
    const policy = await this.#write(target, (before) => ({ ...DEFAULTS, ...before, ...fields }));
    return policy as AutoPolicy;
  }

  /** The policy of an agent or a session; `undefined` if it has none. */
  async load(target: PolicyTarget): Promise<AutoPolicy | undefined> {
    return (await this.#reader(target).session())?.record.policy;
  }

  /** Removes the policy of an agent or a session. Returns whether it had one. */
  async remove(target: PolicyTarget): Promise<boolean> {
    let removed = false;
    await this.#write(target, (before) => {
      removed = before !== undefined;
      return undefined;
    });
    return removed;
  }

  /**
   * Starts saving checkpoints in this process, the first one after one interval. Without a stored policy, the default one is
   * stored. Has no effect if it is already started. The timer does not keep the process alive; a failed save is reported by the
   * event `backgroundFailure` and tried again after the next interval.
   */
  async start(target: AutoTarget): Promise<void> {
    const policyTarget: PolicyTarget = "agent" in target ? target : { session: target.session.id };
    const name = this.#timerName(target);
    if (this.#timers.has(name)) return;
    const timer = new Timer(
      () => this.#saveIfChanged(target, policyTarget, timer),
      // Errors while the store is being closed are expected.
      (error) => timer.stopped || this.#reportFailure(policyTarget, error),
    );
    // Registered before anything is awaited: of two concurrent calls only one starts a timer.
    this.#timers.set(name, timer);
    try {
      const policy = await this.#write(policyTarget, (before) => before ?? DEFAULTS);
      timer.schedule((policy ?? DEFAULTS).interval);
    } catch (error) {
      // It may have been stopped meanwhile, and another one started.
      if (this.#timers.get(name) === timer) this.#timers.delete(name);
      throw error;
    }
  }

  /**
   * Stops saving checkpoints in this process: of one agent or session, or of all. If a session id is given, the timers of all
   * its branches are stopped. When the promise has resolved, no more checkpoints are saved.
   */
  async stop(target?: TimerTarget): Promise<void> {
    const wanted = target && this.#timerName(target);
    const names = [...this.#timers.keys()].filter(
      (name) => wanted === undefined || name === wanted || name.startsWith(`${wanted}\t`),
    );
    const timers = names.flatMap((name) => this.#timers.get(name) ?? []);
    for (const name of names) this.#timers.delete(name);
    await Promise.all(timers.map((timer) => timer.stop()));
  }

  /** Saves a checkpoint of an agent before an operation on it, if its policy asks for it. Savepoint calls this itself. */
  async beforeOperation(agent: string, operation: string): Promise<void> {
    const policy = await this.load({ agent });
    if (!policy?.enabled || !policy.beforeOperations) return;
    await this.#checkpoints.create({ agent, kind: "preOperation", trigger: operation });
  }

  /** Saves a checkpoint if something has changed. Returns the milliseconds until the next check. */
  async #saveIfChanged(target: AutoTarget, policyTarget: PolicyTarget, timer: Timer): Promise<number> {
    const policy = (await this.load(policyTarget)) ?? { ...DEFAULTS, enabled: false };
    if (!policy.enabled) return policy.interval;
    const context = this.#services.open();
    const label = `Auto checkpoint ${new Date(context.now()).toISOString()}`;
    const fields = { trigger: "interval", kind: "automatic", label, description: "Automatic checkpoint" } as const;
    if ("agent" in target) {
      const { agent } = target;
      const hasChanged = await this.#services.agentCheckpoints.hasChanged(agent);
      if (hasChanged && !timer.stopped) await this.#checkpoints.create({ agent, ...fields });
    } else {
      const session = target.session as Session;
      // Read through a separate handle. Reading through the caller's handle would mark the head as seen, and a save over the
      // head of another writer would no longer be rejected.
      const reader = openSession(this.#services, session.id, { branch: session.branch });
      const latest = await reader.latest();
      const state = target.state();
      const hasChanged = !latest || !isDeepStrictEqual(latest.state, state);
      if (hasChanged && !timer.stopped) await session.save(state, fields);
    }
    return policy.interval;
  }

  #reportFailure(target: PolicyTarget, error: unknown): void {
    const owner =
      "agent" in target ? `agent ${JSON.stringify(target.agent)}` : `session ${JSON.stringify(target.session)}`;
    const message = `an automatic checkpoint of ${owner} could not be saved; the next interval tries again`;
    this.#services.context.events.emit("backgroundFailure", { message, error });
  }

  async #write(
    target: PolicyTarget,
    change: (before: AutoPolicy | undefined) => AutoPolicy | undefined,
  ): Promise<AutoPolicy | undefined> {
    const reader = this.#reader(target);
    const { store, now } = reader.context;
    return retryOnConflict(async () => {
      const before = await reader.session();
      const policy = change(before?.record.policy);
      if (policy === before?.record.policy) return policy;
      if (!before && "agent" in target) throw agentNotFound(target.agent);
      const base = before?.record ?? newSessionRecord(await this.#services.numbers.next(), now());
      const key = sessionKey(reader.sessionId);
      await store.commit({
        checks: [{ key, value: before?.value }],
        puts: [
          { key, value: encodeSession({ ...base, policy }) },
          ...(before ? [] : [{ key: sessionNumberKey(base.number), value: reader.sessionId }]),
        ],
      });
      this.#services.cursors.invalidateSession(reader.sessionId);
      return policy;
    });
  }

  #timerName(target: TimerTarget): string {
    const session = "session" in target && typeof target.session !== "string" ? target.session : undefined;
    const { sessionId } = this.#reader(session ? { session: session.id } : (target as PolicyTarget));
    return session ? `${sessionId}\t${session.branch}` : sessionId;
  }

  #reader(target: PolicyTarget): SessionReader {
    const context = this.#services.open();
    if ("agent" in target) return new SessionReader(context, agentHistoryId(checkId(target.agent, "agent id")));
    return new SessionReader(context, checkId(target.session, "session id"));
  }
}

/** Repeats work, each time after the interval that the work returned, until it is stopped. */
class Timer {
  stopped = false;
  readonly #work: () => Promise<number>;
  readonly #onError: (error: unknown) => void;
  #handle: NodeJS.Timeout | undefined;
  #interval = 0;
  #running: Promise<void> | undefined;

  constructor(work: () => Promise<number>, onError: (error: unknown) => void) {
    this.#work = work;
    this.#onError = onError;
  }

  schedule(interval: number): void {
    this.#interval = interval;
    if (this.stopped) return;
    this.#handle = setTimeout(() => void (this.#running = this.#run()), interval);
    this.#handle.unref();
  }

  async #run(): Promise<void> {
    let next = this.#interval;
    try {
      next = await this.#work();
    } catch (error) {
      this.#onError(error);
    }
    this.schedule(next);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.#handle);
    await this.#running;
  }
}

function parsePolicy(options: AutoCheckpointOptions): Partial<AutoPolicy> {
  validateFields(options, "A policy for automatic checkpoints", FIELDS);
  const { interval, max, beforeOperations, enabled } = options;
  const time = interval === undefined ? undefined : toMilliseconds(interval, "interval");
  if (time !== undefined && !(time >= 1 && time <= MAX_TIMER)) {
    throw invalidArgument(`\`interval\` must be between 1 and ${MAX_TIMER} ms, got ${time} ms.`);
  }
  if (max !== undefined && !(Number.isSafeInteger(max) && max >= 1)) {
    throw invalidArgument(`\`max\` must be a positive integer, got ${String(max)}.`);
  }
  return {
    ...(time !== undefined && { interval: time }),
    ...(max !== undefined && { max }),
    ...(beforeOperations !== undefined && { beforeOperations: Boolean(beforeOperations) }),
    ...(enabled !== undefined && { enabled: Boolean(enabled) }),
  };
}
