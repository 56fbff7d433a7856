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
import { storeWrites, type TaskWrites } from "./writes.js";
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

/** The writes of a namespace that wait for the next put. There are many if a graph continues while its checkpoints are being put. */
interface HeldWrites {
  readonly byCheckpoint: Map<string, TaskWrites[]>;
  /** How often puts have taken some of them. */
  takes: number;
}

/** The maximum number of cached branches. Every run of a subgraph has its own namespace. */
const MAX_BRANCHES = 100;

/**
 * A namespace counts as quiet after this many turns of the event loop without a put. We assume that a graph that puts another
 * checkpoint does so sooner.
 */
const QUIET_TURNS = 3;

/**
 * One thread, as this process uses it. Puts run one after another, and so do annotations. A put and an annotation can overlap.
 *
 * LangGraph passes the writes of a task just before the checkpoint that contains their result, and waits for both. So writes are held
 * for a moment, to be committed together with that checkpoint. LangGraph also passes writes to a checkpoint that is still being put.
 */
export class Thread {
  readonly id: string;
  readonly #sp: Savepoint;
  readonly #agent: string;
  #branches = new Map<string, NamespaceBranch>();
  /** How many puts are in progress, by namespace. */
  readonly #puts = new Map<string, number>();
  /** Resolves when the last put has ended; `undefined` if none is in progress. */
  #lastPut: Promise<void> | undefined;
  /** Writes that wait for the next put, by namespace. */
  readonly #held = new Map<string, HeldWrites>();
  /** The namespaces whose writes are stored when they are quiet. */
  readonly #watched = new Set<string>();
  #lastAnnotation: Promise<unknown> = Promise.resolve();

  constructor(sp: Savepoint, id: string, agent: string) {
    this.#sp = sp;
    this.id = id;
    this.#agent = agent;
  }

  /** Whether a put is in progress, or writes wait for one. */
  get isBusy(): boolean {
    return this.#puts.size > 0 || this.#held.size > 0;
  }

  /** Runs the put of a checkpoint after all earlier puts. Starts it synchronously if none is in progress. */
  put<T>({ namespace }: ThreadAddress, work: () => Promise<T>): Promise<T> {
    this.#puts.set(namespace, (this.#puts.get(namespace) ?? 0) + 1);
    const result = this.#lastPut ? this.#lastPut.then(work) : work();
    const end = (): void => {
      const left = (this.#puts.get(namespace) ?? 1) - 1;
      if (left > 0) this.#puts.set(namespace, left);
      else this.#puts.delete(namespace);
      if (this.#lastPut === ended) this.#lastPut = undefined;
    };
    // The caller handles a failure; the next put only waits.
    const ended = result.then(end, end);
    this.#lastPut = ended;
    return result;
  }

  /** Stores writes with the next put, or as soon as no put is expected. Resolves when they are stored. */
  hold(writes: TaskWrites): Promise<void> {
    const { namespace } = writes.address;
    let held = this.#held.get(namespace);
    if (!held) this.#held.set(namespace, (held = { byCheckpoint: new Map(), takes: 0 }));
    const ofCheckpoint = held.byCheckpoint.get(writes.checkpoint);
    if (ofCheckpoint) ofCheckpoint.push(writes);
    else held.byCheckpoint.set(writes.checkpoint, [writes]);
    if (!this.#watched.has(namespace)) void this.#storeWhenQuiet(namespace);
    return writes.stored;
  }

  /** Removes and returns the held writes to a checkpoint. */
  takeWrites({ namespace }: ThreadAddress, checkpoint: string): TaskWrites[] {
    const held = this.#held.get(namespace);
    const taken = held?.byCheckpoint.get(checkpoint);
    if (!held || !taken) return [];
    held.takes++;
    held.byCheckpoint.delete(checkpoint);
    if (held.byCheckpoint.size === 0) this.#held.delete(namespace);
    return taken;
  }

  async #storeWhenQuiet(namespace: string): Promise<void> {
    this.#watched.add(namespace);
    let held = this.#held.get(namespace);
    for (let turns = 0; held && turns < QUIET_TURNS; held = this.#held.get(namespace)) {
      const { takes } = held;
      await nextTurn();
      const isQuiet = this.#held.get(namespace) === held && held.takes === takes && !this.#puts.has(namespace);
      turns = isQuiet ? turns + 1 : 0;
      if (!isQuiet) await this.#lastPut;
    }
    this.#watched.delete(namespace);
    this.#held.delete(namespace);
    if (held) await storeWrites(this, [...held.byCheckpoint.values()].flat());
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
