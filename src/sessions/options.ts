/** What callers can say about opening a session, loading a checkpoint and making a branch. */
import type { SaveOptions } from "../records/index.js";

/** How a session is opened. */
export interface SessionOptions {
  /** The agent whose work it is. Naming one creates none; a session belongs to the first agent that saves in it. */
  readonly agent?: string;
  /**
   * The branch to work on.
   * @default "main"
   */
  readonly branch?: string;
}

/** How a checkpoint is loaded. */
export interface LoadOptions {
  /**
   * Return what is left of a damaged state, with its holes named, instead of failing with `DAMAGED`.
   * @default false
   */
  readonly partial?: boolean;
}

/** How a branch is made. */
export interface ForkOptions<State = unknown> extends Omit<SaveOptions, "parent" | "move"> {
  /** @default a generated name that begins with "~" */
  readonly branch?: string;
  /** A state to start the branch with, saved as its first checkpoint. Without it the branch starts at the checkpoint itself. */
  readonly state?: State;
  /**
   * What if tools had answered something else? Their results by the ids of their calls, in the step that led to the
   * checkpoint. The branch starts where that step began, and `sp.run(agent, { session, branch })` goes on with them.
   */
  readonly results?: Readonly<Record<string, unknown>>;
}
