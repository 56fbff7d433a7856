/** The lines of the list of commits. */
import type { Head } from "./lines.js";

/** How a file stood after a commit. */
export interface LogEntry {
  readonly file: string;
  readonly generation: number;
  readonly size: number;
  readonly commit: number;
  readonly holds: readonly Head[];
  /** It was not synced to the disk: after a power cut it may be gone. */
  readonly soft?: true;
  /** The file was removed: nothing in it was needed any more. */
  readonly removed?: true;
}

/** A line of the list: a commit, or that the last process has closed the store. */
export type LogLine = LogEntry | { readonly closed: number };
