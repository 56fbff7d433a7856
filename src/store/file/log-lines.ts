/** The lines of the list of commits. */
import type { Fence } from "./fences.js";
import type { LineHead } from "./lines.js";

/** How a file stood after a commit. */
export interface LogEntry {
  readonly file: string;
  readonly generation: number;
  readonly size: number;
  readonly commit: number;
  /** The newest fence that its writer knew; 0 where it is missing. */
  readonly fence?: number;
  readonly holds: readonly LineHead[];
  /** These are the names of all that the file held then, and not only of what one commit wrote. */
  readonly all?: true;
  /** It was not synced to the disk: after a power cut it may be gone. */
  readonly soft?: true;
  /** The file was removed: nothing in it was needed any more. */
  readonly removed?: true;
}

/** The last process that had the store open has closed it. */
export interface CloseMark {
  readonly closed: number;
  readonly fence?: number;
}

/** A line of the list: a commit; the number of the last one; a fence; or that the store was closed. */
export type LogLine = LogEntry | { readonly last: number } | Fence | CloseMark;
