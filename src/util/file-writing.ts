/**
 * Durable writes to files.
 *
 * A file is replaced atomically: after a power cut, either the old or the new content exists, intact. The new content is
 * written to a temporary file whose name is never reused. A process that removes the temporary files of another one
 * therefore also prevents its rename: exactly one of the two succeeds.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, renameSync, rmSync, type Stats, writeSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** The suffix of the name of a temporary file. */
const TEMPORARY = /(\.[0-9a-f]{12})?\.tmp$/;

/** The name of the file that a temporary file replaces; `undefined` if `name` is not that of a temporary file. */
export function targetOfTemporary(name: string): string | undefined {
  return TEMPORARY.test(name) ? name.replace(TEMPORARY, "") : undefined;
}

/**
 * Replaces a file atomically and durably. The temporary file is removed if it fails.
 *
 * @param probe called with `replace:written` synchronously before the rename, and with `replace:renamed` after it; an
 *   error thrown at `replace:written` prevents the rename
 */
export async function replaceFile(
  path: string,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  probe: (point: "replace:written" | "replace:renamed") => void = () => {},
): Promise<void> {
  const temporary = temporaryOf(path);
  try {
    const file = await open(temporary, "wx");
    try {
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
 * Replaces a small file atomically and durably, synchronously.
 *
 * @param check called directly before the rename; an error that it throws prevents the rename
 * @returns the status of the new file; another process may have replaced it since
 */
export function replaceFileSync(path: string, bytes: Buffer, check: () => void): Stats {
  const temporary = temporaryOf(path);
  try {
    const file = openSync(temporary, "wx");
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
