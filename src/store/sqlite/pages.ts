/** The pages of a database and its WAL: how many there are, and how free ones are returned. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isBusy } from "./errors.js";
import type { SqliteConnection } from "./connection.js";

/** Free pages that are returned to the file system in one transaction. */
const PAGES_PER_TRANSACTION = 256;

/** The pages of the WAL, and how many of them were copied into the database. */
export interface WalPages {
  readonly log: number;
  readonly checkpointed: number;
}

export function readWalPages(connection: SqliteConnection): WalPages {
  return connection.row<WalPages>("PRAGMA wal_checkpoint(NOOP)") ?? { log: 0, checkpointed: 0 };
}

/** Makes SQLite copy the WAL into the database automatically when it has this many pages; 0 for never. */
export function setAutoCheckpoint(connection: SqliteConnection, pages: number): void {
  connection.rows(`PRAGMA wal_autocheckpoint = ${pages}`);
}

/** Copies the WAL into the database and empties it, synchronously. */
export function truncateWal(connection: SqliteConnection): void {
  connection.rows("PRAGMA wal_checkpoint(TRUNCATE)");
}

/** Rewrites the database without free space, synchronously. Returns `false` if another process writes. */
export function rewriteDatabase(connection: SqliteConnection): boolean {
  try {
    connection.run("VACUUM");
    return true;
  } catch (error) {
    if (isBusy(error)) return false;
    throw error;
  }
}

/** Returns free pages to the file system, a few at a time so that other work does not wait long. */
export async function freePages(connection: SqliteConnection): Promise<void> {
  for (let before = countFreePages(connection); before > 0;) {
    await connection.transaction("Compacting", () =>
      connection.rows(`PRAGMA incremental_vacuum(${PAGES_PER_TRANSACTION})`),
    );
    await nextTurn();
    const left = countFreePages(connection);
    if (left >= before) break;
    before = left;
  }
  connection.verifyFiles("Compacting");
}

function countFreePages(connection: SqliteConnection): number {
  const sql = "SELECT freelist_count AS pages FROM pragma_freelist_count()";
  return connection.row<{ pages: number }>(sql)?.pages ?? 0;
}

/** The bytes of the pages in use. */
export function usedBytes(connection: SqliteConnection): number {
  const row = connection.row<{ bytes: number }>(
    `SELECT (page_count - freelist_count) * page_size AS bytes
     FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`,
  );
  return row?.bytes ?? 0;
}
