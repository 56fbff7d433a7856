/** Converts errors of SQLite to errors of Savepoint. */
import { statfsSync } from "node:fs";
import { constants } from "node:os";
import { dirname } from "node:path";
import { SavepointError, type SavepointErrorCode } from "../../errors.js";

const BUSY = 5;
const LOCKED = 6;
const NO_MEMORY = 7;
const READ_ONLY = 8;
const IO = 10;
const CORRUPT = 11;
const FULL = 13;
const CANNOT_OPEN = 14;
const NOT_A_DATABASE = 26;

/** SQLite's primary result code, from any driver; `undefined` for any other error. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  // better-sqlite3 has names; @photostructure/sqlite loses the code in `all`, so that only the message identifies the error.
  return codeOf(CODES_BY_NAME, typeof code === "string" ? code : "") ?? codeOf(CODES_BY_TEXT, error.message);
}

const CODES_BY_NAME: Readonly<Record<string, number>> = {
  SQLITE_BUSY: BUSY,
  SQLITE_LOCKED: LOCKED,
  SQLITE_NOMEM: NO_MEMORY,
  SQLITE_READONLY: READ_ONLY,
  SQLITE_IOERR: IO,
  SQLITE_CORRUPT: CORRUPT,
  SQLITE_FULL: FULL,
  SQLITE_CANTOPEN: CANNOT_OPEN,
  SQLITE_NOTADB: NOT_A_DATABASE,
};

const CODES_BY_TEXT: Readonly<Record<string, number>> = {
  "database is locked": BUSY,
  "out of memory": NO_MEMORY,
  "attempt to write a readonly database": READ_ONLY,
  "disk I/O error": IO,
  "database disk image is malformed": CORRUPT,
  "fts5: corrupt": CORRUPT,
  "database or disk is full": FULL,
  "unable to open database file": CANNOT_OPEN,
  "file is not a database": NOT_A_DATABASE,
  // No store writes such a number, so it is damage.
  "Value is too large to be represented as a JavaScript number": CORRUPT,
};

function codeOf(codes: Readonly<Record<string, number>>, text: string): number | undefined {
  return Object.entries(codes).find(([beginning]) => text.startsWith(beginning))?.[1];
}

/** Whether the error means that another connection holds a lock. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === BUSY || code === LOCKED;
}

/** Whether the error means that the file is not a SQLite database. */
export function isNotADatabase(error: unknown): boolean {
  return resultCode(error) === NOT_A_DATABASE;
}

/** Whether the database is damaged, or appears damaged because the disk failed to read it. */
export function isCorrupt(error: unknown): boolean {
  const code = resultCode(error);
  return code === CORRUPT || code === NOT_A_DATABASE;
}

/** Whether it is unknown after this error what reached the disk. If so, the connection must not write again. */
export function isPoisoning(error: unknown): boolean {
  const code = resultCode(error);
  return code === IO || isCorrupt(error);
}

/** A disk with less free space counts as full, because SQLite allocates 32 kB at a time for the index of its WAL. */
const MIN_FREE_BYTES = 65_536;

/** Whether an I/O error means a full disk. SQLite reports an I/O error if the index of its WAL cannot grow. */
function isDiskFull(error: unknown, path: string | undefined): boolean {
  if (resultCode(error) !== IO) return false;
  const { systemErrno } = error as { systemErrno?: number };
  if (systemErrno === constants.errno.ENOSPC || systemErrno === constants.errno.EDQUOT) return true;
  if (path === undefined) return false;
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < MIN_FREE_BYTES;
  } catch {
    // The free space cannot be read either, so the error stays an I/O error.
    return false;
  }
}

/** Whether a report of `PRAGMA quick_check` is about a page that the disk failed to read. */
export function isReadError(report: string): boolean {
  const codes = [...report.matchAll(/\berror code=(\d+)/g)].map(([, code]) => Number(code) & 0xff);
  return codes.some((code) => code === IO || code === NO_MEMORY || code === CANNOT_OPEN);
}

/** Whether this is an error of the file system. Such errors name the system call. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}

/** The code and the advice for each result code of SQLite. */
const FAILURES: readonly (readonly [results: readonly number[], code: SavepointErrorCode, advice: string])[] = [
  [[BUSY, LOCKED], "BUSY", "Another process holds the store's lock; try again."],
  [
    [CORRUPT, NOT_A_DATABASE],
    "DAMAGED",
    "A disk that fails to read causes the same error: check the system's log. If the disk is fine, restore the file from a backup.",
  ],
  [[FULL], "IO_FAILED", "Free some space; no saved data is lost."],
  [[READ_ONLY], "IO_FAILED", "Make the file and its folder writable."],
  [
    [CANNOT_OPEN],
    "IO_FAILED",
    "Check that the folder exists and is writable, and how many files the process has open.",
  ],
  [[NO_MEMORY], "IO_FAILED", "Try again when more memory is available."],
  [[IO], "IO_FAILED", "Check the disk, then open the store again."],
];

/** The URL of a database, and its file if it has one. */
export interface DatabaseLocation {
  readonly url: string;
  readonly path?: string | undefined;
}

/** Converts an error that was thrown while doing `what`; a SavepointError stays as it is. */
export function sqliteFailure(error: unknown, { url, path }: DatabaseLocation, what: string): SavepointError {
  if (error instanceof SavepointError) return error;
  const reason = reasonOf(error);
  const failure = (code: SavepointErrorCode, advice: string): SavepointError =>
    new SavepointError(code, `${what} ${url} failed: ${reason}. ${advice}`, { cause: error });
  if (isDiskFull(error, path)) {
    return failure("IO_FAILED", "The disk is full. Free some space; no saved data is lost.");
  }
  const result = resultCode(error);
  const [, code, advice] = FAILURES.find(([results]) => results.some((each) => each === result)) ?? [];
  if (code && advice) return failure(code, advice);
  if (isSystemError(error)) return failure("IO_FAILED", "Check the path and its permissions.");
  return failure("STORE_FAILED", "See the cause for details.");
}

/** The error for a disk that fails to read. The data itself may be intact. */
export function diskReadFailure(url: string, what: string, cause: unknown): SavepointError {
  return new SavepointError(
    "IO_FAILED",
    `${what} ${url} failed: the disk cannot be read. Check the disk and the system's log, then try again.`,
    { cause },
  );
}

/** The error for a transaction that did not get the write lock in time. */
export function lockTimeout(url: string, what: string, timeout: number): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `${what} ${url} failed: another process has held its lock for ${timeout} ms. Nothing was written. Try again.`,
  );
}

/** The error for a read-only database whose files change faster than they can be read. */
export function filesChanging(url: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Reading ${url} failed: other processes open, change and close it all the time. Try again, or open it without \`readOnly\`.`,
  );
}

/** The error for a commit whose sync to disk failed. */
export function syncFailure(url: string, cause: unknown): SavepointError<"IO_FAILED"> {
  return new SavepointError(
    "IO_FAILED",
    `Writing to ${url} failed: ${reasonOf(cause)}. It is unknown what reached the disk: check it, then open the store again.`,
    { cause },
  );
}

/** The error for every write after one that may have reached the disk in part. */
export function poisonedConnection(url: string, cause: unknown): SavepointError<"IO_FAILED"> {
  return new SavepointError(
    "IO_FAILED",
    `${url} can no longer be written: an earlier write failed: ${reasonOf(cause)}. It is unknown what reached the disk. Open the store again.`,
    { cause },
  );
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
