/**
 * A worker: resumes the sessions of its agents that are ready or abandoned, several at once, until it is stopped.
 *
 * Any number of workers, on any number of machines, share a store. They do not know of each other: the process that claims the
 * branch of a session runs it, and the sessions of a dead or frozen worker are claimed when its lease has expired.
 */
import { isSavepointError, type SavepointError } from "../../errors.js";
import { SessionReader } from "../../sessions/index.js";
import type { Agent } from "../agent/index.js";
import { applyCrashPolicy } from "../claims/index.js";
import { parseAnnouncement, ProcessWatcher } from "../leases/index.js";
import { branchMapKey, EXPECTED_ENDS, isStoreFailure, type LiveRuns, type Runs } from "../api/index.js";
import { Alarm } from "./alarm.js";
import { chooseOrphans, suspicionThreshold } from "./choose-orphans.js";
import { type WorkerEvent, type WorkerEventOf, type WorkerEventType, WorkerListeners } from "./events.js";
import {
  dropStaleEntry,
  findOrphans,
  findOwners,
  findScheduledWork,
  type Orphan,
  type PendingWork,
} from "./find-work.js";
import type { WorkerSettings } from "./options.js";

/** The Savepoint that a worker belongs to. */
export interface WorkerHost {
  readonly runs: Runs;
  /** Closes the Savepoint, which stops the worker too. */
  close(): Promise<void>;
  /** Called when the worker has stopped. */
  stopped(worker: Worker): void;
}

/** The first and the longest pause after failures in a row, in milliseconds. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;
/** How long a session that could not be started is avoided, in milliseconds. */
const AVOID_FOR = 60_000;
/** How many orphans are read in addition to the capacity while a suspect runs: most of them may be suspects, and skipped. */
const EXTRA_ORPHANS = 100;
/** How long after the end of a lease to search for abandoned work, and the shortest and longest interval, in milliseconds. */
const AFTER_LEASE = 20;
const SHORTEST_INTERVAL = 200;
const LONGEST_INTERVAL = 5000;
/** How often the processes on this host are checked, in milliseconds. No query is needed for that. */
const TICK = 100;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export class Worker implements AsyncDisposable {
  readonly name: string;
  readonly #host: WorkerHost;
  readonly #live: LiveRuns;
  readonly #agents: ReadonlyMap<string, Agent>;
  readonly #settings: WorkerSettings;
  readonly #listeners = new WorkerListeners();
  readonly #alarm = new Alarm();
  /** Processes on this host that run sessions. */
  readonly #watcher = new ProcessWatcher();
  /** Sessions that could not be started, and until when they are avoided. */
  readonly #avoided = new Map<string, number>();
  /** Scheduled work that was found while this worker still ran its session. It is started when that run has ended. */
  readonly #postponed = new Map<string, PendingWork>();
  /** The suspect that this worker runs, until it has completed a step. See {@link chooseOrphans}. */
  #suspect: string | undefined;
  /** Owners that are gone and may have left work that is not claimed yet. */
  #gone = new Set<string>();
  /** Owners that were gone when owners were last listed: their work was searched for then. */
  #goneBefore: ReadonlySet<string> = new Set();
  /** When to list all owners again and to search for the work of all that are gone. */
  #sweepAt = 0;
  #working: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #onStopped: (stopping: Promise<void>) => void = () => {};
  /** Settles when the worker has stopped. */
  readonly #stopped = new Promise<void>((resolve) => (this.#onStopped = resolve));
  #ticking: NodeJS.Timeout | undefined;
  #unlisten: (() => Promise<void>) | undefined;

  /** Use `sp.worker(agents)`. */
  constructor(host: WorkerHost, agents: ReadonlyMap<string, Agent>, settings: WorkerSettings) {
    this.#host = host;
    this.#live = host.runs.live;
    this.#agents = agents;
    this.#settings = settings;
    this.name = settings.name;
  }

  /** The number of sessions that it runs now. */
  get running(): number {
    return this.#live.size;
  }

  /**
   * Starts the worker. Resolves when it works: after its first search for work. The process stays alive until the worker is
   * stopped. A worker that was stopped does not start again.
   */
  async start(): Promise<void> {
    if (!this.#stopping) await (this.#starting ??= this.#start());
  }

  /** Starts the worker if needed, and resolves when it has stopped: by a signal, by {@link stop}, or with the store. */
  async run(): Promise<void> {
    await this.start();
    await this.#stopped;
  }

  async #start(): Promise<void> {
    if (this.#settings.signals) for (const signal of SIGNALS) process.on(signal, this.#onSignal);
    this.#ticking = setInterval(() => this.#tick(), TICK).unref();
    await new Promise<void>((resolve) => {
      this.#working = this.#work(resolve);
    });
  }

  /**
   * Stops the worker. It starts no further session; its sessions get a grace period to finish their current step, and are then
   * released for other processes. Resolves when all are released.
   *
   * @param options.grace the grace period in milliseconds; @default that of the worker
   */
  stop(options: { readonly grace?: number } = {}): Promise<void> {
    this.#stopping ??= this.#stop(options.grace ?? this.#settings.grace);
    this.#onStopped(this.#stopping);
    // A caller of stop() gets the error, and so does a caller of run(), if there is one.
    this.#stopped.catch(() => {});
    return this.#stopping;
  }

  /** Adds a listener for events of one type. Returns the function that removes it. */
  on<Type extends WorkerEventType>(type: Type, listener: (event: WorkerEventOf<Type>) => void): () => void {
    return this.#listeners.add(type, listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Emits an event to the listeners. @internal */
  emit(event: WorkerEvent): void {
    if (event.type === "step") this.#clearSuspect({ session: event.sessionId, branch: event.branch });
    this.#listeners.emit(event);
  }

  /** Returns whether the worker has listeners for events of this type. @internal */
  hears(type: WorkerEventType): boolean {
    return this.#listeners.has(type);
  }

  /** Searches for work and starts it, until the worker is stopped. @param onSearched called after each search */
  async #work(onSearched: () => void): Promise<void> {
    const { store } = this.#live.context;
    // A missed notification costs the time until the next poll.
    this.#unlisten = await store
      .listen?.((name) => this.#onNotification(name))
      .catch((error: unknown) => {
        this.#fail("notifications of new work cannot be received", error);
        return undefined;
      });
    for (let failures = 0; !this.#stopping;) {
      let pause = this.#settings.poll;
      try {
        if ((await this.#startWork()) > 0) pause = 0;
        // Without capacity there is no search, so the next sweep does not matter.
        else if (this.#capacity > 0) pause = Math.min(pause, Math.max(AFTER_LEASE, this.#sweepAt - performance.now()));
        failures = 0;
      } catch (error) {
        if (this.#stopping || isSavepointError(error, "CLOSED")) break;
        pause = Math.min(FIRST_PAUSE * 2 ** failures++, LONGEST_PAUSE);
        this.#sweepAt = 0;
        this.#fail("the search for work failed", error);
      }
      onSearched();
      if (!this.#stopping) await this.#alarm.sleep(pause);
    }
    onSearched();
  }

  /** The number of further sessions that it can run. */
  get #capacity(): number {
    return this.#settings.concurrency - this.#live.size;
  }

  /** Handles a notification of a commit: an agent has work, a process is to be watched, or notifications were missed. */
  #onNotification(name: string): void {
    const announced = parseAnnouncement(name);
    if (announced && announced.owner !== this.#live.owner) this.#watcher.watch(announced.owner, announced.process);
    else if (name === "" || this.#agents.has(name)) this.#alarm.wake();
  }

  /** Checks whether processes on this host have died. */
  #tick(): void {
    const dead = this.#watcher.collectDead();
    for (const owner of dead) this.#gone.add(owner);
    if (dead.length > 0) this.#alarm.wake();
  }

  /** Starts as much work as capacity allows. @returns how many runs were started: if any, there may be more */
  async #startWork(): Promise<number> {
    const { context } = this.#live;
    if (this.#capacity <= 0) return 0;
    await this.#findOwners();
    const startedOrphans = this.#gone.size > 0 ? await this.#searchGone() : 0;
    if (this.#capacity <= 0) return startedOrphans;
    const ready = this.#collectPostponed();
    const isSkipped = (work: PendingWork): boolean =>
      this.#isAvoided(work) || this.#postponeOwn(work) || ready.has(work.key);
    const limit = this.#capacity - ready.size;
    const found = limit > 0 ? await findScheduledWork(context, [...this.#agents.keys()], limit, isSkipped) : [];
    const started = await Promise.all([...ready.values(), ...found].map((work) => this.#startOne(work)));
    return startedOrphans + started.filter(Boolean).length;
  }

  /** Lists the owners when a sweep is due. Without notifications, listing is the only way to find new ones on this host. */
  async #findOwners(): Promise<void> {
    const { context } = this.#live;
    const now = performance.now();
    const isSweep = now >= this.#sweepAt;
    if (!isSweep && context.store.listen) return;
    // Set before anything is awaited, so that a sweep that is requested in the meantime is not overwritten.
    if (isSweep) this.#sweepAt = now + Math.min(this.#settings.lease / 2, LONGEST_INTERVAL);
    const { alive, gone, nextEnd } = await findOwners(context, this.#live.owner);
    this.#watcher.watchAll(alive);
    for (const owner of gone) if (isSweep || !this.#goneBefore.has(owner)) this.#gone.add(owner);
    this.#goneBefore = new Set(gone);
    // As soon as the next lease could have expired.
    if (isSweep) this.#sweepWithin(Math.max(nextEnd + AFTER_LEASE, SHORTEST_INTERVAL));
  }

  #sweepWithin(time: number): void {
    this.#sweepAt = Math.min(this.#sweepAt, performance.now() + time);
  }

  /** Searches for the runs of owners that are gone, and starts them. @returns how many were started */
  async #searchGone(): Promise<number> {
    const { context } = this.#live;
    const searched = [...this.#gone];
    const isSkipped = (work: PendingWork): boolean =>
      this.#isAvoided(work) || this.#live.has(work.session, work.branch);
    // Suspects are skipped while one runs: they must not fill the limit and hide the others.
    const limit = this.#capacity + (this.#suspect === undefined ? 0 : EXTRA_ORPHANS);
    const orphans = await findOrphans(context, searched, this.#agents, limit, isSkipped);
    const { started, failed } = await this.#startOrphans(orphans);
    // As long as a search starts something, these owners are searched again immediately.
    if (started > 0 && orphans.length < limit) {
      const remaining = new Set(orphans.map(({ owner }) => owner));
      for (const owner of searched) if (!remaining.has(owner)) this.#gone.delete(owner);
    } else if (started === 0) for (const owner of searched) this.#gone.delete(owner);
    if (started === 0 && failed > 0) this.#sweepWithin(SHORTEST_INTERVAL);
    return started;
  }

  /** Starts abandoned runs. @returns how many were started, and how many failed to start although the crash policy allows them */
  async #startOrphans(orphans: readonly Orphan[]): Promise<{ started: number; failed: number }> {
    const threshold = suspicionThreshold(this.#settings.maxCrashes);
    const candidates = await Promise.all(
      orphans.map(async (orphan) => ({ orphan, crashes: await this.#countCrashes(orphan, threshold) })),
    );
    const hasSuspect = this.#suspect !== undefined;
    const { chosen, suspect } = chooseOrphans(candidates, this.#capacity, threshold, hasSuspect);
    if (suspect) this.#suspect = branchMapKey(suspect.session, suspect.branch);
    const results = await Promise.all(chosen.map((orphan) => this.#startOrphan(orphan)));
    const started = results.filter(Boolean).length;
    return { started, failed: chosen.length - started };
  }

  async #startOrphan(orphan: Orphan): Promise<boolean> {
    let isStarted = false;
    try {
      isStarted = await this.#startOne(orphan);
      return isStarted;
    } finally {
      if (!isStarted && this.#suspect === branchMapKey(orphan.session, orphan.branch)) this.#suspect = undefined;
    }
  }

  /** Counts the processes that a run has crashed; `undefined` if it must not be started, because it is quarantined or failed. */
  async #countCrashes(orphan: Orphan, threshold: number): Promise<number | undefined> {
    const { session, branch, takeovers } = orphan;
    // It has crashed at most one process, which does not make it a suspect.
    if (takeovers === 0 && threshold > 1) return 0;
    const { context, owner } = this.#live;
    const reader = new SessionReader(context, session);
    try {
      const result = await applyCrashPolicy(reader, branch, owner, this.#agents, this.#settings.maxCrashes);
      if (result.quarantined === undefined) return result.crashes;
      this.emit({ type: "quarantined", sessionId: session, branch, reason: result.quarantined });
    } catch (error) {
      // Another process has claimed it since.
      if (!isSavepointError(error, "ALREADY_RUNNING")) this.#avoid(orphan, error);
    }
    return undefined;
  }

  /** Clears the suspicion against a session that has completed a step or ended without a crash. */
  #clearSuspect({ session, branch }: Pick<PendingWork, "session" | "branch">): void {
    if (this.#suspect !== branchMapKey(session, branch)) return;
    this.#suspect = undefined;
    // Other suspects that waited for it may now be tried.
    this.#sweepAt = 0;
    this.#alarm.wake();
  }

  /** Starts the run of a session. @returns `false` if there was nothing to do, another process runs it, or it failed */
  async #startOne(work: PendingWork): Promise<boolean> {
    const { runs } = this.#host;
    const { session, branch } = work;
    if (this.#live.has(session, branch)) return false;
    try {
      const handle = await runs.resumeScheduled(this.#agents, session, branch);
      if (typeof handle === "string") await dropStaleEntry(this.#live.context, work, handle === "nothing");
      if (!handle || typeof handle === "string") return false;
      const onEnd = (): void => {
        this.#clearSuspect(work);
        this.#alarm.wake();
      };
      // The status is emitted by the run. Only unexpected errors are emitted here.
      handle.result().then(onEnd, (error: SavepointError) => {
        const isExpected = EXPECTED_ENDS.some((code) => isSavepointError(error, code));
        if (!isExpected) this.#fail(`session ${JSON.stringify(session)} could not be resumed`, error);
        onEnd();
      });
      return true;
    } catch (error) {
      this.#avoid(work, error);
      return false;
    }
  }

  /** Skips, for a while, a session that could not be started. Rethrows failures of the store, because they affect all sessions. */
  #avoid({ session, branch }: PendingWork, error: unknown): void {
    if (isStoreFailure(error)) throw error;
    this.#avoided.set(branchMapKey(session, branch), performance.now() + AVOID_FOR);
    this.#fail(`session ${JSON.stringify(session)} could not be started`, error);
  }

  #isAvoided({ session, branch }: PendingWork): boolean {
    const key = branchMapKey(session, branch);
    const until = this.#avoided.get(key);
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#avoided.delete(key);
    return false;
  }

  /** Postpones scheduled work whose session this worker still runs: it may be reserved, and not be found again soon. */
  #postponeOwn(work: PendingWork): boolean {
    if (!this.#live.has(work.session, work.branch)) return false;
    this.#postponed.set(work.key, work);
    return true;
  }

  /** Removes and returns the postponed work whose previous run has ended, up to the capacity. */
  #collectPostponed(): Map<string, PendingWork> {
    const ready = new Map<string, PendingWork>();
    for (const [key, work] of this.#postponed) {
      if (ready.size >= this.#capacity) break;
      if (this.#live.has(work.session, work.branch)) continue;
      this.#postponed.delete(key);
      ready.set(key, work);
    }
    return ready;
  }

  async #stop(grace: number): Promise<void> {
    this.#alarm.wake();
    clearInterval(this.#ticking);
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
    await this.#working;
    await this.#unlisten?.().catch((error: unknown) =>
      this.#fail("the subscription to notifications could not be ended", error),
    );
    await this.#live.drain(grace);
    this.#host.stopped(this);
  }

  readonly #onSignal = (signal: NodeJS.Signals): void => {
    const endProcess = (): void => {
      // A process with a handler of its own decides itself when to end.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    this.stop()
      .then(() => this.#host.close())
      .then(endProcess, (error: unknown) => {
        this.#fail("the worker could not be stopped cleanly", error);
        endProcess();
      });
  };

  #fail(message: string, error: unknown): void {
    const event = { type: "failure", message: `worker ${this.name}: ${message}`, error } as const;
    if (this.#listeners.has("failure")) this.emit(event);
    else this.#live.context.events.emit("backgroundFailure", event);
  }
}
