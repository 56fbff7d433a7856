/** The public types of checkpoints. */
import type { Hole } from "../state/index.js";
import type { Duration } from "../util/index.js";
import type { ToolCall } from "../messages/index.js";

/** Why a checkpoint was saved. */
export type CheckpointKind = "automatic" | "manual" | "preOperation" | "recovery";

/**
 * The status of the work when a checkpoint was saved. `open` is the status of a checkpoint that was saved by hand: nothing is
 * known about the work after it.
 */
export type CheckpointStatus = "open" | "queued" | "running" | "waiting" | "completed" | "failed" | "halted";

/** All values of {@link CheckpointStatus}. */
export const CHECKPOINT_STATUSES = ["open", "queued", "running", "waiting", "completed", "failed", "halted"] as const;

/**
 * The status of the work. `interrupted` is never stored: it is the status of a running session whose process has ended;
 * `recover` resumes it. After a rewind or a fork into the middle of a run, a session is `halted` until it is run again.
 */
export type Status = CheckpointStatus | "interrupted";

/** What the work has used so far. */
export interface Usage {
  readonly tokens?: number;
  readonly cost?: number;
}

/** A checkpoint without its state, as listings return it. */
export interface CheckpointInfo {
  readonly id: string;
  readonly sessionId: string;
  /** The agent of the session, if it has one. */
  readonly agent: string | undefined;
  /** The branch it was saved on. */
  readonly branch: string;
  /** Its position in the session: rises with every save on any branch, and is never reused. */
  readonly seq: number;
  /** The step of the work: 0 for the first checkpoint, one more than the parent's by default. */
  readonly step: number;
  readonly parentId: string | undefined;
  /** The `seq` of the parent. */
  readonly parentSeq: number | undefined;
  /** Milliseconds since 1970, for display. Checkpoints are ordered by `seq`. */
  readonly createdAt: number;
  readonly kind: CheckpointKind;
  readonly status: CheckpointStatus;
  /** Why the work failed, halted or waits. */
  readonly reason: string | undefined;
  readonly label: string | undefined;
  readonly description: string | undefined;
  /** What caused the save. */
  readonly trigger: string | undefined;
  readonly resumeHint: string | undefined;
  readonly tasksCompleted: number;
  readonly usage: Usage | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Pinned checkpoints are never pruned. */
  readonly pinned: boolean;
  /** When it expires, in milliseconds since 1970; `undefined` if it was saved without a `ttl`. */
  readonly expiresAt: number | undefined;
  /** The number of its agent's migrations applied to the state; `undefined` if its writer declared none. */
  readonly version: number | undefined;
  /** The size of the complete state in bytes, as JSON. */
  readonly stateBytes: number;
  /** The bytes that this save added to the store. */
  readonly storedBytes: number;
}

/** A damaged checkpoint that `latest` skipped. */
export interface SkippedCheckpoint {
  /** `undefined` if the id is damaged too. */
  readonly id: string | undefined;
  readonly seq: number;
  readonly reason: string;
}

/** A checkpoint with its state. The state is a private, mutable copy. */
export interface Checkpoint<State = unknown> extends CheckpointInfo {
  readonly state: State;
  /** The tool calls in the state's `messages` that have no result yet. */
  readonly pendingToolCalls: readonly ToolCall[];
  /** The missing parts of a damaged state; empty unless it was loaded with `partial`. */
  readonly holes: readonly Hole[];
  /** Newer checkpoints that `latest` skipped because they are damaged, newest first. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/** Options of a save. */
export interface SaveOptions {
  /**
   * The id of the checkpoint. Saving the same content under the same id again changes nothing; other content fails with
   * `CONFLICT`.
   * @default a new UUIDv7
   */
  readonly id?: string;
  /**
   * The id of the parent. If the parent is not the head of its branch, the save opens an unnamed branch. `null` saves a
   * checkpoint without a parent; on a handle for a branch that does not exist, this creates the branch.
   * @default the head of the branch
   */
  readonly parent?: string | null;
  /**
   * If the `parent` is not the head, continue the branch from the parent instead of opening a branch. The checkpoints after
   * the parent stay in the history of all branches, as after `rewind`.
   * @default false
   */
  readonly resetBranch?: boolean;
  /** @default one more than the parent's */
  readonly step?: number;
  /** @default "manual" */
  readonly kind?: CheckpointKind;
  /** @default "open" */
  readonly status?: CheckpointStatus;
  readonly reason?: string;
  readonly label?: string;
  readonly description?: string;
  readonly trigger?: string;
  readonly resumeHint?: string;
  /** @default 0 */
  readonly tasksCompleted?: number;
  readonly usage?: Usage;
  /** Any plain data. Every listing reads it, so keep it small. Keys that start with `savepoint:` are reserved. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** @default false */
  readonly pinned?: boolean;
  /**
   * The lifetime. After it the checkpoint has expired, and one of the next saves or the next `prune` removes it, unless it
   * is a head, is pinned, or a branch or a step starts from it.
   * @default no expiry, or that of the retention policy
   */
  readonly ttl?: Duration;
}

/** A reference to a checkpoint: its id or `session#seq`, its step, its label, or its seq. */
export type CheckpointRef = string | { readonly step: number } | { readonly label: string } | { readonly seq: number };
