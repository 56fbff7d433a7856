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
import type { Context } from "../model/context.js";
import { ownedBy, ownerKey } from "../model/keys.js";
import { thisProcess } from "../store/process-identity.js";
import { encodeOwner } from "../model/run-records.js";
import { MAX_TIMER } from "../store/duration.js";
import type { StoreOptions } from "../store/open.js";
import type { Put } from "../store/store.js";

/** What another thread can open the same store with. */
export interface Reopening {
  readonly url: string;
  readonly options: StoreOptions;
}

/** What a heartbeat is sent with, from whatever thread. */
export interface HeartbeatData extends Reopening {
  /** The module that opens stores. */
  readonly module: string;
  readonly key: string;
  readonly lease: number;
  readonly every: number;
  readonly process: ReturnType<typeof thisProcess>;
}

/** What the thread says: that it is there, or why it could not renew the lease just now. It goes on trying. */
export type HeartbeatMessage = "ready" | { readonly error: unknown };

export class Leases {
  /** Names this process, or this part of it, among those that run something. */
  readonly owner = randomBytes(9).toString("base64url");
  readonly #context: Context;
  readonly #lease: number;
  readonly #every: number;
  readonly #reopening: Reopening | undefined;
  #held = 0;
  #known = false;
  #timer: NodeJS.Timeout | undefined;
  #worker: Worker | undefined;
  #ready = false;
  #beat: Promise<unknown> = Promise.resolve();

  /** @param reopening how another thread can open the store, if it can */
  constructor(context: Context, lease: number, reopening: Reopening | undefined) {
    this.#context = context;
    this.#lease = lease;
    this.#every = Math.min(lease / 3, MAX_TIMER);
    this.#reopening = reopening;
  }

  /** The record that a claim puts along: the lease begins anew. */
  async renewal(): Promise<Put> {
    const until = (await this.#context.store.now()) + this.#lease;
    this.#known = true;
    return { key: ownerKey(this.owner), value: encodeOwner({ until, process: thisProcess() }) };
  }

  /** From now on something is run: the lease is renewed until as many {@link release} it. */
  hold(): void {
    if (this.#held++ === 0) this.#start();
  }

  release(): void {
    if (--this.#held === 0) this.#stop();
  }

  /** Nothing is run any more: others need not wait for the lease to end. */
  async close(): Promise<void> {
    this.#stop();
    await this.#endWorker();
    await this.#beat;
    if (!this.#known) return;
    const { store } = this.#context;
    const key = ownerKey(this.owner);
    // What could not be let go of, because the store was away, is found by this record: then it says that it is over.
    const [left] = await store.list(ownedBy(this.owner), { limit: 1 });
    const over = { key, value: encodeOwner({ until: 0, process: thisProcess() }) };
    await store.commit(left ? { puts: [over] } : { deletes: [key] });
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
      this.#beat = this.renewal()
        .then((put) => this.#context.store.commit({ puts: [put] }))
        .catch((error: unknown) => this.#report(error));
    }, this.#every).unref();
  }

  #startWorker(reopening: Reopening): Worker | undefined {
    const module = new URL("../store/open.js", import.meta.url);
    const program = new URL("./heartbeat.mjs", import.meta.url);
    if (!existsSync(fileURLToPath(module)) || !existsSync(fileURLToPath(program))) return undefined;
    const [lease, key] = [this.#lease, ownerKey(this.owner)];
    const workerData: HeartbeatData = {
      ...reopening,
      module: module.href,
      key,
      lease,
      every: this.#every,
      process: thisProcess(),
    };
    const worker = new Worker(program, { workerData, execArgv: [] });
    worker.unref();
    this.#ready = false;
    worker.on("message", (told: HeartbeatMessage) => {
      if (told !== "ready") return this.#report(told.error);
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
