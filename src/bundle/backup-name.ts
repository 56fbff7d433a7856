/** The names of backups: they sort by when they were made. */

const PREFIX = "backup-";
const EXTENSION = ".savepoint";

export function backupName(createdAt: number, id: string): string {
  const time = new Date(createdAt).toISOString().replace(/[:.]/g, "-");
  return `${PREFIX}${time}-${id.slice(0, 8)}${EXTENSION}`;
}

export function isBackup(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith(EXTENSION);
}

/** When a backup was made, as its name says it: later ones sort behind it. */
export function timeIn(path: string): string {
  return path.slice(path.lastIndexOf(PREFIX), path.lastIndexOf("-"));
}
