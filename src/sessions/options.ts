/** The options of session handles. */
import type { SaveOptions } from "../records/index.js";

/** Options of `sp.session`. */
export interface SessionOptions {
  /** The agent of the session. It is not created. A session belongs to the first agent that saves in it. @default none */
  readonly agent?: string;
  /**
   * The branch that the handle reads and writes.
   * @default "main"
   */
  readonly branch?: string;
}

/** Options of `session.load`. */
export interface LoadOptions {
  /**
   * Return the intact parts of a damaged state, and list the missing ones in `holes`, instead of failing with `DAMAGED`.
   * @default false
   */
  readonly partial?: boolean;
}

/** Options of `session.fork`. */
export interface ForkOptions<State = unknown> extends Omit<SaveOptions, "parent" | "resetBranch"> {
  /** The name of the branch. @default a generated name that starts with "~" */
  readonly branch?: string;
  /** The state of the first checkpoint of the branch. Without it the branch starts at the forked checkpoint itself. */
  readonly state?: State;
  /**
   * Other tool results, by tool call id, for the step that led to the checkpoint. The branch starts at the start of that
   * step, and `sp.run(agent, { session, branch })` continues with these results.
   */
  readonly results?: Readonly<Record<string, unknown>>;
}
