/**
 * The leases of this process. A process has one record that says until when its leases last; whatever it runs names that
 * record. While anything is run it is renewed, three times in the length of a lease, by a thread of its own: a step that
 * computes for minutes must not lose its lease over it.
 *
 * Where no thread can open the store (it is in memory, or a handle of the caller's own; or the package was bundled into
 * one file), the event loop renews it.
 */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Context } from "../../context.js";
import { encodeOwner, ownedBy, ownerKey, CLEAN_SHUTDOWN } from "../../records/index.js";
import { addLocalOwner, type OwnerRuns, removeLocalOwner } from "../status/index.js";
import { MAX_TIMER, thisProcess } from "../../util/index.js";
import type { Put, StoreOptions } from "../../store/index.js";
import { formatAnnouncement } from "./process-watcher.js";
import { elapsedBetween, type Moment, toLocalMoment, currentMoment } from "./moment.js";
import { renewLease } from "./renew-lease.js";

/** What another thread can open the same store with. */
export interface StoreAddress {
  readonly url: string;
  readonly options: StoreOptions;
}

/** What a heartbeat is sent with, from whatever thread. */
export interface HeartbeatData extends StoreAddress {
  /** The module that opens stores. */
  readonly module: string;
  readonly key: string;
  readonly lease: number;
  readonly every: number;
  readonly process: ReturnType<typeof thisProcess>;
}

/**
 * What the thread says: that it is there; that it has renewed the lease, and when it began to and had done so; or why it
 * could not. It goes on trying.
 */
export type HeartbeatMessage =
  | "ready"
  | { readonly began: Moment; readonly landed: Moment }
  | { readonly error: unknown };

/** This much of a lease is certain to last. */
const UNBROKEN = 0.75;

export class Leases {
  /** Names this process, or this part of it, among those that run something. */
  readonly owner = randomBytes(9).toString("base64url");
  readonly #context: Context;
  readonly #key = ownerKey(this.owner);
  readonly #lease: number;
  readonly #every: number;
  readonly #runs: OwnerRuns;
  readonly #reopening: StoreAddress | undefined;
  #held = 0;
  #isAnnounced = false;
  /** When its first claim was made ready. */
  #begun: Moment | undefined;
  /** From when on it lasts, and since when it was never over. */
  #renewed: { readonly at: Moment; readonly since: Moment } | undefined;
  /** What this thread has last seen of it. */
  #value: string | undefined;
  #renewing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #worker: Worker | undefined;
  #ready = false;

  /**
   * @param runs the branches that run with these leases, added before they are claimed
   * @param reopening how another thread can open the store, if it can
   */
  constructor(context: Context, lease: number, runs: OwnerRuns, reopening: StoreAddress | undefined) {
    this.#context = context;
    this.#runs = runs;
    this.#lease = lease;
    this.#every = Math.min(lease / 3, MAX_TIMER);
    this.#reopening = reopening;
  }

  /**
   * What a claim has beside it: the first one begins the lease. Later ones find it there, and must not write it along: they
   * may be on their way for longer than it lasts.
   */
  async prepareClaim(): Promise<{ readonly puts: readonly Put[]; readonly wakes?: readonly string[] }> {
    // Until the first claim has succeeded, each claim tells the workers on this host which process to watch.
    const wakes = this.#isAnnounced ? {} : { wakes: [formatAnnouncement(this.owner)] };
    if (this.#begun) {
      await this.renew();
      return { puts: [], ...wakes };
    }
    this.#begun = currentMoment(this.#context);
    addLocalOwner(this.owner, this.#runs);
    const value = encodeOwner(await this.#next());
    this.#value = value;
    // Of several that come first, one may have to renew it before this one is there.
    return { puts: [{ key: this.#key, value, ifAbsent: true }], ...wakes };
  }

  /** Something was claimed, and is run from now on: the lease is renewed until as many {@link release} it. */
  hold(): void {
    this.#isAnnounced = true;
    // It began with the claim, in one commit.
    if (this.#begun) this.#renewed ??= { at: this.#begun, since: this.#begun };
    if (this.#held++ === 0) this.#start();
  }

  /**
   * Has nobody been able to take over since then, and is nobody for a while? That something was written says only that
   * nobody had yet: a process that was stopped for longer than its lease may still write, until somebody takes over.
   */
  isUnbrokenSince(moment: Moment): boolean {
    return this.#isFresh() && this.#renewed !== undefined && this.#renewed.since.ticks <= moment.ticks;
  }

  /** Renews it now, where half of it is over. */
  async renew(): Promise<void> {
    if (!this.#isFresh()) await this.#renewOnce();
  }

  release(): void {
    if (--this.#held === 0) this.#stop();
  }

  /**
   * Ends the lease: nothing runs any more, and other processes need not wait for it to expire. If that cannot be written, a
   * failure is reported and other processes have to wait; this process does not.
   */
  async close(): Promise<void> {
    this.#stop();
    await this.#endWorker();
    await this.#renewing?.catch(() => {});
    if (!this.#begun) return;
    try {
      await this.#end();
      removeLocalOwner(this.owner);
    } catch (error) {
      const message = "a lease could not be ended; other processes wait until it expires";
      this.#context.events.emit("backgroundFailure", { message, error });
    }
  }

  async #end(): Promise<void> {
    const { store } = this.#context;
    // Branches that could not be released, because the store was unreachable, are found by this record: it then marks the
    // lease as ended.
    const [left] = await store.list(ownedBy(this.owner), { limit: 1 });
    const over = { key: this.#key, value: encodeOwner({ until: CLEAN_SHUTDOWN, process: thisProcess() }) };
    await store.commit(left ? { puts: [over] } : { deletes: [this.#key] });
  }

  #isFresh(): boolean {
    return (
      this.#renewed !== undefined && elapsedBetween(this.#renewed.at, currentMoment(this.#context)) < this.#lease / 2
    );
  }

  async #next(): Promise<Parameters<typeof encodeOwner>[0]> {
    return { until: (await this.#context.store.now()) + this.#lease, process: thisProcess() };
  }

  /** One at a time. */
  #renewOnce(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    const began = currentMoment(this.#context);
    const owner = await this.#next();
    this.#value = await renewLease(this.#context.store, this.#key, owner, this.#value);
    this.#note(began, currentMoment(this.#context));
  }

  /** It lasts from `began` on, and that was written by `landed`. If it was over by then, others could have taken over. */
  #note(began: Moment, landed: Moment): void {
    const before = this.#renewed;
    // Not to the last moment: the store's clock is known only about.
    const unbroken = before && elapsedBetween(before.at, landed) < this.#lease * UNBROKEN;
    const at = before && before.at.ticks > began.ticks ? before.at : began;
    this.#renewed = { at, since: unbroken ? before.since : landed };
  }

  #start(): void {
    if (!this.#worker && this.#reopening) this.#worker = this.#startWorker(this.#reopening);
    this.#worker?.postMessage("start");
    // Until the thread is there, or if it does not come.
    if (!this.#ready) this.#startTimer();
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#worker?.postMessage("stop");
  }

  #startTimer(): void {
    if (this.#held === 0) return;
    this.#timer ??= setInterval(() => {
      this.#renewOnce().catch((error: unknown) => this.#report(error));
    }, this.#every).unref();
  }

  #startWorker(reopening: StoreAddress): Worker | undefined {
    const module = new URL("../../store/open.js", import.meta.url);
    const program = new URL("./heartbeat.mjs", import.meta.url);
    if (!existsSync(fileURLToPath(module)) || !existsSync(fileURLToPath(program))) return undefined;
    const workerData: HeartbeatData = {
      ...reopening,
      module: module.href,
      key: this.#key,
      lease: this.#lease,
      every: this.#every,
      process: thisProcess(),
    };
    const worker = new Worker(program, { workerData, execArgv: [] });
    worker.unref();
    this.#ready = false;
    worker.on("message", (told: HeartbeatMessage) => {
      if (told !== "ready" && "error" in told) return this.#report(told.error);
      if (told !== "ready") {
        const now = currentMoment(this.#context);
        return this.#note(toLocalMoment(told.began, now), toLocalMoment(told.landed, now));
      }
      this.#ready = true;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
    worker.on("error", (error) => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#ready = false;
      this.#report(error);
      this.#startTimer();
    });
    return worker;
  }

  async #endWorker(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    if (!worker) return;
    // It is not terminated: SQLite must not be torn down while it is being opened.
    worker.ref();
    await new Promise<void>((resolve) => {
      worker.once("exit", () => resolve());
      worker.postMessage("close");
    });
  }

  #report(error: unknown): void {
    const message = "a lease could not be renewed; if that goes on, others will take over what runs here";
    this.#context.events.emit("backgroundFailure", { message, error });
  }
}
