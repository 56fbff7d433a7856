/** The options of a `SavepointSaver`. */
import type { Duration } from "../../index.js";

/** How a `SavepointSaver` stores threads. */
export interface SavepointSaverOptions {
  /**
   * The agent that the sessions of the threads belong to. Savers with different agents on one store do not see each other's
   * threads, and each agent can have its own retention policy: `sp.retention.set({ agent }, …)`.
   * @default "langgraph"
   */
  readonly agent?: string;
  /**
   * What happens to a checkpoint whose parent is no longer the newest of its namespace, because another process works on the
   * same thread. `"branch"` keeps both checkpoints, as LangGraph's own savers do. `"reject"` fails the second one with
   * `CONFLICT`; to branch off intentionally, pass `{ configurable: { thread_id, checkpoint_id, fork: true } }`.
   * @default "branch"
   */
  readonly onConcurrentWrite?: "branch" | "reject";
  /**
   * The lifetime of a thread after its last checkpoint. An expired thread is treated as missing. It is deleted when its id is
   * used again, by {@link SavepointSaver.deleteExpired}, or when another thread starts; that scans all threads, at most once
   * every tenth of this time.
   * @default no expiry
   */
  readonly ttl?: Duration;
  /**
   * The clock, in milliseconds since 1970.
   * @default Date.now
   */
  readonly now?: () => number;
}
