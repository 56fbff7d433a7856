/** A cache of recently used threads, and of the newest checkpoints of their namespaces. */
import type { Savepoint } from "../../index.js";
import type { ThreadAddress } from "./address.js";
import type { StoredCheckpoint } from "./stored.js";
import { Thread } from "./thread.js";

/** The maximum number of cached threads, without busy ones. They are small. */
const MAX_THREADS = 5_000;
/** The maximum bytes of cached checkpoints. A cached one need not be read when the next one is put. */
const MAX_BYTES = 64 * 2 ** 20;

interface CachedCheckpoint {
  readonly id: string;
  readonly state: StoredCheckpoint;
  readonly bytes: number;
}

/** The cache of one saver. */
export class ThreadCache {
  readonly #sp: Savepoint;
  readonly #agent: string;
  readonly #threads = new Map<string, Thread>();
  readonly #states = new Map<string, CachedCheckpoint>();
  #bytes = 0;

  constructor(sp: Savepoint, agent: string) {
    this.#sp = sp;
    this.#agent = agent;
  }

  /** The thread with an id. It is created if it is not cached. */
  get(id: string): Thread {
    const thread = this.#threads.get(id) ?? new Thread(this.#sp, id, this.#agent);
    this.#threads.delete(id);
    this.#threads.set(id, thread);
    if (this.#threads.size > MAX_THREADS) this.#evictThreads();
    return thread;
  }

  /** A checkpoint in its stored form, if it is cached. The caller must not change it. */
  recall(address: ThreadAddress, id: string | undefined): StoredCheckpoint | undefined {
    const cached = this.#states.get(keyOf(address));
    return cached?.id === id ? cached?.state : undefined;
  }

  /** Caches the newest checkpoint of a namespace. */
  remember(address: ThreadAddress, checkpoint: CachedCheckpoint): void {
    const key = keyOf(address);
    this.#forget(key);
    this.#states.set(key, checkpoint);
    this.#bytes += checkpoint.bytes;
    for (const oldest of this.#states.keys()) {
      if ((this.#bytes <= MAX_BYTES && this.#states.size <= MAX_THREADS) || oldest === key) break;
      this.#forget(oldest);
    }
  }

  forget(address: ThreadAddress): void {
    this.#forget(keyOf(address));
  }

  /** Drops the checkpoints of a deleted thread: a new thread can use the same ids. */
  forgetThread(thread: string): void {
    for (const key of this.#states.keys()) if (key.startsWith(`${thread}\t`)) this.#forget(key);
  }

  #evictThreads(): void {
    for (const [oldest, { isBusy }] of this.#threads) {
      if (this.#threads.size <= MAX_THREADS) break;
      if (!isBusy) this.#threads.delete(oldest);
    }
  }

  #forget(key: string): void {
    this.#bytes -= this.#states.get(key)?.bytes ?? 0;
    this.#states.delete(key);
  }
}

function keyOf({ thread, namespace }: ThreadAddress): string {
  return `${thread}\t${namespace}`;
}
