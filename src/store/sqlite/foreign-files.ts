/**
 * Checks the files of a database before SQLite opens them. Another person may have made them: in a cloned repository or an
 * unpacked archive.
 *
 * A store is in WAL mode, which uses no rollback journal. SQLite nevertheless applies a journal that it finds beside the database:
 * it overwrites pages of the database with the contents of the journal, and some versions delete the file that the journal names as
 * its super-journal, wherever that file is.
 */
import { closeSync, fstatSync, lstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { isMissingFileError } from "../../util/index.js";

/** The last bytes of a journal that names a super-journal. */
const SUPER_JOURNAL_MAGIC = Buffer.from("d9d505f920a163d7", "hex");
/** The bytes of the database's header that are 2 in WAL mode. */
const VERSIONS = { at: 18, wal: Buffer.from([2, 2]) };
/**
 * How often a journal is checked before it is rejected: while a store is created and changed to WAL mode, one exists for a
 * moment.
 */
const CHECKS = 20;
const PAUSE = 50;

/**
 * Throws `DAMAGED` if a file beside the database is not a regular file, or is a journal that no store has.
 *
 * @param path the database, without symbolic links; it may not exist
 */
export async function rejectForeignFiles(path: string, url: string): Promise<void> {
  for (const file of [`${path}-wal`, `${path}-shm`, `${path}-journal`]) {
    const stats = lstatIfExists(file);
    if (stats && !stats.isFile()) {
      throw foreignFile(url, file, "is not a regular file", "Delete or move it, and open the store again.");
    }
  }
  for (let check = 1; ; check++) {
    const problem = findJournalProblem(path);
    if (problem === undefined) return;
    if (check === CHECKS) {
      const advice = "A store of Savepoint never has such a file. Check where it comes from, then delete or move it.";
      throw foreignFile(url, `${path}-journal`, problem, advice);
    }
    await sleep(PAUSE);
  }
}

/** Whether there is a rollback journal with contents. */
export function hasJournal(path: string): boolean {
  return (lstatIfExists(`${path}-journal`)?.size ?? 0) > 0;
}

function findJournalProblem(path: string): string | undefined {
  if (!hasJournal(path)) return undefined;
  try {
    if (readBytes(`${path}-journal`, -SUPER_JOURNAL_MAGIC.length).equals(SUPER_JOURNAL_MAGIC)) {
      return "is a rollback journal that names another file, which SQLite could delete";
    }
    return readVersions(path).equals(VERSIONS.wal)
      ? "is a rollback journal, but the database is in WAL mode. SQLite would overwrite parts of the database with the contents of the journal"
      : undefined;
  } catch (error) {
    // Removed meanwhile, by the process that creates the store.
    if (isMissingFileError(error)) return undefined;
    throw error;
  }
}

/** Reads 8 bytes of a file from a position, or from its end if the position is negative. */
function readBytes(path: string, position: number): Buffer {
  const descriptor = openSync(path, "r");
  try {
    return readAt(descriptor, position < 0 ? Math.max(0, fstatSync(descriptor).size + position) : position, 8);
  } finally {
    closeSync(descriptor);
  }
}

/** Descriptors of databases that were found beside a journal, by device and inode. */
const held = new Map<string, number>();

/**
 * Reads the version numbers of a database. Its descriptor stays open, one for each file: closing it would drop the locks that
 * other connections of this process have on the file.
 */
function readVersions(path: string): Buffer {
  const { dev, ino } = statSync(path, { bigint: true });
  const id = `${dev}:${ino}`;
  const descriptor = held.get(id) ?? openSync(path, "r");
  held.set(id, descriptor);
  return readAt(descriptor, VERSIONS.at, 2);
}

function readAt(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(descriptor, bytes, 0, length, position));
}

/** The status of a file; of the link itself if it is a symbolic link; `undefined` if it does not exist. */
function lstatIfExists(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function foreignFile(url: string, file: string, problem: string, advice: string): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `Cannot open ${url}: ${file} ${problem}. Nothing was changed. ${advice}`, {
    details: { path: file },
  });
}
