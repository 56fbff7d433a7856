/**
 * Checkpoints that are taken by themselves: at intervals, when something has changed, and before what cannot be undone
 * otherwise. What is wanted is kept in the store with the agent or session; the timers are those of this process.
 */
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, SavepointError } from "../errors.js";
import { validateFields, type Duration, MAX_TIMER, toMilliseconds } from "../util/index.js";
import { type AgentCheckpoints, agentNotFound } from "../agents/index.js";
import type { Checkpoints } from "./checkpoints.js";
import type { Context } from "../context.js";
import type { Events } from "../events/index.js";
import {
  agentHistoryId,
  type AutoPolicy,
  checkId,
  encodeSession,
  newSessionRecord,
  sessionNumberKey,
  sessionKey,
} from "../records/index.js";
import { type NumberSource, SessionReader } from "../sessions/index.js";
import type { Session } from "./session.js";

/** What is wanted. What is not said is as it was, or else as the defaults say. */
export interface AutoCheckpointOptions {
  /**
   * Between two checkpoints; none is taken where nothing has changed.
   * @default "5m"
   */
  readonly interval?: Duration;
  /**
   * How many checkpoints of the kinds `automatic` and `preOperation` are kept: the oldest go first, whoever takes one.
   * Those that something needs, and pinned ones, stay.
   * @default 10
   */
  readonly max?: number;
  /**
   * Take one before a conversation is deleted, or the agent's state is saved in a newer form. (Before going back one is
   * always taken.)
   * @default true
   */
  readonly beforeOperations?: boolean;
  /** @default true */
  readonly enabled?: boolean;
}

/** The agent or the session whose policy it is, by id. */
export type PolicyTarget = { readonly agent: string } | { readonly session: string };

/** What is saved at intervals: an agent, or what a program is working on through a handle of its own. */
export type AutoTarget =
  | { readonly agent: string }
  | { readonly session: Session<never> | Session; readonly state: () => unknown };

const FIELDS = new Set(["interval", "max", "beforeOperations", "enabled"]);
const DEFAULTS: AutoPolicy = { interval: 300_000, max: 10, beforeOperations: true, enabled: true };

/** What the automatic checkpoints need of the Savepoint they belong to. */
export interface AutoCheckpointHost {
  /** @throws CLOSED */
  open(): Context;
  readonly events: Events;
  readonly numbers: NumberSource;
  readonly agents: AgentCheckpoints;
  readonly checkpoints: Checkpoints;
  session(id: string, branch: string): Session;
  resetCursors(sessionId: string): void;
}

/**
 * Checkpoints that are taken by themselves. There are none unless they are asked for.
 *
 * @example
 * await sp.autoCheckpoints.set({ agent: "support" }, { interval: "10m", max: 20 });
 * await sp.autoCheckpoints.start({ agent: "support" });
 */
export class AutoCheckpoints {
  readonly #host: AutoCheckpointHost;
  readonly #timers = new Map<string, Timer>();

  /** Use `sp.autoCheckpoints`. */
  constructor(host: AutoCheckpointHost) {
    this.#host = host;
  }

  /** Says what is wanted for an agent or a session, for every process. A session need not have been saved yet. */
  async set(target: PolicyTarget, options: AutoCheckpointOptions = {}): Promise<AutoPolicy> {
    const given = takePolicy(options);
    const policy = await this.#write(target, (before) => ({ ...DEFAULTS, ...before, ...given }));
    return policy as AutoPolicy;
  }

  /** What is wanted for an agent or a session; `undefined` where nothing is. */
  async load(target: PolicyTarget): Promise<AutoPolicy | undefined> {
    return (await this.#reader(target).session())?.record.policy;
  }

  /** Wants nothing any more. Returns whether something was wanted. */
  async remove(target: PolicyTarget): Promise<boolean> {
    let removed = false;
    await this.#write(target, (before) => {
      removed = before !== undefined;
      return undefined;
    });
    return removed;
  }

  /**
   * Begins to take checkpoints in this process, the first one after an interval. Where nothing is wanted yet, the defaults
   * are. What has begun already goes on as it is. It does not keep the process from ending.
   */
  async start(target: AutoTarget): Promise<void> {
    const policyTarget: PolicyTarget = "agent" in target ? target : { session: target.session.id };
    const name = this.#nameOf(target);
    // Taken before anything is waited for: two that start at once must not both begin.
    if (this.#timers.has(name)) return;
    const timer = new Timer(
      () => this.#take(target, policyTarget, timer),
      // A store that is being closed is no failure.
      (error) => timer.stopped || this.#failed(policyTarget, error),
    );
    this.#timers.set(name, timer);
    try {
      const policy = await this.#write(policyTarget, (before) => before ?? DEFAULTS);
      timer.schedule((policy ?? DEFAULTS).interval);
    } catch (error) {
      // By now it may have been stopped, and another one started.
      if (this.#timers.get(name) === timer) this.#timers.delete(name);
      throw error;
    }
  }

  /** Stops taking checkpoints in this process: of one agent or session, or of all. None is taken after it has resolved. */
  async stop(target?: PolicyTarget | { readonly session: Session<never> | Session }): Promise<void> {
    const wanted = target && this.#nameOf(target);
    // A session by its id means all its branches.
    const isWanted = (name: string): boolean =>
      wanted === undefined || name === wanted || name.startsWith(`${wanted}\t`);
    const names = [...this.#timers.keys()].filter(isWanted);
    const timers = names.flatMap((name) => this.#timers.get(name) ?? []);
    for (const name of names) this.#timers.delete(name);
    await Promise.all(timers.map((timer) => timer.stop()));
  }

  /** Takes a checkpoint of an agent before something is done to it, if that is wanted. */
  async beforeOperation(agent: string, operation: string): Promise<void> {
    const policy = await this.load({ agent });
    if (!policy?.enabled || !policy.beforeOperations) return;
    await this.#host.checkpoints.create({ agent, kind: "preOperation", trigger: operation });
  }

  /** Takes a checkpoint if something has changed. Returns when to look again. */
  async #take(target: AutoTarget, policyTarget: PolicyTarget, timer: Timer): Promise<number> {
    const policy = (await this.load(policyTarget)) ?? { ...DEFAULTS, enabled: false };
    if (!policy.enabled) return policy.interval;
    const at = new Date(this.#host.open().now()).toISOString();
    const said = { kind: "automatic", label: `Auto checkpoint ${at}`, description: "Automatic checkpoint" } as const;
    if ("agent" in target) {
      const { agent } = target;
      if ((await this.#host.agents.hasChanged(agent)) && !timer.stopped) {
        await this.#host.checkpoints.create({ agent, trigger: "interval", ...said });
      }
    } else {
      const session = target.session as Session;
      // Looked at through another handle: this one must go on refusing to save over what it has not seen.
      const latest = await this.#host.session(session.id, session.branch).latest();
      const state = target.state();
      if ((!latest || !isDeepStrictEqual(latest.state, state)) && !timer.stopped) {
        await session.save(state, { trigger: "interval", ...said });
      }
    }
    return policy.interval;
  }

  #failed(target: PolicyTarget, error: unknown): void {
    const whose =
      "agent" in target ? `agent ${JSON.stringify(target.agent)}` : `session ${JSON.stringify(target.session)}`;
    const message = `an automatic checkpoint of ${whose} could not be taken; it is tried again`;
    this.#host.events.emit("backgroundFailure", { message, error });
  }

  async #write(
    target: PolicyTarget,
    change: (before: AutoPolicy | undefined) => AutoPolicy | undefined,
  ): Promise<AutoPolicy | undefined> {
    const reader = this.#reader(target);
    const { store } = reader.context;
    for (;;) {
      const before = await reader.session();
      const policy = change(before?.record.policy);
      if (policy === before?.record.policy) return policy;
      if (!before && "agent" in target) throw agentNotFound(target.agent);
      const base = before?.record ?? newSessionRecord(await this.#host.numbers.next(), this.#host.open().now());
      const key = sessionKey(reader.sessionId);
      try {
        await store.commit({
          checks: [{ key, value: before?.value }],
          puts: [
            { key, value: encodeSession({ ...base, policy }) },
            ...(before ? [] : [{ key: sessionNumberKey(base.number), value: reader.sessionId }]),
          ],
        });
        this.#host.resetCursors(reader.sessionId);
        return policy;
      } catch (error) {
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }

  /** What a timer is known by. */
  #nameOf(target: PolicyTarget | { readonly session: Session<never> | Session }): string {
    const session = "session" in target && typeof target.session !== "string" ? target.session : undefined;
    const { sessionId } = this.#reader(session ? { session: session.id } : (target as PolicyTarget));
    return session ? `${sessionId}\t${session.branch}` : sessionId;
  }

  #reader(target: PolicyTarget): SessionReader {
    const context = this.#host.open();
    if ("agent" in target) return new SessionReader(context, agentHistoryId(checkId(target.agent, "agent id")));
    return new SessionReader(context, checkId(target.session, "session id"));
  }
}

/** One thing that is done again and again, until it is stopped. */
class Timer {
  stopped = false;
  readonly #work: () => Promise<number>;
  readonly #failed: (error: unknown) => void;
  #handle: NodeJS.Timeout | undefined;
  #interval = 0;
  #running: Promise<void> | undefined;

  constructor(work: () => Promise<number>, failed: (error: unknown) => void) {
    this.#work = work;
    this.#failed = failed;
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
      this.#failed(error);
    }
    this.schedule(next);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.#handle);
    await this.#running;
  }
}

function takePolicy(options: AutoCheckpointOptions): Partial<AutoPolicy> {
  validateFields(options, "A policy for automatic checkpoints", FIELDS);
  const { interval, max, beforeOperations, enabled } = options;
  const time = interval === undefined ? undefined : toMilliseconds(interval, "interval");
  if (time !== undefined && !(time >= 1 && time <= MAX_TIMER)) {
    throw invalidPolicy(`an interval of ${time} ms cannot be kept`);
  }
  if (max !== undefined && !(Number.isSafeInteger(max) && max >= 1)) {
    throw invalidPolicy(`max is ${String(max)}, not a whole number from 1 on`);
  }
  return {
    ...(time !== undefined && { interval: time }),
    ...(max !== undefined && { max }),
    ...(beforeOperations !== undefined && { beforeOperations: Boolean(beforeOperations) }),
    ...(enabled !== undefined && { enabled: Boolean(enabled) }),
  };
}

function invalidPolicy(why: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError("INVALID_ARGUMENT", `Automatic checkpoints cannot be set up like this: ${why}.`);
}
