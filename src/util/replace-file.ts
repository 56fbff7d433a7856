/**
 * Replaces a file, so that after a power cut either the old or the new one exists, intact.
 *
 * The new file is written under a name that is never used again. A process that removes the temporary files of another one
 * therefore also prevents its rename: exactly one of the two succeeds.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, renameSync, rmSync, type Stats } from "node:fs";
import { open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { writeBytes } from "./write-bytes.js";

/** The end of the name of a temporary file, which is to replace another. */
const TEMPORARY = /(\.[0-9a-f]{12})?\.tmp$/;

/** The name of the file that a temporary one is to replace; `undefined` if it is no temporary file. */
export function targetOfTemporary(name: string): string | undefined {
  return TEMPORARY.test(name) ? name.replace(TEMPORARY, "") : undefined;
}

/**
 * Replaces a file.
 *
 * @param probe called with `replace:written` directly before the file is renamed, with nothing in between, and with
 *   `replace:renamed` after that; what it throws at the first point prevents the rename
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
 * Replaces a small file synchronously.
 *
 * @param check called directly before the file is renamed; what it throws prevents that
 * @returns the new file; another process may have replaced it by now
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

/** Makes names durable: that files are there, or are gone. */
export async function syncFolder(path: string): Promise<void> {
  // Windows has no such thing, and does not need it.
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Makes names durable, synchronously. */
export function syncFolderSync(path: string): void {
  if (process.platform === "win32") return;
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function temporaryOf(path: string): string {
  return `${path}.${randomBytes(6).toString("hex")}.tmp`;
}
