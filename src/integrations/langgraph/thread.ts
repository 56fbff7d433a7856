/**
 * A thread is a session. Each namespace has a branch, and the head of that branch is the newest checkpoint of the namespace.
 * Checkpoints that arrive late are on unnamed branches.
 *
 * A `Thread` caches those heads. A cached head may be outdated, so every write checks the head that it builds on.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError, type Savepoint, type Session } from "../../index.js";
import { branchOf, type ThreadAddress, storedId } from "./address.js";
import type { ThreadStatus } from "./status.js";
import {
  asIntegration,
  type ThreadCheckpoint,
  lastPut,
  type StoredCheckpoint,
  type ThreadState,
  toThreadCheckpoint,
  versionOf,
} from "./stored.js";

/** The newest checkpoint of a namespace. */
export interface NamespaceHead {
  readonly id: string;
  readonly seq: number;
  /** Whether the checkpoint is protected from pruning. */
  readonly pinned: boolean;
}

/** The branch of a namespace. */
export interface NamespaceBranch {
  readonly session: Session<ThreadState>;
  /** `"unknown"` until the head is read; `undefined` if there is no checkpoint. */
  head: NamespaceHead | "unknown" | undefined;
}

/** The maximum number of cached branches. Every run of a subgraph has its own namespace. */
const MAX_BRANCHES = 100;

/**
 * A thread counts as quiet after this many turns of the event loop without a put. We assume that a graph that puts another
 * checkpoint does so sooner.
 */
const QUIET_TURNS = 3;

/** One thread, as this process uses it. Puts run one after another, and so do annotations. A put and an annotation can overlap. */
export class Thread {
  readonly id: string;
  readonly #sp: Savepoint;
  readonly #agent: string;
  #branches = new Map<string, NamespaceBranch>();
  #puts = 0;
  #lastPut: Promise<unknown> = Promise.resolve();
  /** Callers that wait for a checkpoint, by its id in the session. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #quiet: Promise<void> | undefined;
  #lastAnnotation: Promise<unknown> = Promise.resolve();

  constructor(sp: Savepoint, id: string, agent: string) {
    this.#sp = sp;
    this.id = id;
    this.#agent = agent;
  }

  /** Whether a put is in progress. */
  get isBusy(): boolean {
    return this.#puts > 0;
  }

  /** Runs the put of a checkpoint after all earlier puts. */
  put<T>(
    { address, id }: { readonly address: ThreadAddress; readonly id: string },
    work: () => Promise<T>,
  ): Promise<T> {
    this.#puts++;
    const result = this.#lastPut.then(work).finally(() => {
      this.#puts--;
      const name = storedId(address, id);
      for (const resolve of this.#waiting.get(name) ?? []) resolve();
      this.#waiting.delete(name);
    });
    // The caller handles a failure; the next put only waits.
    this.#lastPut = result.catch(() => {});
    return result;
  }

  /**
   * Resolves when the put of this checkpoint has ended, even with an error, or when no put is in progress. A graph does
   * not wait for its puts, so the graph can write to a checkpoint that has not been put yet.
   */
  async waitForCheckpoint(address: ThreadAddress, id: string): Promise<void> {
    const name = storedId(address, id);
    const put = new Promise<void>((resolve) => {
      this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), resolve]);
    });
    this.#quiet ??= this.#waitUntilQuiet();
    await Promise.race([put, this.#quiet]);
  }

  async #waitUntilQuiet(): Promise<void> {
    for (let turn = 0; turn < QUIET_TURNS; turn++) {
      await nextTurn();
      if (this.#puts === 0) continue;
      await this.#lastPut;
      turn = -1;
    }
    this.#quiet = undefined;
    this.#waiting.clear();
  }

  /** Annotates a checkpoint, after all earlier annotations, because concurrent annotations would conflict. */
  annotate(
    address: ThreadAddress,
    id: string,
    name: string,
    change: (before: unknown) => unknown,
    status: ThreadStatus | undefined,
  ): Promise<void> {
    const result = this.#lastAnnotation.then(() =>
      this.open(address).annotate(storedId(address, id), name, asIntegration(change), status),
    );
    this.#lastAnnotation = result.catch(() => {});
    return result;
  }

  /**
   * Returns the cached branch through which the checkpoints of a namespace are written. Its handle is bound to the current session,
   * so writes after a deletion fail.
   */
  branch(address: ThreadAddress): NamespaceBranch {
    const known = this.#branches.get(address.namespace);
    if (known) return known;
    const branch: NamespaceBranch = { session: this.open(address), head: "unknown" };
    this.#branches.set(address.namespace, branch);
    for (const oldest of this.#branches.keys()) {
      if (this.#branches.size <= MAX_BRANCHES) break;
      if (oldest !== "") this.#branches.delete(oldest);
    }
    return branch;
  }

  /** Drops all handles, so that the next write goes to the thread that exists then, not to a deleted one. */
  rebind(): void {
    this.#branches = new Map();
  }

  /** A new handle on the branch of a namespace. */
  open(address: ThreadAddress): Session<ThreadState> {
    return this.#sp.session(this.id, { agent: this.#agent, branch: branchOf(address) });
  }

  /** A new handle that names no branch, so a save whose parent is not a head opens an unnamed branch. */
  openWithoutBranch(): Session<ThreadState> {
    return this.#sp.session(this.id, { agent: this.#agent });
  }

  /** Reads the newest checkpoint of a namespace. */
  async readHead(address: ThreadAddress): Promise<NamespaceHead | undefined> {
    const branch = this.branch(address);
    const info = await branch.session.head();
    const entry = info && toThreadCheckpoint(info);
    branch.head = entry && info && { id: entry.id, seq: entry.seq, pinned: info.pinned };
    return branch.head;
  }

  /** A checkpoint without its values; `undefined` if there is none. */
  async find(address: ThreadAddress, id: string): Promise<ThreadCheckpoint | undefined> {
    try {
      const [info] = await this.open(address)
        .history({ from: storedId(address, id), limit: 1 })
        .all();
      return info && toThreadCheckpoint(info);
    } catch (error) {
      if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
      throw error;
    }
  }

  /** Whether any checkpoint of the namespace stored this version of a channel. Reads the newest checkpoint first. */
  async isVersionStored(address: ThreadAddress, channel: string, version: string | number): Promise<boolean> {
    for await (const info of this.open(address).history({ allBranches: true })) {
      const entry = toThreadCheckpoint(info);
      if (entry?.address.namespace !== address.namespace || !entry.channels.includes(channel)) continue;
      const state = await this.load(address, entry.id);
      if (versionOf(state?.channel_versions, channel) === version) return true;
    }
    return false;
  }

  /** Loads a checkpoint in its stored form, as it was last put. */
  async load(address: ThreadAddress, id: string): Promise<StoredCheckpoint | undefined> {
    const session = this.open(address);
    const loaded = await session.load(storedId(address, id));
    if (!loaded) return undefined;
    const annotations = await session.annotations(loaded.seq);
    return lastPut(loaded, annotations.get(loaded.seq)).state;
  }
}
