/**
 * A queue of commits that are applied in groups: all that wait when the writer is free share one sync to disk. Order is
 * kept. A failed check fails its own commit only; a failed sync fails the whole group.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import type { Commit, CommitResult } from "../contract/index.js";

/** What became of one commit of a group: its result, or what kept it out. */
export type CommitOutcome = CommitResult | SavepointError;

/** Writes a group. Throws when nothing of it is durable. */
export type ApplyGroup = (commits: readonly Commit[]) => Promise<readonly CommitOutcome[]>;

interface Waiting {
  readonly commit: Commit;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
}

/** Commits that may wait. More of them means that a caller does not wait for its saves. */
const MAX_WAITING = 10_000;
/** Commits of one group. The first of a larger one would wait long for the last. */
const MAX_GROUP = 256;
/** Commits that are answered in one turn of the event loop. */
const ANSWERS = 16;
/** How long one who saves alone may keep the event loop from its turn, in milliseconds. */
const MAX_WITHOUT_TURN = 2;

export class GroupCommit {
  readonly #apply: ApplyGroup;
  readonly #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #lastGroup = 2;
  #lastTurn = 0;

  constructor(apply: ApplyGroup) {
    this.#apply = apply;
  }

  commit(commit: Commit): Promise<CommitResult> {
    if (this.#waiting.length >= MAX_WAITING) {
      const advice = "Await your saves, or make fewer at once.";
      return Promise.reject(new SavepointError("BUSY", `${MAX_WAITING} commits are waiting to be written. ${advice}`));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ commit, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      // Where several save at once, all that is ready in this turn of the event loop joins the group. One that saves
      // alone need not wait for others, but for the event loop: it would wait for it for ever.
      if (this.#lastGroup > 1 || performance.now() - this.#lastTurn > MAX_WITHOUT_TURN) {
        await nextTurn();
        this.#lastTurn = performance.now();
      }
      const group = this.#waiting.splice(0, MAX_GROUP);
      this.#lastGroup = group.length;
      await this.#write(group);
    }
    this.#running = undefined;
  }

  async #write(group: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#apply(group.map(({ commit }) => commit));
      for (const [index, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[index];
        if (outcome && "firsts" in outcome) resolve(outcome);
        else reject(outcome ?? new SavepointError("STORE_FAILED", "The store gave no outcome for a commit."));
        // Whoever gets its answer goes on at once, most likely with the next save: all in one turn would make it a long one.
        if (index % ANSWERS === ANSWERS - 1) await nextTurn();
      }
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
