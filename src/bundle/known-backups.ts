/** The backups that a store remembers, because they may contain erased data. */
import { stat } from "node:fs/promises";
import { hostname } from "node:os";
import type { Context } from "../context.js";
import { isSavepointError } from "../errors.js";
import { ALL_BACKUPS, backupKey, encodeBackup, parseBackup, pathOfBackupKey } from "../records/index.js";
import { scan, type Store } from "../store/index.js";
import { isMissingFileError } from "../util/index.js";

/** A backup that may contain erased data. */
export interface KnownBackup {
  readonly path: string;
  /** When it was written, in milliseconds since 1970. */
  readonly createdAt: number;
  /** The machine that wrote it. */
  readonly host: string;
}

/** Remembers a backup that was written, and forgets those that were removed. A store that is opened read-only remembers none. */
export async function rememberBackup(
  { store }: Context,
  path: string,
  createdAt: number,
  removed: readonly string[],
): Promise<void> {
  const value = encodeBackup({ createdAt, host: hostname() });
  try {
    await store.commit({
      deletes: removed.map(backupKey),
      puts: [{ key: backupKey(path), value }],
    });
  } catch (error) {
    if (!isSavepointError(error, "READ_ONLY")) throw error;
  }
}

/**
 * The remembered backups that still exist, oldest first. Forgets those of this machine that do not. Whether a backup of another
 * machine still exists is not known, so it is listed.
 */
export async function listKnownBackups({ store }: Context): Promise<KnownBackup[]> {
  const { backups, gone } = await readKnownBackups(store);
  if (gone.length > 0) await store.commit({ deletes: gone });
  return backups.map(({ path, createdAt, host }) => ({ path, createdAt, host }));
}

/** A backup that a store remembers, with its size. */
export interface MeasuredBackup extends KnownBackup {
  /** `undefined` if another machine has written it, or if it cannot be read. */
  readonly bytes: number | undefined;
}

/** The remembered backups that still exist, oldest first, and the keys of those of this machine that do not. Writes nothing. */
export async function readKnownBackups(
  store: Store,
): Promise<{ readonly backups: readonly MeasuredBackup[]; readonly gone: readonly string[] }> {
  const backups: MeasuredBackup[] = [];
  const gone: string[] = [];
  for await (const record of scan(store, ALL_BACKUPS)) {
    const path = pathOfBackupKey(record.key);
    const { createdAt, host } = "value" in record ? parseBackup(record.value) : { createdAt: 0, host: "unknown" };
    const bytes = host === hostname() ? await sizeOf(path) : undefined;
    if (bytes === "missing") gone.push(record.key);
    else backups.push({ path, createdAt, host, bytes });
  }
  return { backups: backups.sort((a, b) => a.createdAt - b.createdAt), gone };
}

async function sizeOf(path: string): Promise<number | "missing" | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    // A folder without the permission to enter it may contain the backup.
    return isMissingFileError(error) ? "missing" : undefined;
  }
}
