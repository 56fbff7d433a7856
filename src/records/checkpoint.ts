/** What a checkpoint is, to callers. */
import type { Hole } from "../state/index.js";
import type { Duration } from "../util/index.js";
import type { ToolCall } from "../messages/index.js";

/** Why a checkpoint was taken. */
export type CheckpointKind = "automatic" | "manual" | "preOperation" | "recovery";

/** How the work stood when it was taken. */
export type CheckpointStatus = "queued" | "running" | "waiting" | "completed" | "failed" | "halted";

/**
 * The status of the work. `interrupted` is never stored: it is the status of a running session whose process is gone, and
 * which `recover` resumes. After a rewind or a fork into the middle of a run, a session is `halted` until it is run again.
 */
export type Status = CheckpointStatus | "interrupted";

/** What the work had used up to then. */
export interface Usage {
  readonly tokens?: number;
  readonly cost?: number;
}

/** A checkpoint without its state: what listings give. */
export interface CheckpointInfo {
  readonly id: string;
  readonly sessionId: string;
  /** The agent of the session, where one was named. */
  readonly agent: string | undefined;
  /** The branch it was saved on. */
  readonly branch: string;
  /** Its place in the session: rises with every save on any branch, and is never given twice. */
  readonly seq: number;
  /** The step of the work: 0 for the first, one more than the parent's unless it was given. */
  readonly step: number;
  readonly parentId: string | undefined;
  /** Milliseconds since 1970. For people; the order is that of `seq`. */
  readonly createdAt: number;
  readonly kind: CheckpointKind;
  readonly status: CheckpointStatus;
  /** Why the work failed, halted or waits. */
  readonly reason: string | undefined;
  readonly label: string | undefined;
  readonly description: string | undefined;
  /** What made the program save. */
  readonly trigger: string | undefined;
  readonly resumeHint: string | undefined;
  readonly tasksCompleted: number;
  readonly usage: Usage | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Pinned ones are never pruned. */
  readonly pinned: boolean;
  /** Up to when it is wanted, in milliseconds since 1970; `undefined` where it was saved without a `ttl`. */
  readonly expiresAt: number | undefined;
  /** How many migrations of its agent's the state has been through, where whoever saved it has declared any. */
  readonly version: number | undefined;
  /** Bytes of the whole state, as one JSON text. */
  readonly stateBytes: number;
  /** Bytes that saving it added to the store. */
  readonly storedBytes: number;
}

/** A damaged checkpoint that `latest` skipped. */
export interface SkippedCheckpoint {
  /** `undefined` where the id is damaged too. */
  readonly id: string | undefined;
  readonly seq: number;
  readonly reason: string;
}

/** A checkpoint with its state, which is plain, mutable and the caller's own. */
export interface Checkpoint<State = unknown> extends CheckpointInfo {
  readonly state: State;
  /** The tool calls in its `messages` that are not answered yet. */
  readonly pendingToolCalls: readonly ToolCall[];
  /** What is lost of the state; only ever non-empty when it was loaded with `partial`. */
  readonly holes: readonly Hole[];
  /** Newer checkpoints that `latest` had to step over because they are damaged, newest first. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/** What can be said about a checkpoint when it is saved. */
export interface SaveOptions {
  /**
   * The id. `save` with the same id and the same content again changes nothing; with other content it is `CONFLICT`.
   * @default a new UUIDv7
   */
  readonly id?: string;
  /**
   * The checkpoint that this one follows, by id. One that is not the head of its branch opens an unnamed branch. `null`:
   * it follows none and begins a line of its own; on a handle that names a branch that is not there, it makes that branch.
   * @default the head of the branch
   */
  readonly parent?: string | null;
  /**
   * Where the `parent` is not the head, let the branch go on from there: what came behind it stays in the history of all
   * branches, as after `rewind`, and no branch is opened.
   * @default false
   */
  readonly resetBranch?: boolean;
  /** @default one more than the parent's */
  readonly step?: number;
  /** @default "manual" */
  readonly kind?: CheckpointKind;
  /** @default "running" */
  readonly status?: CheckpointStatus;
  readonly reason?: string;
  readonly label?: string;
  readonly description?: string;
  readonly trigger?: string;
  readonly resumeHint?: string;
  /** @default 0 */
  readonly tasksCompleted?: number;
  readonly usage?: Usage;
  /** Any plain data; stored with the row, so keep it small. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** @default false */
  readonly pinned?: boolean;
  /**
   * How long it is wanted. After that it has expired, and goes with one of the next saves or the next `prune`; unless it
   * is a head, pinned, or something starts from it.
   * @default for ever, or as long as a retention policy says
   */
  readonly ttl?: Duration;
}

/** How a checkpoint is named: by id, `session#seq`, or what is known about it. */
export type CheckpointRef = string | { readonly step: number } | { readonly label: string } | { readonly seq: number };
