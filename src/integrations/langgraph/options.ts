/** How threads are kept. */
import type { Duration } from "../../index.js";

export interface SavepointSaverOptions {
  /**
   * The agent that the sessions of the threads belong to. Savers of different agents on one store know nothing of each
   * other's threads, and policies can be set for each: `sp.retention.set({ agent }, …)`.
   * @default "langgraph"
   */
  readonly agent?: string;
  /**
   * What to do with a checkpoint that follows one that is not the newest of its namespace any more, because somebody else
   * works on the same thread. `"branch"` keeps both, as LangGraph's own savers do. `"reject"` fails the second one with
   * `CONFLICT`; who wants to branch off passes `{ configurable: { thread_id, checkpoint_id, fork: true } }`.
   * @default "branch"
   */
  readonly onConcurrentWrite?: "branch" | "reject";
  /**
   * How long a thread is wanted after its last checkpoint. After that it is as if it were not there; it is deleted when its
   * id is used again, by {@link SavepointSaver.deleteExpired}, or when others begin: a look at all threads, at most every
   * tenth of this time.
   * @default for ever
   */
  readonly ttl?: Duration;
  /**
   * Gives the time, in milliseconds since 1970.
   * @default Date.now
   */
  readonly now?: () => number;
}
