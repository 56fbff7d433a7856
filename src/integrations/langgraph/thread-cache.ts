/** The threads that this process has worked on lately, and the newest checkpoints it knows of them. */
import type { Savepoint } from "../../index.js";
import type { ThreadAddress } from "./address.js";
import type { StoredCheckpoint } from "./stored.js";
import { Thread } from "./thread.js";

/** Threads that nothing is put to are forgotten beyond this number. They are small. */
const MAX_THREADS = 5_000;
/** Bytes of checkpoints that are remembered, so that putting the next one need not read them. */
const MAX_BYTES = 64 * 2 ** 20;

interface Remembered {
  readonly id: string;
  readonly state: StoredCheckpoint;
  readonly bytes: number;
}

export class ThreadCache {
  readonly #sp: Savepoint;
  readonly #agent: string;
  readonly #threads = new Map<string, Thread>();
  readonly #states = new Map<string, Remembered>();
  #bytes = 0;

  constructor(sp: Savepoint, agent: string) {
    this.#sp = sp;
    this.#agent = agent;
  }

  get(id: string): Thread {
    const thread = this.#threads.get(id) ?? new Thread(this.#sp, id, this.#agent);
    this.#threads.delete(id);
    this.#threads.set(id, thread);
    for (const [oldest, { isBusy }] of this.#threads) {
      if (this.#threads.size <= MAX_THREADS) break;
      if (!isBusy) this.#threads.delete(oldest);
    }
    return thread;
  }

  /** The values of a checkpoint in their stored form, if they are remembered. They must not be changed. */
  recall(place: ThreadAddress, id: string | undefined): StoredCheckpoint | undefined {
    const known = this.#states.get(keyOf(place));
    return known?.id === id ? known?.state : undefined;
  }

  /** Remembers the newest checkpoint of a namespace. */
  remember(place: ThreadAddress, remembered: Remembered): void {
    const key = keyOf(place);
    this.#forget(key);
    this.#states.set(key, remembered);
    this.#bytes += remembered.bytes;
    for (const oldest of this.#states.keys()) {
      if ((this.#bytes <= MAX_BYTES && this.#states.size <= MAX_THREADS) || oldest === key) break;
      this.#forget(oldest);
    }
  }

  forget(place: ThreadAddress): void {
    this.#forget(keyOf(place));
  }

  /** Forgets the checkpoints of a thread that was deleted: those that come may have the same ids. */
  forgetThread(thread: string): void {
    for (const key of this.#states.keys()) if (key.startsWith(`${thread}\t`)) this.#forget(key);
  }

  #forget(key: string): void {
    this.#bytes -= this.#states.get(key)?.bytes ?? 0;
    this.#states.delete(key);
  }
}

function keyOf({ thread, namespace }: ThreadAddress): string {
  return `${thread}\t${namespace}`;
}
