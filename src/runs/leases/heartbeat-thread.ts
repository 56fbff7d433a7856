/** Starts and controls the thread that renews the lease of this process. The program of the thread is `heartbeat-main.ts`. */
import type { Worker } from "node:worker_threads";
import { DRIVER_PACKAGES } from "../../store/index.js";
import { locatePackages, startThread } from "../../util/index.js";
import type { HeartbeatCommand, HeartbeatData, HeartbeatMessage, HeartbeatOptions } from "./heartbeat.js";
import type { Moment } from "./moment.js";

export interface HeartbeatListener {
  /** The thread has started: it renews the lease from now on. */
  onReady(): void;
  /** A renewal. The moments are by the system clock. */
  onRenewal(began: Moment, durable: Moment): void;
  /** A renewal has failed. The thread continues to try. */
  onFailure(error: unknown): void;
  /** The thread has ended although it was not closed, for example because it could not open the store. */
  onExit(error: unknown): void;
}

export class HeartbeatThread {
  readonly #worker: Worker;
  readonly #listener: HeartbeatListener;
  #hasEnded = false;

  /** Starts the thread. Throws if threads cannot be started here. @param program the script of the thread */
  constructor(program: string, options: HeartbeatOptions, listener: HeartbeatListener) {
    const data: HeartbeatData = { ...options, packages: locatePackages(DRIVER_PACKAGES) };
    const worker = startThread("savepoint heartbeat", program, data, (message: HeartbeatMessage) => {
      if (message === "ready") listener.onReady();
      else if ("error" in message) listener.onFailure(message.error);
      else listener.onRenewal(message.began, message.durable);
    });
    this.#worker = worker;
    this.#listener = listener;
    worker.on("error", (error) => this.#noteEnd(error));
    worker.on("exit", (code) => this.#noteEnd(new Error(`The thread has ended with code ${code}.`)));
  }

  /** Renews the lease regularly from now on. */
  start(): void {
    this.#send("start");
  }

  stop(): void {
    this.#send("stop");
  }

  /** Ends the thread. It is not terminated, because SQLite must not be torn down while it is being opened. */
  async close(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#worker.ref();
    await new Promise<void>((resolve) => {
      this.#worker.once("exit", () => resolve());
      this.#send("close");
    });
  }

  #send(command: HeartbeatCommand): void {
    this.#worker.postMessage(command);
  }

  #noteEnd(error: unknown): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#listener.onExit(error);
  }
}
