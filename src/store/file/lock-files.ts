/**
 * The files of a lock folder: their names, and removing them.
 *
 * A name describes the process that made the file and is never used again, so a file can be removed by any process without
 * the risk that it belongs to another holder. Files of this process that could not be removed do not hold the lock: they
 * are remembered here, for all handles of the process, and removed as soon as that is possible.
 */
import { createHash, randomBytes } from "node:crypto";
import { unlinkSync } from "node:fs";
import { dirname } from "node:path";
import {
  isCertainlyDead,
  isMissingFileError,
  isPidUnused,
  type ProcessIdentity,
  thisProcess,
} from "../../util/index.js";

/** How long to wait before another attempt to remove files, in milliseconds. */
const RETRY_AFTER = 500;
/** Appended to the name of a lock file whose process has lost the lock. */
const FENCED = ".fenced";

/** The process that a name describes. All parts except the pid are strings of digits or short hashes. */
type Holder = { readonly [Part in "host" | "boot" | "namespace" | "start"]: string } & Pick<ProcessIdentity, "pid">;

/** A unique name. Names sort by the time at which they were made. */
export function newLockName(time: number): string {
  const { host, boot, namespace, pid, start } = thisProcess();
  const identity = [pid, encode(start), encode(namespace), encode(boot), encode(host)].join("-");
  return `${time.toString(36).padStart(9, "0")}-${identity}-${randomBytes(6).toString("hex")}`;
}

/** The name that the file of a process keeps until the next holder has fenced off that process. */
export function fencedName(name: string): string {
  return `${name}${FENCED}`;
}

/** Is this the name of a file of a lock? There may be other files in the folder. */
export function isLockName(name: string): boolean {
  return parse(name) !== undefined;
}

export function pidOf(name: string): number | undefined {
  return parse(name)?.pid;
}

/** Is it certain that the process of this file does not hold the lock, and never will with this file? */
export function isAbandoned(name: string): boolean {
  const other = parse(name);
  const own = thisProcess();
  if (!other || name.endsWith(FENCED)) return true;
  const sameMachine = other.host === encode(own.host);
  const knowsBoot = own.boot !== undefined && other.boot !== encode(undefined);
  if (sameMachine && knowsBoot && other.boot !== encode(own.boot)) return true;
  if (!sameMachine || other.namespace !== encode(own.namespace)) return false;
  // A pid may have been reused.
  if (own.start === undefined) return isPidUnused(other.pid);
  return isCertainlyDead({ ...own, pid: other.pid, start: other.start });
}

function parse(name: string): Holder | undefined {
  const match = /^[0-9a-z]+-(\d+)-(\w+)-(\w+)-(\w+)-(\w+)-[0-9a-f]+(\.fenced)?$/.exec(name);
  if (!match) return undefined;
  const [, pid = "", start = "", namespace = "", boot = "", host = ""] = match;
  return { pid: Number(pid), start, namespace, boot, host };
}

/** Returns digits unchanged, and anything else as a short hash. */
function encode(text: string | undefined): string {
  if (text === undefined) return "unknown";
  return /^\d+$/.test(text) ? text : createHash("sha256").update(text).digest("hex").slice(0, 12);
}

/** Paths of files of this process that could not be removed. */
const leftBehind = new Set<string>();
let timer: NodeJS.Timeout | undefined;

/** Removes a file of this process, now or later. Returns the error that prevents it now. */
export function removeOwnLock(path: string): unknown {
  const error = removeFile(path);
  if (error === undefined) leftBehind.delete(path);
  else {
    leftBehind.add(path);
    timer ??= setTimeout(retryAll, RETRY_AFTER).unref();
  }
  return error;
}

/** Is it a file of this process that could not be removed, and so does not hold the lock? */
export function isPendingRemoval(path: string): boolean {
  return leftBehind.has(path);
}

/** Tries again to remove what could not be removed from a folder. */
export function retryRemovals(folder: string): void {
  for (const path of leftBehind) if (dirname(path) === folder) removeOwnLock(path);
}

/** Removes a file, which may be gone already. Returns the error that prevents it. */
export function removeFile(path: string): unknown {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissingFileError(error)) return error;
  }
  return undefined;
}

function retryAll(): void {
  timer = undefined;
  for (const path of leftBehind) removeOwnLock(path);
}
