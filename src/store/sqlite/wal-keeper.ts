/**
 * Keeps the WAL short. SQLite would do it inside every thousandth page's commit, waiting for the disk in the event loop;
 * here a thread does it.
 *
 * PASSIVE moves what it can without getting in anybody's way. Under steady writing it never catches up, and the WAL would
 * grow without end, so past a bound RESTART takes the write lock for a moment and lets the WAL begin anew.
 */
import { Worker } from "node:worker_threads";

/** Pages in the WAL that are worth a checkpoint, and that are too many. */
const WORTH = 1000;
const TOO_MANY = 4000;
/** What a small commit writes: a page for the records, the index of ids, the items and their index each. */
const PAGES_OF_COMMIT = 5;

interface Answer {
  readonly log?: number;
  readonly checkpointed?: number;
  readonly failed?: string;
}

export class WalKeeper {
  readonly #path: string;
  readonly #driver: string;
  #worker: Worker | undefined;
  #waiting = false;
  #pages = 0;

  /** @param driver what the thread imports to open the file */
  constructor(path: string, driver: string) {
    this.#path = path;
    this.#driver = driver;
  }

  /** Notes that a transaction with this many commits and bytes was written. */
  note(commits: number, bytes: number): void {
    this.#pages += commits * PAGES_OF_COMMIT + Math.ceil(bytes / 4096);
    if (this.#pages >= WORTH && !this.#waiting) this.#ask("PASSIVE");
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    worker.ref();
    worker.postMessage("close");
    await exited;
  }

  #ask(mode: "PASSIVE" | "RESTART"): void {
    this.#waiting = true;
    this.#pages = 0;
    this.#worker ??= this.#start();
    this.#worker.postMessage(mode);
  }

  #start(): Worker {
    const worker = new Worker(new URL("./checkpoint-worker.mjs", import.meta.url), {
      workerData: { path: this.#path, driver: this.#driver },
    });
    worker.unref();
    worker.on("message", (answer: Answer) => {
      this.#waiting = false;
      if ((answer.log ?? 0) > TOO_MANY) this.#ask("RESTART");
    });
    // Without the thread the WAL grows, and the next commit that finds it long asks a new one.
    worker.on("error", () => {
      this.#waiting = false;
      this.#worker = undefined;
    });
    return worker;
  }
}
