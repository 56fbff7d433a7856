/**
 * A worker: goes on with whatever sessions of its agents need somebody, as many at once as it is told, until it is stopped.
 *
 * Any number of workers, on any number of machines, share a store. They do not know of each other: a session is worked on
 * by whoever takes its branch, and what a dead or frozen worker had is taken over once its lease has ended.
 */
import { isSavepointError, type SavepointError } from "../errors.js";
import type { Context } from "../model/context.js";
import type { RunEvent, RunEventOf, RunEventType } from "../model/run-events.js";
import { SessionReader } from "../model/session-reader.js";
import type { Agent } from "./agent.js";
import { judge } from "./deadly.js";
import { findDue, findOrphans, forgetWork, type Orphan, type Work } from "./find-work.js";
import { keyOf, type Runs } from "./runs.js";
import { isStoreFailure } from "./store-failure.js";
import type { TakenWorkerOptions } from "./worker-options.js";

/** A session was put aside, because one process after another has died over it. */
export interface ParkedEvent {
  readonly type: "parked";
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

export type WorkerEvent = RunEvent | ParkedEvent | WorkerFailureEvent;
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
/** How long after a lease has ended what was left is looked for, and how often at most, in milliseconds. */
const SOON = 20;
const OFTEN = 200;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export class Worker implements AsyncDisposable {
  readonly name: string;
  readonly #host: WorkerHost;
  readonly #agents: ReadonlyMap<string, Agent>;
  readonly #options: TakenWorkerOptions;
  readonly #listeners = new Map<WorkerEventType, Set<(event: WorkerEvent) => void>>();
  /** Sessions that could not be begun with, and until when they are left alone. */
  readonly #avoided = new Map<string, number>();
  /** What it works on although others have died over it, as long as no step of that is done. */
  #suspect: string | undefined;
  #working: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #orphansDue = 0;
  #isAwake = false;
  #wakeUp: (() => void) | undefined;
  #unlisten: (() => Promise<void>) | undefined;

  /** Use `sp.worker(agents)`. */
  constructor(host: WorkerHost, agents: ReadonlyMap<string, Agent>, options: TakenWorkerOptions) {
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
    const mine = (name: string): boolean => name === "" || this.#agents.has(name);
    this.#unlisten = await store
      .listen?.((name) => mine(name) && this.#wake())
      .catch((error: unknown) => {
        this.#fail("new work cannot be heard of", error);
        return undefined;
      });
    for (let failures = 0; !this.#stopping;) {
      let pause = this.#options.poll;
      try {
        if ((await this.#take()) > 0) pause = 0;
        // While there is no room, nothing is looked for.
        else if (this.#room > 0) pause = Math.min(pause, Math.max(SOON, this.#orphansDue - performance.now()));
        failures = 0;
      } catch (error) {
        if (this.#stopping || isSavepointError(error, "CLOSED")) break;
        pause = Math.min(FIRST_PAUSE * 2 ** failures++, LONGEST_PAUSE);
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

  /** Takes on as much as it has room for. @returns how many were found: where there is room left, there may be more */
  async #take(): Promise<number> {
    const { context, runs } = this.#host;
    if (this.#room <= 0) return 0;
    const isSkipped = (work: Work): boolean => this.#isAvoided(work) || runs.has(work.session, work.branch);
    let found = 0;
    const now = performance.now();
    // Others may have died at any time; that is noticed by their leases, which last a while.
    if (now >= this.#orphansDue) {
      // Of those under suspicion most are left alone for now: they must not hide the others.
      const limit = this.#room + (this.#suspect === undefined ? 0 : MANY);
      const { orphans, nextEnd } = await findOrphans(context, runs.owner, this.#agents, limit, isSkipped);
      found += await this.#takeOrphans(orphans);
      // As soon as the next one could be gone, whoever it is; and often enough for one that is known to be dead before.
      if (this.#room > 0)
        this.#orphansDue = now + Math.min(Math.max(nextEnd + SOON, OFTEN), this.#options.lease / 2, 5000);
    }
    if (this.#room <= 0) return found;
    const due = await findDue(context, [...this.#agents.keys()], this.#room, isSkipped);
    const begun = await Promise.all(due.map((work) => this.#begin(work)));
    return found + begun.filter(Boolean).length;
  }

  /** @returns how many it has begun with */
  async #takeOrphans(orphans: readonly Orphan[]): Promise<number> {
    const deaths = await Promise.all(orphans.map((orphan) => this.#judge(orphan)));
    const blamed = this.#blamed;
    const chosen: Orphan[] = [];
    for (const [index, orphan] of orphans.entries()) {
      const died = deaths[index];
      if (died === undefined || chosen.length >= this.#room) continue;
      // It may have died with another that ran beside it. So of those that are under suspicion one is tried at a time, and
      // whoever dies with it is not another one of them: only who is to blame comes to the last death.
      if (died >= blamed && this.#suspect !== undefined) continue;
      if (died >= blamed) this.#suspect = keyOf(orphan.session, orphan.branch);
      chosen.push(orphan);
    }
    const begun = await Promise.all(
      chosen.map(async (orphan) => {
        let isBegun = false;
        try {
          return (isBegun = await this.#begin(orphan));
        } finally {
          if (!isBegun) this.#clear(orphan);
        }
      }),
    );
    return begun.filter(Boolean).length;
  }

  /** So many deaths put it under suspicion. */
  get #blamed(): number {
    return Math.max(1, Math.min(SUSPICIOUS, this.#options.maxDeaths - 1));
  }

  /** How many processes have died over it; `undefined` where it is not to be begun with, as one that is put aside now. */
  async #judge(orphan: Orphan): Promise<number | undefined> {
    const { session, branch, takenOver } = orphan;
    const { maxDeaths } = this.#options;
    // It was not taken over from anybody yet: one death at most, which says nothing.
    if (takenOver === 0 && this.#blamed > 1) return 0;
    const { context, runs } = this.#host;
    try {
      const { deaths, parked } = await judge(
        new SessionReader(context, session),
        branch,
        runs.owner,
        this.#agents,
        maxDeaths,
      );
      if (parked === undefined) return deaths;
      this.emit({ type: "parked", sessionId: session, branch, reason: parked });
    } catch (error) {
      // Somebody else has taken it since.
      if (!isSavepointError(error, "ALREADY_RUNNING")) this.#avoid(orphan, error);
    }
    return undefined;
  }

  /** Nothing has happened to who worked on it. */
  #clear(work: { readonly session: string; readonly branch: string }): void {
    if (this.#suspect !== keyOf(work.session, work.branch)) return;
    this.#suspect = undefined;
    this.#orphansDue = 0;
    this.#wake();
  }

  /** @returns whether it has begun with it */
  async #begin(work: Work): Promise<boolean> {
    const { context, runs } = this.#host;
    const { session, branch } = work;
    if (runs.has(session, branch)) return false;
    try {
      const handle = await runs.take(this.#agents, session, branch);
      if (typeof handle === "string") await forgetWork(context, work, handle === "nothing");
      if (!handle || typeof handle === "string") return false;
      const over = (): void => {
        this.#clear(work);
        this.#wake();
      };
      // Whoever listens is told how it ended by its events, and of what went wrong by this one.
      handle.result().then(over, (error: SavepointError) => {
        const expected = isSavepointError(error, "LEASE_LOST") || isSavepointError(error, "CLOSED");
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
  #avoid(work: Work, error: unknown): void {
    if (isStoreFailure(error)) throw error;
    this.#avoided.set(keyOf(work.session, work.branch), performance.now() + LEFT_ALONE);
    this.#fail(`session ${JSON.stringify(work.session)} could not be begun with`, error);
  }

  #isAvoided(work: Work): boolean {
    const until = this.#avoided.get(keyOf(work.session, work.branch));
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#avoided.delete(keyOf(work.session, work.branch));
    return false;
  }

  async #stop(grace: number): Promise<void> {
    this.#wake();
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
