/**
 * A worker: goes on with whatever sessions of its agents need somebody, as many at once as it is told, until it is stopped.
 *
 * Any number of workers, on any number of machines, share a store. They do not know of each other: a session is worked on
 * by whoever takes its branch, and what a dead or frozen worker had is taken over once its lease has ended.
 */
import { isSavepointError, type SavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import type { RunEvent, RunEventOf, RunEventType } from "../../events/index.js";
import { SessionReader } from "../../sessions/index.js";
import type { Agent } from "../agent/index.js";
import { applyCrashPolicy } from "../claims/index.js";
import {
  findScheduledWork,
  findOrphans,
  findOwners,
  dropStaleEntry,
  type Orphan,
  type PendingWork,
} from "./find-work.js";
import { isStoreFailure, ProcessWatcher, parseAnnouncement } from "../leases/index.js";
import { branchMapKey, type Runs } from "../api/index.js";
import type { WorkerSettings } from "./options.js";

/** A session was put aside, because one process after another has died over it. */
export interface QuarantineEvent {
  readonly type: "quarantined";
  readonly sessionId: string;
  readonly branch: string;
  readonly reason: string;
}

/** The worker could not look for work, or not begin with some. It goes on trying. */
export interface WorkerFailureEvent {
  readonly type: "failure";
  readonly message: string;
  readonly error: unknown;
}

export type WorkerEvent = RunEvent | QuarantineEvent | WorkerFailureEvent;
export type WorkerEventType = WorkerEvent["type"];
export type WorkerEventOf<Type extends WorkerEventType> = Type extends RunEventType
  ? RunEventOf<Type>
  : Extract<WorkerEvent, { readonly type: Type }>;

/** What a worker needs of the Savepoint that it belongs to. */
export interface WorkerHost {
  readonly context: Context;
  readonly runs: Runs;
  /** Closes the Savepoint, which stops the worker too. */
  close(): Promise<void>;
  /** Told when it has stopped. */
  stopped(worker: Worker): void;
}

/** After a failure it waits, longer each time, in milliseconds. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;
/** How long a session that cannot be begun with is left alone, in milliseconds. */
const LEFT_ALONE = 60_000;
/** After so many deaths it may be what is worked on that kills. */
const SUSPICIOUS = 2;
/** As many of them may be there at once. */
const MANY = 100;
/** How long after the end of a lease to search for abandoned work, and the shortest and longest interval, in milliseconds. */
const SOON = 20;
const OFTEN = 200;
const SELDOM = 5000;
/** How often the processes on this host are checked, in milliseconds. No query is needed for that. */
const TICK = 100;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;
/** Errors that end a run although nothing failed: another process has it, the worker stops, or the session was deleted. */
const EXPECTED_ENDS = ["LEASE_LOST", "CLOSED", "SESSION_DELETED"] as const;

export class Worker implements AsyncDisposable {
  readonly name: string;
  readonly #host: WorkerHost;
  readonly #agents: ReadonlyMap<string, Agent>;
  readonly #options: WorkerSettings;
  readonly #listeners = new Map<WorkerEventType, Set<(event: WorkerEvent) => void>>();
  /** Sessions that could not be begun with, and until when they are left alone. */
  readonly #avoided = new Map<string, number>();
  /** What it works on although others have died over it, as long as no step of that is done. */
  #suspect: string | undefined;
  #working: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  /** Processes on this host that run something. */
  readonly #neighbours = new ProcessWatcher();
  #ticking: NodeJS.Timeout | undefined;
  /** Owners that are gone and may have left work that is not claimed yet. */
  #gone = new Set<string>();
  /** Owners that were gone when owners were last listed: their work was searched for then. */
  #goneBefore: ReadonlySet<string> = new Set();
  /** Scheduled work that was found while this worker still ran its session. It is started when that run has ended. */
  readonly #next = new Map<string, PendingWork>();
  /** When to list all owners again and to search for the work of all that are gone. */
  #sweepAt = 0;
  #isAwake = false;
  #wakeUp: (() => void) | undefined;
  #unlisten: (() => Promise<void>) | undefined;

  /** Use `sp.worker(agents)`. */
  constructor(host: WorkerHost, agents: ReadonlyMap<string, Agent>, options: WorkerSettings) {
    this.#host = host;
    this.#agents = agents;
    this.#options = options;
    this.name = options.name;
  }

  /** How many sessions it works on just now. */
  get running(): number {
    return this.#host.runs.size;
  }

  /** Begins to look for work. Resolves when it has looked once; the process stays alive until it is stopped. */
  async start(): Promise<void> {
    if (this.#working || this.#stopping) return;
    if (this.#options.signals) for (const signal of SIGNALS) process.on(signal, this.#onSignal);
    this.#ticking = setInterval(() => this.#tick(), TICK).unref();
    await new Promise<void>((resolve) => {
      this.#working = this.#work(resolve);
    });
  }

  /**
   * Takes nothing more on. Sessions get the time to come to the end of a step; then they are handed back, for others to go
   * on with. Resolves when all are.
   *
   * @param options.grace how long they get, in milliseconds; @default that of the worker
   */
  stop(options: { readonly grace?: number } = {}): Promise<void> {
    this.#stopping ??= this.#stop(options.grace ?? this.#options.grace);
    return this.#stopping;
  }

  /** Listens to what happens. Returns the function that takes the listener off again. */
  on<Type extends WorkerEventType>(type: Type, listener: (event: WorkerEventOf<Type>) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners);
    listeners.add(listener as (event: WorkerEvent) => void);
    return () => listeners.delete(listener as (event: WorkerEvent) => void);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Tells whoever listens. @internal */
  emit(event: WorkerEvent): void {
    if (event.type === "step") this.#clear({ session: event.sessionId, branch: event.branch });
    for (const listener of this.#listeners.get(event.type) ?? []) listener(event);
  }

  async #work(looked: () => void): Promise<void> {
    const { store } = this.#host.context;
    // A wake-up that is missed costs the time until it looks by itself.
    this.#unlisten = await store
      .listen?.((name) => this.#hear(name))
      .catch((error: unknown) => {
        this.#fail("new work cannot be heard of", error);
        return undefined;
      });
    for (let failures = 0; !this.#stopping;) {
      let pause = this.#options.poll;
      try {
        if ((await this.#take()) > 0) pause = 0;
        // While there is no room, nothing is looked for.
        else if (this.#room > 0) pause = Math.min(pause, Math.max(SOON, this.#sweepAt - performance.now()));
        failures = 0;
      } catch (error) {
        if (this.#stopping || isSavepointError(error, "CLOSED")) break;
        pause = Math.min(FIRST_PAUSE * 2 ** failures++, LONGEST_PAUSE);
        this.#sweepAt = 0;
        this.#fail("no work could be looked for", error);
      }
      looked();
      if (!this.#stopping) await this.#sleep(pause);
    }
    looked();
  }

  /** How many more it could work on. */
  get #room(): number {
    return this.#options.concurrency - this.#host.runs.size;
  }

  /** Handles a notification of a commit: an agent has work, a process is to be watched, or notifications were missed. */
  #hear(name: string): void {
    const announced = parseAnnouncement(name);
    if (announced && announced.owner !== this.#host.runs.owner)
      this.#neighbours.watch(announced.owner, announced.process);
    else if (name === "" || this.#agents.has(name)) this.#wake();
  }

  /** Checks whether processes on this host have died. */
  #tick(): void {
    const died = this.#neighbours.collectDead();
    for (const owner of died) this.#gone.add(owner);
    if (died.length > 0) this.#wake();
  }

  /** Starts as much work as capacity allows. @returns how many runs were started: if any, there may be more */
  async #take(): Promise<number> {
    const { context } = this.#host;
    if (this.#room <= 0) return 0;
    await this.#findOwners();
    const begun = this.#gone.size > 0 ? await this.#searchGone() : 0;
    if (this.#room <= 0) return begun;
    const ready = this.#takeReady();
    const isSkipped = (work: PendingWork): boolean => this.#isAvoided(work) || this.#isOwn(work) || ready.has(work.key);
    const limit = this.#room - ready.size;
    const due = limit > 0 ? await findScheduledWork(context, [...this.#agents.keys()], limit, isSkipped) : [];
    const begunDue = await Promise.all([...ready.values(), ...due].map((work) => this.#begin(work)));
    return begun + begunDue.filter(Boolean).length;
  }

  /** Lists the owners when that is due. Without notifications, listing is the only way to find new ones on this host. */
  async #findOwners(): Promise<void> {
    const { context, runs } = this.#host;
    const now = performance.now();
    const isSweep = now >= this.#sweepAt;
    if (!isSweep && context.store.listen) return;
    // Set before anything is awaited, so that a sweep that is requested meanwhile is not overwritten.
    if (isSweep) this.#sweepAt = now + Math.min(this.#options.lease / 2, SELDOM);
    const { alive, gone, nextEnd } = await findOwners(context, runs.owner);
    this.#neighbours.watchAll(alive);
    for (const owner of gone) if (isSweep || !this.#goneBefore.has(owner)) this.#gone.add(owner);
    this.#goneBefore = new Set(gone);
    // As soon as the next lease could have expired.
    if (isSweep) this.#sweepWithin(Math.max(nextEnd + SOON, OFTEN));
  }

  #sweepWithin(time: number): void {
    this.#sweepAt = Math.min(this.#sweepAt, performance.now() + time);
  }

  /** Searches for the runs of owners that are gone, and starts them. @returns how many were started */
  async #searchGone(): Promise<number> {
    const searched = [...this.#gone];
    const isSkipped = (work: PendingWork): boolean =>
      this.#isAvoided(work) || this.#host.runs.has(work.session, work.branch);
    // Most suspected sessions are skipped for now: they must not fill the limit and hide the others.
    const limit = this.#room + (this.#suspect === undefined ? 0 : MANY);
    const orphans = await findOrphans(this.#host.context, searched, this.#agents, limit, isSkipped);
    const { begun, failed } = await this.#takeOrphans(orphans);
    // As long as a search starts something, these owners are searched again at once.
    if (begun > 0 && orphans.length < limit) {
      const left = new Set(orphans.map(({ owner }) => owner));
      for (const owner of searched) if (!left.has(owner)) this.#gone.delete(owner);
    } else if (begun === 0) for (const owner of searched) this.#gone.delete(owner);
    if (begun === 0 && failed > 0) this.#sweepWithin(OFTEN);
    return begun;
  }

  /** @returns how many were started, and how many failed to start although the crash policy allows them */
  async #takeOrphans(orphans: readonly Orphan[]): Promise<{ begun: number; failed: number }> {
    const deaths = await Promise.all(orphans.map((orphan) => this.#judge(orphan)));
    const blamed = this.#blamed;
    const chosen: Orphan[] = [];
    for (const [index, orphan] of orphans.entries()) {
      const died = deaths[index];
      if (died === undefined || chosen.length >= this.#room) continue;
      // It may have died with another that ran beside it. So of those that are under suspicion one is tried at a time, and
      // whoever dies with it is not another one of them: only who is to blame comes to the last death.
      if (died >= blamed && this.#suspect !== undefined) continue;
      if (died >= blamed) this.#suspect = branchMapKey(orphan.session, orphan.branch);
      chosen.push(orphan);
    }
    const results = await Promise.all(
      chosen.map(async (orphan) => {
        let isBegun = false;
        try {
          return (isBegun = await this.#begin(orphan));
        } finally {
          if (!isBegun && this.#suspect === branchMapKey(orphan.session, orphan.branch)) this.#suspect = undefined;
        }
      }),
    );
    const begun = results.filter(Boolean).length;
    return { begun, failed: chosen.length - begun };
  }

  /** So many deaths put it under suspicion. */
  get #blamed(): number {
    return Math.max(1, Math.min(SUSPICIOUS, this.#options.maxDeaths - 1));
  }

  /** How many processes have died over it; `undefined` where it is not to be begun with, as one that is put aside now. */
  async #judge(orphan: Orphan): Promise<number | undefined> {
    const { session, branch, takeovers } = orphan;
    const { maxDeaths } = this.#options;
    // It was not taken over from anybody yet: one death at most, which says nothing.
    if (takeovers === 0 && this.#blamed > 1) return 0;
    const { context, runs } = this.#host;
    try {
      const { crashes, quarantined } = await applyCrashPolicy(
        new SessionReader(context, session),
        branch,
        runs.owner,
        this.#agents,
        maxDeaths,
      );
      if (quarantined === undefined) return crashes;
      this.emit({ type: "quarantined", sessionId: session, branch, reason: quarantined });
    } catch (error) {
      // Somebody else has taken it since.
      if (!isSavepointError(error, "ALREADY_RUNNING")) this.#avoid(orphan, error);
    }
    return undefined;
  }

  /** Nothing has happened to who worked on it. */
  #clear(work: { readonly session: string; readonly branch: string }): void {
    if (this.#suspect !== branchMapKey(work.session, work.branch)) return;
    this.#suspect = undefined;
    // Other suspected sessions that waited for it may now be tried.
    this.#sweepAt = 0;
    this.#wake();
  }

  /** @returns whether it has begun with it */
  async #begin(work: PendingWork): Promise<boolean> {
    const { context, runs } = this.#host;
    const { session, branch } = work;
    if (runs.has(session, branch)) return false;
    try {
      const handle = await runs.resumeScheduled(this.#agents, session, branch);
      if (typeof handle === "string") await dropStaleEntry(context, work, handle === "nothing");
      if (!handle || typeof handle === "string") return false;
      const over = (): void => {
        this.#clear(work);
        this.#wake();
      };
      // Whoever listens is told how it ended by its events, and of what went wrong by this one.
      handle.result().then(over, (error: SavepointError) => {
        const expected = EXPECTED_ENDS.some((code) => isSavepointError(error, code));
        if (!expected) this.#fail(`session ${JSON.stringify(session)} could not be gone on with`, error);
        over();
      });
      return true;
    } catch (error) {
      this.#avoid(work, error);
      return false;
    }
  }

  /** Leaves one alone that cannot be begun with, so that the others are. Throws what they would meet as well. */
  #avoid(work: PendingWork, error: unknown): void {
    if (isStoreFailure(error)) throw error;
    this.#avoided.set(branchMapKey(work.session, work.branch), performance.now() + LEFT_ALONE);
    this.#fail(`session ${JSON.stringify(work.session)} could not be begun with`, error);
  }

  /** Does this worker still run the session? Then the due work is noted: it may be reserved, and not be found again soon. */
  #isOwn(work: PendingWork): boolean {
    if (!this.#host.runs.has(work.session, work.branch)) return false;
    this.#next.set(work.key, work);
    return true;
  }

  /** The noted work whose previous run has ended by now, up to the free capacity. */
  #takeReady(): Map<string, PendingWork> {
    const ready = new Map<string, PendingWork>();
    for (const [key, work] of this.#next) {
      if (ready.size >= this.#room) break;
      if (this.#host.runs.has(work.session, work.branch)) continue;
      this.#next.delete(key);
      ready.set(key, work);
    }
    return ready;
  }

  #isAvoided(work: PendingWork): boolean {
    const until = this.#avoided.get(branchMapKey(work.session, work.branch));
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#avoided.delete(branchMapKey(work.session, work.branch));
    return false;
  }

  async #stop(grace: number): Promise<void> {
    this.#wake();
    clearInterval(this.#ticking);
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
    await this.#working;
    await this.#unlisten?.().catch((error: unknown) => this.#fail("listening could not be ended", error));
    await this.#host.runs.drain(grace);
    this.#host.stopped(this);
  }

  readonly #onSignal = (signal: NodeJS.Signals): void => {
    const end = (): void => {
      // Somebody else knows what to do with it.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    this.stop()
      .then(() => this.#host.close())
      .then(end, (error: unknown) => {
        this.#fail("the worker could not be stopped in good order", error);
        end();
      });
  };

  #fail(message: string, error: unknown): void {
    const event: WorkerFailureEvent = { type: "failure", message: `worker ${this.name}: ${message}`, error };
    if (this.#listeners.get("failure")?.size) this.emit(event);
    else this.#host.context.events.emit("backgroundFailure", event);
  }

  #wake(): void {
    this.#isAwake = true;
    this.#wakeUp?.();
  }

  /** Sleeps until it is woken. Keeps the process alive: there is work to come. */
  async #sleep(time: number): Promise<void> {
    if (!this.#isAwake && time > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, time);
        this.#wakeUp = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#wakeUp = undefined;
    this.#isAwake = false;
  }
}
