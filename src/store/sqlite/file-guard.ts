/**
 * Detects that the files of an open database were removed or replaced.
 *
 * A file that is removed, renamed or replaced stays open: SQLite keeps writing to a file that cannot be opened again, and
 * reports no error. So writes compare the files at the path with those that were opened, by device and inode. An inode is
 * not reused while its file is open. A rewrite of the same file in place is not detected.
 *
 * The files are never opened here, because closing any descriptor of a file drops all POSIX locks of the process on it.
 */
import { type BigIntStats, statSync } from "node:fs";
import { SavepointError } from "../../errors.js";
import { isMissingFileError } from "../../util/index.js";
import type { StoreProblem } from "../contract/index.js";

/** How old the last check may be when a commit is acknowledged, in milliseconds. A check costs three `stat` calls. */
const INTERVAL = 100;

interface GuardedFile {
  readonly path: string;
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Watches the files of one database. */
export class FileGuard {
  readonly #files: readonly GuardedFile[];
  readonly #onDamage: (reason: string) => void;
  #checkedAt = performance.now();
  #problem: StoreProblem | undefined;

  /**
   * @param paths files that the database has open; a missing one is not guarded
   * @param onDamage called once, when one of them was removed or replaced
   */
  constructor(paths: readonly string[], onDamage: (reason: string) => void = () => {}) {
    this.#files = paths.flatMap((path) => {
      const stats = statIfExists(path);
      return stats ? [{ path, dev: stats.dev, ino: stats.ino }] : [];
    });
    this.#onDamage = onDamage;
  }

  /** Whether a file was removed or replaced. */
  get isBroken(): boolean {
    return this.#problem !== undefined;
  }

  /**
   * Throws `IO_FAILED` if a file was removed or replaced, and from then on always. Checks again only if the last check
   * is too old.
   */
  verify(url: string): void {
    const problem = this.#problem ?? (performance.now() - this.#checkedAt < INTERVAL ? undefined : this.findProblem());
    if (!problem) return;
    throw new SavepointError("IO_FAILED", `${url} can no longer be written: ${problem.place} ${problem.reason}`, {
      details: { path: problem.place },
    });
  }

  /** Checks the files now. Throws an error of the file system if they cannot be checked. */
  findProblem(): StoreProblem | undefined {
    if (this.#problem) return this.#problem;
    const now = performance.now();
    for (const { path, dev, ino } of this.#files) {
      const stats = statIfExists(path);
      if (stats?.dev === dev && stats.ino === ino) continue;
      const reason = describe(
        stats ? "replaced by another file" : "removed or renamed",
        Math.ceil(now - this.#checkedAt),
      );
      this.#problem = { place: path, reason };
      this.#onDamage(`${path} ${reason}`);
      return this.#problem;
    }
    this.#checkedAt = now;
    return undefined;
  }
}

function describe(what: string, unchecked: number): string {
  return (
    `was ${what} while the store was open. Saves of the last ${unchecked} ms may exist only in the removed file. ` +
    "This process can still read everything until it closes the store: make a backup or an export now, " +
    "put the file back or import the backup, and open the store again."
  );
}

/** The status of a file; `undefined` if it does not exist, also because a part of its path is a file. */
export function statIfExists(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch (error) {
    if (isMissingFileError(error)) return undefined;
    throw error;
  }
}
