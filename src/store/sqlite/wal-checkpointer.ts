/**
 * Keeps the WAL short. SQLite would copy it into the database inside some commit, and the event loop would wait for the
 * disk; here a thread with a connection of its own does it, beside the commits.
 *
 * A passive checkpoint disturbs nobody, but while others write it never catches up, and the WAL cannot begin anew. Past a
 * bound the writers of this process are held for the moment that it takes to copy the rest. A reader that holds on to an
 * old state keeps even that from working; then it is tried again when there is that much more.
 */
import { Worker } from "node:worker_threads";
import type { Connection } from "./connection.js";

/** Pages in the WAL that are worth copying. */
const PAGES = 1000;
/** Pages in the WAL at which writers are held. */
const MAX_PAGES = 4000;
/** Transactions after which the WAL is looked at: looking costs a little. */
const EVERY = 8;

type Mode = "PASSIVE" | "RESTART" | "TRUNCATE";
/** The answer of the thread: nothing, or an error. */
type Answer = { readonly error?: unknown };

export class WalCheckpointer {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #driver: string;
  readonly #report: (message: string, error: unknown) => void;
  #worker: Worker | undefined;
  /** Gets what the thread says. */
  #answer: (answer: Answer) => void = () => {};
  #work: Promise<void> | undefined;
  #writes = 0;
  /** The pages at which it is worth trying again, where a reader has kept some from being copied. */
  #next = 0;
  #gaveUp = false;

  /** @param driver the module to open the database with */
  constructor(connection: Connection, path: string, driver: string, report: (message: string, error: unknown) => void) {
    this.#connection = connection;
    this.#path = path;
    this.#driver = driver;
    this.#report = report;
    connection.setAutoCheckpoint(0);
  }

  /** Notes that a transaction was written. It is committed: a failure here must not fail it. */
  noteWrite(): void {
    if (++this.#writes % EVERY !== 0 || this.#work || this.#gaveUp) return;
    this.#work = this.#look()
      .catch((error: unknown) => this.#giveUp(error))
      .finally(() => (this.#work = undefined));
  }

  /** Has the thread copy all of the WAL and empty it. Writers of this process wait for the last part of that. */
  async truncate(): Promise<void> {
    while (this.#work) await this.#work;
    if (!this.#gaveUp) {
      this.#work = this.#truncate()
        .catch((error: unknown) => this.#giveUp(error))
        .finally(() => (this.#work = undefined));
      await this.#work;
    }
    if (this.#gaveUp) this.#connection.truncateWal();
  }

  async #truncate(): Promise<void> {
    await this.#ask("PASSIVE");
    await this.#connection.exclusive(() => this.#ask("TRUNCATE"));
    this.#next = 0;
  }

  async close(): Promise<void> {
    // Whatever is written from now on is copied by whoever opens the file next.
    this.#gaveUp = true;
    await this.#work;
    await this.#end();
  }

  async #look(): Promise<void> {
    const { log, checkpointed } = this.#connection.walPages();
    this.#connection.requestWalSpace(log);
    // It has begun anew: what kept the last one from being copied is gone.
    if (log < this.#next - PAGES) this.#next = 0;
    if (log - checkpointed < PAGES || log < this.#next) return;
    await this.#ask("PASSIVE");
    // What was written meanwhile is not copied, and while there is such a rest the WAL does not begin anew.
    if (this.#connection.walPages().log >= MAX_PAGES) await this.#connection.exclusive(() => this.#ask("RESTART"));
    const left = this.#connection.walPages();
    this.#next = left.log - left.checkpointed < PAGES ? 0 : left.log + PAGES;
  }

  async #ask(mode: Mode): Promise<void> {
    const worker = (this.#worker ??= this.#start());
    const answer = await new Promise<Answer>((resolve) => {
      this.#answer = resolve;
      // Saves may wait for it: the process must not end before it has answered.
      worker.ref();
      worker.postMessage(mode);
    });
    worker.unref();
    if ("error" in answer) throw answer.error;
  }

  #start(): Worker {
    const workerData = { path: this.#path, driver: this.#driver };
    const worker = new Worker(new URL("./wal-worker.mjs", import.meta.url), { workerData, execArgv: [] });
    worker.unref();
    worker.on("message", (answer: Answer) => this.#answer(answer));
    worker.on("error", (error) => this.#answer({ error }));
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#answer({ error: new Error("The thread that keeps the WAL short has ended.") });
    });
    return worker;
  }

  /** From now on SQLite does it by itself: slower, but the WAL stays bounded. */
  async #giveUp(error: unknown): Promise<void> {
    if (this.#gaveUp) return;
    this.#gaveUp = true;
    this.#report("the WAL cannot be copied in the background, so some saves will wait for it", error);
    this.#connection.setAutoCheckpoint(PAGES);
    await this.#end();
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    await new Promise<void>((resolve) => {
      worker.once("exit", () => resolve());
      worker.ref();
      worker.postMessage(undefined);
    });
  }
}
