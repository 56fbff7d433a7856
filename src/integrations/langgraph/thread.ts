/**
 * A thread as this process last knew it: a session, with a branch for each namespace whose head is the newest checkpoint of
 * that namespace. It is only a memory: every write checks that what it builds on is still there.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError, type Savepoint, type Session } from "../../index.js";
import { branchOf, type ThreadAddress, storedId } from "./address.js";
import {
  type ThreadCheckpoint,
  joinCheckpoint,
  replacementIn,
  type StoredCheckpoint,
  type ThreadState,
  toThreadCheckpoint,
  versionOf,
} from "./stored.js";

/** The newest checkpoint of a namespace. */
export interface NamespaceHead {
  readonly id: string;
  readonly seq: number;
  /** Is it one that nothing prunes? */
  readonly pinned: boolean;
}

/** A namespace of a thread. */
export interface NamespaceBranch {
  readonly session: Session<ThreadState>;
  /** `"unknown"` until somebody has looked; `undefined` where there is no checkpoint. */
  head: NamespaceHead | "unknown" | undefined;
}

/** A subgraph has a namespace for each time it runs; those that ran long ago are looked up anew, should they go on. */
const MAX_BRANCHES = 100;

/** Turns of the event loop in which the next checkpoint of a run may be put, once the one before it is. */
const TURNS = 3;

export class Thread {
  readonly id: string;
  readonly #sp: Savepoint;
  readonly #agent: string;
  #branches = new Map<string, NamespaceBranch>();
  #puts = 0;
  #turn: Promise<unknown> = Promise.resolve();
  /** Those who wait for a checkpoint, by its id in the session. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #quiet: Promise<void> | undefined;
  #attaching: Promise<unknown> = Promise.resolve();

  constructor(sp: Savepoint, id: string, agent: string) {
    this.#sp = sp;
    this.id = id;
    this.#agent = agent;
  }

  /** Is a checkpoint being put? */
  get isBusy(): boolean {
    return this.#puts > 0;
  }

  /** Puts a checkpoint when those before it are done. */
  put<T>({ place, id }: { readonly place: ThreadAddress; readonly id: string }, work: () => Promise<T>): Promise<T> {
    this.#puts++;
    const mine = this.#turn.then(work).finally(() => {
      this.#puts--;
      const name = storedId(place, id);
      for (const resolve of this.#waiting.get(name) ?? []) resolve();
      this.#waiting.delete(name);
    });
    // Whoever waits for it is told; here it only matters that it is over.
    this.#turn = mine.then(
      () => undefined,
      () => undefined,
    );
    return mine;
  }

  /**
   * Resolves when a checkpoint has been put, or nothing is being put any more. Runs go on while their checkpoints are still
   * waiting for each other, and hand over what is written to checkpoints that have not been put yet.
   */
  async waitForCheckpoint(place: ThreadAddress, id: string): Promise<void> {
    const name = storedId(place, id);
    const put = new Promise<void>((resolve) => {
      this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), resolve]);
    });
    this.#quiet ??= this.#untilQuiet();
    await Promise.race([put, this.#quiet]);
  }

  async #untilQuiet(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) {
      await nextTurn();
      if (this.#puts === 0) continue;
      await this.#turn;
      turn = -1;
    }
    this.#quiet = undefined;
    this.#waiting.clear();
  }

  /** Attaches a value to a checkpoint when those before it are: they would be in each other's way. */
  annotate(place: ThreadAddress, id: string, name: string, change: (before: unknown) => unknown): Promise<void> {
    const mine = this.#attaching.then(() => this.open(place).annotate(storedId(place, id), name, change));
    this.#attaching = mine.then(
      () => undefined,
      () => undefined,
    );
    return mine;
  }

  /** What to write a namespace with. It is bound to the thread as it was first met: one that was deleted is refused. */
  branch(place: ThreadAddress): NamespaceBranch {
    const known = this.#branches.get(place.namespace);
    if (known) return known;
    const branch: NamespaceBranch = { session: this.open(place), head: "unknown" };
    this.#branches.set(place.namespace, branch);
    for (const oldest of this.#branches.keys()) {
      if (this.#branches.size <= MAX_BRANCHES) break;
      if (oldest !== "") this.#branches.delete(oldest);
    }
    return branch;
  }

  /** Lets go of the thread that was deleted: what is written next is written to the one that there is now. */
  rebind(): void {
    this.#branches = new Map();
  }

  /** A handle of its own, which takes the thread as it is now. */
  open(place: ThreadAddress): Session<ThreadState> {
    return this.#sp.session(this.id, { agent: this.#agent, branch: branchOf(place) });
  }

  /** The same, for what is to stand beside the newest checkpoint of its namespace. */
  openWithoutBranch(): Session<ThreadState> {
    return this.#sp.session(this.id, { agent: this.#agent });
  }

  /** Looks what the newest checkpoint of a namespace is. */
  async readHead(place: ThreadAddress): Promise<NamespaceHead | undefined> {
    const branch = this.branch(place);
    const info = await branch.session.head();
    const found = info && toThreadCheckpoint(info);
    branch.head = found && info && { id: found.id, seq: found.seq, pinned: info.pinned };
    return branch.head;
  }

  /** A checkpoint without its values; `undefined` if there is none. */
  async find(place: ThreadAddress, id: string): Promise<ThreadCheckpoint | undefined> {
    try {
      const [info] = await this.open(place)
        .history({ from: storedId(place, id), limit: 1 })
        .all();
      return info && toThreadCheckpoint(info);
    } catch (error) {
      if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
      throw error;
    }
  }

  /** Was this version of a channel stored with any checkpoint of the namespace? Looks at the newest first. */
  async isVersionStored(place: ThreadAddress, channel: string, version: string | number): Promise<boolean> {
    for await (const info of this.open(place).history({ allBranches: true })) {
      const found = toThreadCheckpoint(info);
      if (found?.place.namespace !== place.namespace || !found.channels.includes(channel)) continue;
      const state = await this.load(place, found.id);
      if (versionOf(state?.channel_versions, channel) === version) return true;
    }
    return false;
  }

  /** A checkpoint with its values in their stored form, as it was last put. */
  async load(place: ThreadAddress, id: string): Promise<StoredCheckpoint | undefined> {
    const session = this.open(place);
    const loaded = await session.load(storedId(place, id));
    if (!loaded) return undefined;
    const attached = await session.annotations(loaded.seq);
    return replacementIn(attached.get(loaded.seq))?.state ?? joinCheckpoint(loaded);
  }
}
