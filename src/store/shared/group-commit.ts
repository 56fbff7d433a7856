/**
 * A queue that applies commits in groups: all commits that wait when the writer becomes free share one sync to disk.
 * Commits are applied in order. A failed check fails only its own commit; a failed sync fails the whole group.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import type { Commit, CommitResult } from "../contract/index.js";

/** The outcome of one commit of a group: its result or its failure. */
export type CommitOutcome = CommitResult | SavepointError;

/** Writes a group. Throws if nothing of it is durable. */
export type ApplyGroup = (commits: readonly Commit[]) => Promise<readonly CommitOutcome[]>;

/**
 * Writes one commit synchronously, and makes it durable. Returns `undefined`, and writes nothing, if that is not possible now.
 * Throws a SavepointError if the commit fails.
 */
export type ApplyNow = (commit: Commit) => CommitResult | undefined;

interface QueuedCommit {
  readonly commit: Commit;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
}

/** The most commits in the queue. More of them mean that a caller does not await its saves. */
const MAX_QUEUED = 10_000;
/** The most commits in a group. In a larger one, the first commit would wait long for the last. */
const MAX_GROUP = 256;
/** Commits that are resolved in one turn of the event loop. */
const RESOLVED_PER_TURN = 16;
/** How long a lone caller may block the event loop with consecutive commits, in milliseconds. */
const MAX_WITHOUT_TURN = 2;

export class GroupCommit {
  readonly #apply: ApplyGroup;
  readonly #applyNow: ApplyNow | undefined;
  readonly #queue: QueuedCommit[] = [];
  #running: Promise<void> | undefined;
  #isWriting = false;
  #lastGroup = 2;
  #lastTurn = 0;
  /** Whether the caller of the last synchronous commit has not continued yet, so that a further commit has another caller. */
  #isSettling = false;

  /** @param applyNow for a lone caller; a store without it writes every commit through the queue */
  constructor(apply: ApplyGroup, applyNow?: ApplyNow) {
    this.#apply = apply;
    this.#applyNow = applyNow;
  }

  /** Writes a commit: synchronously for a lone caller, otherwise through the queue. Rejects with `BUSY` if the queue is full. */
  commit(commit: Commit): Promise<CommitResult> {
    if (this.#applyNow && this.#isAlone) {
      try {
        const result = this.#applyNow(commit);
        if (result) return this.#settle(result);
      } catch (error) {
        return Promise.reject(error as SavepointError);
      }
    }
    // There are several callers: their other commits in this turn join the group.
    if (this.#isSettling) this.#lastGroup = 2;
    if (this.#queue.length >= MAX_QUEUED) {
      const advice = "Await your saves, or make fewer of them concurrently.";
      return Promise.reject(new SavepointError("BUSY", `${MAX_QUEUED} commits are waiting to be written. ${advice}`));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ commit, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Whether one caller commits, one commit after another, and the event loop has had a turn recently. */
  get #isAlone(): boolean {
    if (this.#isWriting || this.#queue.length > 0 || this.#isSettling || this.#lastGroup > 1) return false;
    return performance.now() - this.#lastTurn <= MAX_WITHOUT_TURN;
  }

  #settle(result: CommitResult): Promise<CommitResult> {
    this.#isSettling = true;
    const settled = Promise.resolve(result);
    // Runs before the caller continues, because the caller waits for the same promise later.
    void settled.then(() => (this.#isSettling = false));
    return settled;
  }

  /** Resolves when the queue is empty and the last group is written. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      // With several concurrent callers, every commit that is ready in this turn of the event loop joins the group. A lone
      // caller need not wait for others, but the event loop must get its turns.
      if (this.#lastGroup > 1 || performance.now() - this.#lastTurn > MAX_WITHOUT_TURN) {
        await nextTurn();
        this.#lastTurn = performance.now();
      }
      const group = this.#queue.splice(0, MAX_GROUP);
      this.#lastGroup = group.length;
      await this.#write(group);
    }
    this.#running = undefined;
  }

  async #write(group: readonly QueuedCommit[]): Promise<void> {
    this.#isWriting = true;
    try {
      const outcomes = await this.#apply(group.map(({ commit }) => commit));
      this.#isWriting = false;
      for (const [index, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[index];
        if (outcome && "firsts" in outcome) resolve(outcome);
        else reject(outcome ?? new SavepointError("STORE_FAILED", "The store returned no outcome for a commit."));
        // A resolved caller continues immediately, usually with its next save. Resolving all of them in one turn would make
        // it too long.
        if (index % RESOLVED_PER_TURN === RESOLVED_PER_TURN - 1) await nextTurn();
      }
    } catch (error) {
      this.#isWriting = false;
      for (const { reject } of group) reject(error);
    }
  }
}
