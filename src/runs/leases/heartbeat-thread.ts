/** Starts and controls the thread that renews the lease of this process. The program of the thread is `heartbeat.mjs`. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { StoreOptions } from "../../store/index.js";
import type { thisProcess } from "../../util/index.js";
import type { Moment } from "./moment.js";

/** The URL and the options with which another thread can open the same store. */
export interface StoreAddress {
  readonly url: string;
  readonly options: StoreOptions;
}

/** The parameters of the thread. */
export interface HeartbeatOptions extends StoreAddress {
  /** The key of the owner record. */
  readonly key: string;
  /** The length of a lease, in milliseconds. */
  readonly lease: number;
  /** The interval of renewals, in milliseconds. */
  readonly every: number;
  readonly process: ReturnType<typeof thisProcess>;
}

/** The data that the thread is started with. */
export interface HeartbeatData extends HeartbeatOptions {
  /** The URL of the module that opens stores. */
  readonly module: string;
}

/**
 * A message of the thread: it has started; it has renewed the lease, with the moments at which that began and was durable;
 * or a renewal has failed, and it continues to try.
 */
export type HeartbeatMessage =
  | "ready"
  | { readonly began: Moment; readonly durable: Moment }
  | { readonly error: unknown };

export interface HeartbeatListener {
  /** The thread has started: it renews the lease from now on. */
  onReady(): void;
  /** A renewal. The moments are by the system clock. */
  onRenewal(began: Moment, durable: Moment): void;
  /** A renewal has failed. The thread continues to try. */
  onFailure(error: unknown): void;
  /** The thread has ended with an error, for example because it could not open the store. */
  onExit(error: unknown): void;
}

export class HeartbeatThread {
  readonly #worker: Worker;
  #isClosed = false;

  /** Starts the thread; `undefined` if its program does not exist, because the package was bundled into one file. */
  static create(options: HeartbeatOptions, listener: HeartbeatListener): HeartbeatThread | undefined {
    const module = new URL("../../store/open.js", import.meta.url);
    const program = new URL("./heartbeat.mjs", import.meta.url);
    if (!existsSync(fileURLToPath(module)) || !existsSync(fileURLToPath(program))) return undefined;
    const workerData: HeartbeatData = { ...options, module: module.href };
    return new HeartbeatThread(new Worker(program, { workerData, execArgv: [] }), listener);
  }

  private constructor(worker: Worker, listener: HeartbeatListener) {
    this.#worker = worker;
    worker.unref();
    worker.on("message", (message: HeartbeatMessage) => {
      if (message === "ready") listener.onReady();
      else if ("error" in message) listener.onFailure(message.error);
      else listener.onRenewal(message.began, message.durable);
    });
    worker.on("error", (error) => {
      if (!this.#isClosed) listener.onExit(error);
    });
  }

  /** Renews the lease regularly from now on. */
  start(): void {
    this.#worker.postMessage("start");
  }

  stop(): void {
    this.#worker.postMessage("stop");
  }

  /** Ends the thread. It is not terminated, because SQLite must not be torn down while it is being opened. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#worker.ref();
    await new Promise<void>((resolve) => {
      this.#worker.once("exit", () => resolve());
      this.#worker.postMessage("close");
    });
  }
}
