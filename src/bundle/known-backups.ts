/** The backups of a store that it remembers: erased data may still be in them. */
import { stat } from "node:fs/promises";
import { hostname } from "node:os";
import type { Context } from "../context.js";
import { isSavepointError } from "../errors.js";
import { ALL_BACKUPS, backupKey, encodeBackup, parseBackup, pathOfBackupKey } from "../records/index.js";
import { scan } from "../store/index.js";
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
  const backups: KnownBackup[] = [];
  const gone: string[] = [];
  for await (const record of scan(store, ALL_BACKUPS)) {
    const path = pathOfBackupKey(record.key);
    const { createdAt, host } = "value" in record ? parseBackup(record.value) : { createdAt: 0, host: "unknown" };
    if (host === hostname() && !(await exists(path))) gone.push(record.key);
    else backups.push({ path, createdAt, host });
  }
  if (gone.length > 0) await store.commit({ deletes: gone });
  return backups.sort((a, b) => a.createdAt - b.createdAt);
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    // A folder without the permission to enter it may contain the backup.
    return !isMissingFileError(error);
  }
}
