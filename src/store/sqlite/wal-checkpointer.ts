/**
 * Keeps the WAL short. SQLite would checkpoint the WAL (copy it into the database) inside some commit, and the event
 * loop would wait for the disk. Instead, a thread with its own connection runs checkpoints concurrently with commits.
 *
 * A passive checkpoint blocks no reader or writer, but it never catches up while others write, so the WAL cannot
 * restart from its beginning. Past a bound, the writers of this process are therefore held while the rest is copied. A
 * reader with an old snapshot prevents even that checkpoint; then the next attempt waits until the WAL has grown again.
 */
import type { Worker } from "node:worker_threads";
import { locatePackages, startThread } from "../../util/index.js";
import type { SqliteConnection } from "./connection.js";
import { isBusy } from "./errors.js";
import { readWalPages, rewriteDatabase, setAutoCheckpoint, truncateWal } from "./pages.js";
import { WAL_PROGRAM } from "./wal-program.js";

/** Pages in the WAL that are worth a checkpoint. */
const PAGES = 4000;
/** Pages in the WAL at which writers are held. */
const MAX_PAGES = 8000;
/** Transactions between two measurements of the WAL, which cost a little. */
const TRANSACTIONS_PER_CHECK = 8;

type Mode = "PASSIVE" | "RESTART" | "TRUNCATE" | "VACUUM";
/** The answer of the thread: empty, or an error. */
type Answer = { readonly error?: unknown };

export class WalCheckpointer {
  readonly #connection: SqliteConnection;
  readonly #path: string;
  readonly #driver: string;
  readonly #report: (message: string, error: unknown) => void;
  #worker: Worker | undefined;
  /** Receives the next answer of the thread. */
  #onAnswer: (answer: Answer) => void = () => {};
  #work: Promise<void> | undefined;
  #writes = 0;
  /** The pages at which to try again, if a reader has prevented a checkpoint. */
  #retryAt = 0;
  /** Whether the thread is no longer used, because it has failed or the store is closing. */
  #isStopped = false;

  /** @param driver the module that opens the database */
  constructor(
    connection: SqliteConnection,
    path: string,
    driver: string,
    report: (message: string, error: unknown) => void,
  ) {
    this.#connection = connection;
    this.#path = path;
    this.#driver = driver;
    this.#report = report;
    setAutoCheckpoint(connection, 0);
  }

  /** Counts a committed transaction, and starts a checkpoint if the WAL is long. Does not throw. */
  noteWrite(): void {
    if (++this.#writes % TRANSACTIONS_PER_CHECK !== 0 || this.#work || this.#isStopped) return;
    void this.#start(this.#checkpointIfLong());
  }

  /** Checkpoints and empties the WAL. Writers of this process wait for the last part of it. */
  async truncate(): Promise<void> {
    while (this.#work) await this.#work;
    if (!this.#isStopped) await this.#start(this.#truncate());
    if (this.#isStopped) truncateWal(this.#connection);
  }

  /**
   * Rewrites the database without free space, so that it contains no deleted data. Other processes can read meanwhile. Returns
   * `false` if another process writes.
   */
  async rewrite(): Promise<boolean> {
    while (this.#work) await this.#work;
    if (this.#isStopped) return rewriteDatabase(this.#connection);
    let done = true;
    await this.#start(
      this.#connection.exclusive(async () => {
        try {
          await this.#checkpoint("VACUUM");
        } catch (error) {
          if (!isBusy(error)) throw error;
          done = false;
        }
      }),
    );
    return this.#isStopped ? rewriteDatabase(this.#connection) : done;
  }

  /** Ends the thread. The next process that opens the file checkpoints what is written from now on. */
  async close(): Promise<void> {
    this.#isStopped = true;
    await this.#work;
    await this.#endThread();
  }

  #start(work: Promise<void>): Promise<void> {
    return (this.#work = work.catch((error: unknown) => this.#fallBack(error)).finally(() => (this.#work = undefined)));
  }

  async #truncate(): Promise<void> {
    await this.#checkpoint("PASSIVE");
    await this.#connection.exclusive(() => this.#checkpoint("TRUNCATE"));
    this.#retryAt = 0;
  }

  async #checkpointIfLong(): Promise<void> {
    const { log, checkpointed } = readWalPages(this.#connection);
    this.#connection.requestWalSpace(log);
    // The WAL has restarted, so the reader that prevented the last checkpoint is gone.
    if (log < this.#retryAt - PAGES) this.#retryAt = 0;
    if (log - checkpointed < PAGES || log < this.#retryAt) return;
    await this.#checkpoint("PASSIVE");
    // Pages that were written meanwhile are not copied, and the WAL does not restart while there are any.
    if (readWalPages(this.#connection).log >= MAX_PAGES) {
      await this.#connection.exclusive(() => this.#checkpoint("RESTART"));
    }
    const left = readWalPages(this.#connection);
    this.#retryAt = left.log - left.checkpointed < PAGES ? 0 : left.log + PAGES;
  }

  /** Makes the thread run a checkpoint. */
  async #checkpoint(mode: Mode): Promise<void> {
    const worker = (this.#worker ??= this.#startThread());
    const answer = await new Promise<Answer>((resolve) => {
      this.#onAnswer = resolve;
      // The process must not end before the answer, because saves may wait for the checkpoint.
      worker.ref();
      worker.postMessage(mode);
    });
    worker.unref();
    if ("error" in answer) throw answer.error;
  }

  #startThread(): Worker {
    const driver = locatePackages([this.#driver])[this.#driver] ?? this.#driver;
    const data = { path: this.#path, driver };
    const worker = startThread("savepoint WAL", WAL_PROGRAM, data, (answer: Answer) => this.#onAnswer(answer));
    worker.on("error", (error) => this.#onAnswer({ error }));
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#onAnswer({ error: new Error("The thread that checkpoints the WAL has ended.") });
    });
    return worker;
  }

  /** Lets SQLite checkpoint automatically from now on: slower, but the WAL stays bounded. */
  async #fallBack(error: unknown): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#report("the WAL cannot be checkpointed in the background, so some saves will wait for it", error);
    setAutoCheckpoint(this.#connection, PAGES);
    await this.#endThread();
  }

  async #endThread(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    await new Promise<void>((resolve) => {
      worker.once("exit", () => resolve());
      worker.ref();
      worker.postMessage("CLOSE");
    });
  }
}
