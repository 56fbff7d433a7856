/**
 * Durable writes to files.
 *
 * A file is replaced atomically: after a power cut, either the old or the new content exists, intact. The new content is
 * written to a temporary file whose name is never reused. A process that removes the temporary files of another one
 * therefore also prevents its rename: exactly one of the two succeeds.
 */
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { open, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/** The permissions of files that only the user can read and write. */
export const PRIVATE_MODE = 0o600;
/** The folder of a default store. It is found if the working directory is its parent or a folder below that parent. */
const SAVEPOINT_FOLDER = ".savepoint";

/** Creates a file that does not exist yet, with these permissions whatever the umask is, and opens it for writing. */
export function createFile(path: string, mode: number): number {
  const file = openSync(path, "wx", mode);
  // On file systems without permissions, `stat` reports all of them, so `chmod` is not called.
  if (lacksPermissions(fstatSync(file), mode)) fchmodSync(file, mode);
  return file;
}

/**
 * Creates a folder and those above it that are missing. A new folder `.savepoint` gets a `.gitignore`, because stores rarely
 * belong in a repository.
 *
 * @param fileMode the permissions of files in it. The folder has the same, plus the right to enter for everyone who may read
 * @returns whether the folder did not exist
 */
export function createFolders(path: string, fileMode: number = PRIVATE_MODE): boolean {
  const mode = fileMode | ((fileMode & 0o444) >> 2);
  const first = mkdirSync(path, { recursive: true, mode });
  if (first === undefined) return false;
  for (let at = resolve(path); at.length >= resolve(first).length; at = dirname(at)) {
    if (lacksPermissions(statSync(at), mode)) chmodSync(at, mode);
    if (basename(at) === SAVEPOINT_FOLDER) writeFileSync(join(at, ".gitignore"), "*\n", { mode: fileMode, flag: "wx" });
  }
  return true;
}

function lacksPermissions(stats: Stats, mode: number): boolean {
  return (stats.mode & mode) !== mode;
}

/** The permissions for a file that replaces the one at `path`: those of the old file, or `mode` if there is no regular file. */
function modeOfReplacement(path: string, mode: number): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats?.isFile() ? stats.mode & 0o777 : mode;
}

/** The suffix of the name of a temporary file. */
const TEMPORARY = /(\.[0-9a-f]{12})?\.tmp$/;

/** The name of the file that a temporary file replaces; `undefined` if `name` is not that of a temporary file. */
export function targetOfTemporary(name: string): string | undefined {
  return TEMPORARY.test(name) ? name.replace(TEMPORARY, "") : undefined;
}

/**
 * Replaces a file atomically and durably. The temporary file is removed if it fails. The new file has the permissions of the
 * old one.
 *
 * @param probe called with `replace:written` synchronously before the rename, and with `replace:renamed` after it; an
 *   error thrown at `replace:written` prevents the rename
 * @param mode the permissions if there is no old file
 */
export async function replaceFile(
  path: string,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  probe: (point: "replace:written" | "replace:renamed") => void = () => {},
  mode: number = PRIVATE_MODE,
): Promise<void> {
  const temporary = temporaryOf(path);
  try {
    const permissions = modeOfReplacement(path, mode);
    const file = await open(temporary, "wx", permissions);
    try {
      if (lacksPermissions(await file.stat(), permissions)) await file.chmod(permissions);
      for await (const part of parts) await file.writeFile(part);
      await file.sync();
    } finally {
      await file.close();
    }
    probe("replace:written");
    renameSync(temporary, path);
    await syncFolder(dirname(path));
    probe("replace:renamed");
  } catch (error) {
    // The temporary file may stay behind; the first error is the one to report.
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/**
 * Replaces a small file atomically and durably, synchronously. The new file has the permissions of the old one.
 *
 * @param check called directly before the rename; an error that it throws prevents the rename
 * @returns the status of the new file; another process may have replaced it since
 */
export function replaceFileSync(path: string, bytes: Buffer, check: () => void, mode: number = PRIVATE_MODE): Stats {
  const temporary = temporaryOf(path);
  try {
    const file = createFile(temporary, modeOfReplacement(path, mode));
    let stats: Stats;
    try {
      writeBytes(file, bytes);
      fsyncSync(file);
      stats = fstatSync(file);
    } finally {
      closeSync(file);
    }
    check();
    renameSync(temporary, path);
    syncFolderSync(dirname(path));
    return stats;
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Makes the creation, renaming and removal of files in a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  // Windows can neither sync folders nor needs to.
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** {@link syncFolder}, synchronously. */
export function syncFolderSync(path: string): void {
  if (process.platform === "win32") return;
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Writes all bytes at the current position of a file. If it fails, on a full disk for example, a part may be written. */
export function writeBytes(file: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length;) {
    written += writeSync(file, bytes, written, bytes.length - written);
  }
}

function temporaryOf(path: string): string {
  return `${path}.${randomBytes(6).toString("hex")}.tmp`;
}
