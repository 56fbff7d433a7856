/**
 * Repairing data files after a crash or damage. Unfinished commits are cut off. Lost lines are recorded in the file by a
 * footer that lists them, so that no process takes an older version for the newest one: the commit log, which knows about them
 * now, is shortened from time to time.
 */
import { closeSync, constants, existsSync, fsyncSync, ftruncateSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { createFile, openRegularFile, syncFolderSync, writeBytes } from "../../util/index.js";
import { type DataFile, headerLine, openForAppend, withHandle } from "./data-file.js";
import { fenceField, type Fences } from "./fences.js";
import { type CommitFooter, encodeLine } from "./lines.js";
import type { HeldLock } from "./lock.js";
import type { ReconciledFile } from "./reconciliation.js";

/** One change of a file. */
export type Repair =
  | { readonly kind: "remove" }
  | { readonly kind: "truncate"; readonly size: number }
  | { readonly kind: "append"; readonly text: string };

/** The file on the disk. */
interface FileOnDisk {
  readonly exists: boolean;
  readonly size: number;
  /** Whether the part to keep ends with a line end. */
  readonly endsLine: boolean;
}

/** The changes that make a file agree with its reconciliation. */
export function planRepairs(file: DataFile, target: ReconciledFile, disk: FileOnDisk, fences: Fences): Repair[] {
  if (target.isUnused) return disk.exists ? [{ kind: "remove" }] : [];
  const repairs: Repair[] = [];
  if (disk.size > target.size) repairs.push({ kind: "truncate", size: target.size });
  let text = target.size > 0 && disk.exists && !disk.endsLine ? "\n" : "";
  if (target.size === 0 && target.lost.size > 0) text += headerLine(file.name, file.generation);
  for (const [commit, holds] of target.lost) {
    text += encodeLine({ commit, ...fenceField(fences.of(commit)), holds } satisfies CommitFooter);
  }
  if (text !== "") repairs.push({ kind: "append", text });
  return repairs;
}

/** Completes the last line of a file, before the file is scanned. The lock is held. */
export function endLastLine(file: DataFile, lock: HeldLock): void {
  lock.assertHeld();
  append(file.path, "\n");
}

/** Applies repairs to a file. The lock is held. @param mode the permissions of a file that is created again */
export function applyRepairs(file: DataFile, repairs: readonly Repair[], lock: HeldLock, mode: number): void {
  for (const repair of repairs) {
    lock.assertHeld();
    if (repair.kind === "remove") rmSync(file.path, { force: true });
    else if (repair.kind === "truncate") truncate(file.path, repair.size);
    else {
      if (!existsSync(file.path)) closeSync(createFile(file.path, mode));
      file.size += append(file.path, repair.text);
    }
  }
}

/** Makes the part of a file durable that the log does not mention. Its writer may have died before syncing it. */
export function syncUnlogged(file: DataFile, loggedSize: number | undefined): void {
  if (file.size <= (loggedSize ?? 0)) return;
  withHandle(openForAppend(file.path), fsyncSync);
  // The name of a new file, or of one that replaced another, may not be durable either.
  if (loggedSize === undefined) syncFolderSync(dirname(file.path));
}

/** Returns the number of bytes that were written. */
function append(path: string, text: string): number {
  const bytes = Buffer.from(text);
  const flags = constants.O_WRONLY | constants.O_APPEND;
  withHandle(openRegularFile(path, flags), (handle) => writeBytes(handle, bytes));
  return bytes.length;
}

function truncate(path: string, size: number): void {
  withHandle(openForAppend(path), (handle) => ftruncateSync(handle, size));
}
