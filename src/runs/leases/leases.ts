/**
 * The lease of this process. One owner record contains the time at which it expires, and all runs of the process refer to
 * that record. While anything runs, the lease is renewed three times per lease length by a thread of its own, so that a step
 * that computes for minutes does not lose it.
 *
 * If no thread can open the store (it is in memory or on a handle that the caller opened, or the package was bundled into
 * one file), the event loop renews the lease.
 */
import { randomBytes } from "node:crypto";
import type { Context } from "../../context.js";
import { CLEAN_SHUTDOWN, encodeOwner, ownedBy, ownerKey, type OwnerRecord } from "../../records/index.js";
import { addLocalOwner, type OwnerRuns, removeLocalOwner } from "../status/index.js";
import { MAX_TIMER, thisProcess } from "../../util/index.js";
import type { Put } from "../../store/index.js";
import { HeartbeatThread, type StoreAddress } from "./heartbeat-thread.js";
import { LeaseWindow } from "./lease-window.js";
import { currentMoment, type Moment, toLocalMoment } from "./moment.js";
import { formatAnnouncement } from "./process-watcher.js";
import { renewLease } from "./renew-lease.js";

export class Leases {
  /** Identifies this process, or one worker in it, among all owners of leases. */
  readonly owner = randomBytes(9).toString("base64url");
  readonly #context: Context;
  readonly #key = ownerKey(this.owner);
  readonly #lease: number;
  readonly #every: number;
  readonly #runs: OwnerRuns;
  readonly #address: StoreAddress | undefined;
  readonly #window: LeaseWindow;
  #held = 0;
  #isAnnounced = false;
  /** When the first claim was prepared. */
  #startedAt: Moment | undefined;
  /** The value of the owner record, as this thread last read or wrote it. */
  #value: string | undefined;
  #renewing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #thread: HeartbeatThread | undefined;
  #isThreadReady = false;

  /**
   * @param lease its length in milliseconds
   * @param runs the branches that run with this lease; each is added before it is claimed
   * @param address how another thread can open the store; `undefined` if it cannot
   */
  constructor(context: Context, lease: number, runs: OwnerRuns, address: StoreAddress | undefined) {
    this.#context = context;
    this.#runs = runs;
    this.#lease = lease;
    this.#every = Math.min(lease / 3, MAX_TIMER);
    this.#address = address;
    this.#window = new LeaseWindow(lease);
  }

  /**
   * Returns the parts that a claim adds to its commit. The first claim writes the owner record. Later ones must not: their
   * commit may take longer than the lease lasts.
   */
  async prepareClaim(): Promise<{ readonly puts: readonly Put[]; readonly wakes: readonly string[] }> {
    // Until the first claim has succeeded, each claim notifies the workers on this host of the process to watch.
    const wakes = this.#isAnnounced ? [] : [formatAnnouncement(this.owner)];
    if (this.#startedAt) {
      await this.renew();
      return { puts: [], wakes };
    }
    this.#startedAt = currentMoment(this.#context);
    addLocalOwner(this.owner, this.#runs);
    const value = encodeOwner(await this.#nextRecord());
    this.#value = value;
    // If several claims start at the same time, one of the others may have renewed the lease before this one commits.
    return { puts: [{ key: this.#key, value, ifAbsent: true }], wakes };
  }

  /** Starts renewing the lease for a branch that was claimed, until {@link release} is called as often as this. */
  hold(): void {
    this.#isAnnounced = true;
    // The lease started with the claim, in the same commit.
    if (this.#startedAt) this.#window.start(this.#startedAt);
    if (this.#held++ === 0) this.#startRenewing();
  }

  /**
   * Returns whether no other process can have claimed a branch of this process since a moment, nor can for a while. A
   * successful write does not prove that: a process that was suspended for longer than its lease may still write, until
   * another process claims the branch.
   */
  isUnbrokenSince(moment: Moment): boolean {
    return this.#window.isUnbrokenSince(moment, currentMoment(this.#context));
  }

  /** Renews the lease now, if half of it has passed. */
  async renew(): Promise<void> {
    if (!this.#window.isFresh(currentMoment(this.#context))) await this.#renewOnce();
  }

  /** Stops renewing the lease for a branch that has been released. */
  release(): void {
    if (--this.#held === 0) this.#stopRenewing();
  }

  /**
   * Ends the lease, so that other processes need not wait until it expires. Call it when no run is active. If the end of the lease
   * cannot be written, the failure is reported, and other processes have to wait; this process does not.
   */
  async close(): Promise<void> {
    this.#stopRenewing();
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.close();
    await this.#renewing?.catch(() => {});
    if (!this.#startedAt) return;
    try {
      await this.#end();
      removeLocalOwner(this.owner);
    } catch (error) {
      const message = "the lease could not be ended; other processes wait until it expires";
      this.#context.events.emit("backgroundFailure", { message, error });
    }
  }

  async #end(): Promise<void> {
    const { store } = this.#context;
    // Branches that could not be released, because the store was unreachable, are found by the owner record: it is then kept
    // and marks the lease as ended.
    const [left] = await store.list(ownedBy(this.owner), { limit: 1 });
    const ended = { key: this.#key, value: encodeOwner({ until: CLEAN_SHUTDOWN, process: thisProcess() }) };
    await store.commit(left ? { puts: [ended] } : { deletes: [this.#key] });
  }

  async #nextRecord(): Promise<OwnerRecord> {
    return { until: (await this.#context.store.now()) + this.#lease, process: thisProcess() };
  }

  /** Joins a renewal that is in progress. */
  #renewOnce(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    const began = currentMoment(this.#context);
    const record = await this.#nextRecord();
    this.#value = await renewLease(this.#context.store, this.#key, record, this.#value);
    this.#window.renew(began, currentMoment(this.#context));
  }

  #startRenewing(): void {
    if (!this.#thread && this.#address) this.#thread = this.#createThread(this.#address);
    this.#thread?.start();
    // The event loop renews the lease until the thread has started, and if there is none.
    if (!this.#isThreadReady) this.#startTimer();
  }

  #stopRenewing(): void {
    this.#stopTimer();
    this.#thread?.stop();
  }

  #startTimer(): void {
    if (this.#held === 0) return;
    this.#timer ??= setInterval(() => {
      this.#renewOnce().catch((error: unknown) => this.#report(error));
    }, this.#every).unref();
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #createThread(address: StoreAddress): HeartbeatThread | undefined {
    this.#isThreadReady = false;
    const options = { ...address, key: this.#key, lease: this.#lease, every: this.#every, process: thisProcess() };
    return HeartbeatThread.create(options, {
      onReady: () => {
        this.#isThreadReady = true;
        this.#stopTimer();
      },
      onRenewal: (began, durable) => {
        const now = currentMoment(this.#context);
        this.#window.renew(toLocalMoment(began, now), toLocalMoment(durable, now));
      },
      onFailure: (error) => this.#report(error),
      onExit: (error) => {
        this.#thread = undefined;
        this.#isThreadReady = false;
        this.#report(error);
        this.#startTimer();
      },
    });
  }

  #report(error: unknown): void {
    const message =
      "the lease could not be renewed; if this continues, other processes take over the runs of this process";
    this.#context.events.emit("backgroundFailure", { message, error });
  }
}
