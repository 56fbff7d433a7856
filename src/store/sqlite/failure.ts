/** What an error of SQLite means, as an error of Savepoint. */
import { SavepointError } from "../../errors.js";

const BUSY = 5;
const LOCKED = 6;
const READ_ONLY = 8;
const IO = 10;
const CORRUPT = 11;
const FULL = 13;
const CANNOT_OPEN = 14;
const CONSTRAINT = 19;
const NOT_A_DATABASE = 26;

/** SQLite's primary result code, from whichever driver; `undefined` for any other error. */
export function resultCode(error: unknown): number | undefined {
  const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  const names: Record<string, number> = {
    SQLITE_BUSY: BUSY,
    SQLITE_LOCKED: LOCKED,
    SQLITE_READONLY: READ_ONLY,
    SQLITE_IOERR: IO,
    SQLITE_CORRUPT: CORRUPT,
    SQLITE_FULL: FULL,
    SQLITE_CANTOPEN: CANNOT_OPEN,
    SQLITE_CONSTRAINT: CONSTRAINT,
    SQLITE_NOTADB: NOT_A_DATABASE,
  };
  if (typeof code !== "string") return undefined;
  return Object.entries(names).find(([name]) => code.startsWith(name))?.[1];
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === BUSY || code === LOCKED;
}

export function isNotADatabase(error: unknown): boolean {
  return resultCode(error) === NOT_A_DATABASE;
}

export function isCorrupt(error: unknown): boolean {
  const code = resultCode(error);
  return code === CORRUPT || code === NOT_A_DATABASE;
}

/** After one of these nobody knows what reached the disk: the handle must not be used to write again. */
export function poisons(error: unknown): boolean {
  const code = resultCode(error);
  return code === IO || isCorrupt(error);
}

/** The error to show for what SQLite said while doing `what`. */
export function sqliteFailure(error: unknown, url: string, what: string): unknown {
  if (error instanceof SavepointError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const failed = `${what} ${url} failed: ${reason}.`;
  switch (resultCode(error)) {
    case BUSY:
    case LOCKED:
      return new SavepointError("BUSY", `${failed} Another process holds the store's lock; try again.`, {
        cause: error,
      });
    case CORRUPT:
    case NOT_A_DATABASE:
      return new SavepointError("DAMAGED", `${failed} Restore the file from a backup.`, { cause: error });
    case FULL:
      return new SavepointError("IO_FAILED", `${failed} Free some space; nothing that was saved is lost.`, {
        cause: error,
      });
    case READ_ONLY:
      return new SavepointError("IO_FAILED", `${failed} Make the file and its folder writable.`, { cause: error });
    case CANNOT_OPEN:
      return new SavepointError("IO_FAILED", `${failed} Check that the folder exists and can be written.`, {
        cause: error,
      });
    case IO:
      return new SavepointError("IO_FAILED", `${failed} Check the disk, then open the store again.`, { cause: error });
    case undefined:
      return error;
    default:
      return new SavepointError("STORE_FAILED", failed, { cause: error });
  }
}
