/**
 * The files in a lock folder: their names, and their removal.
 *
 * A name identifies the process that created the file and is never reused, so any process can remove a file without the risk
 * that it belongs to another holder. Files of this process that could not be removed do not hold the lock: they are
 * recorded here, for all stores of the process, and removed as soon as possible.
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

/** The pause between attempts to remove files, in milliseconds. */
const RETRY_AFTER = 500;
/** Appended to the name of a lock file whose process has lost the lock. */
const FENCED = ".fenced";

/** The process that a name identifies. All parts except the pid are strings of digits or short hashes. */
type Holder = { readonly [Part in "host" | "boot" | "namespace" | "start"]: string } & Pick<ProcessIdentity, "pid">;

/** A unique name. Names sort by the given time. */
export function newLockName(time: number): string {
  const { host, boot, namespace, pid, start } = thisProcess();
  const identity = [pid, encode(start), encode(namespace), encode(boot), encode(host)].join("-");
  return `${time.toString(36).padStart(9, "0")}-${identity}-${randomBytes(6).toString("hex")}`;
}

/** The new name of the file of a process whose lock is taken over. */
export function fencedName(name: string): string {
  return `${name}${FENCED}`;
}

/** Whether a file belongs to a lock. There may be other files in the folder. */
export function isLockName(name: string): boolean {
  return parse(name) !== undefined;
}

export function pidOf(name: string): number | undefined {
  return parse(name)?.pid;
}

/** Whether it is certain that the process of this file does not hold the lock, and never will with this file. */
export function isAbandoned(name: string): boolean {
  const other = parse(name);
  const own = thisProcess();
  if (!other || name.endsWith(FENCED)) return true;
  const sameMachine = other.host === encode(own.host);
  const knowsBoot = own.boot !== undefined && other.boot !== encode(undefined);
  if (sameMachine && knowsBoot && other.boot !== encode(own.boot)) return true;
  if (!sameMachine || other.namespace !== encode(own.namespace)) return false;
  // The pid may have been reused by another process.
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
const pendingRemovals = new Set<string>();
let timer: NodeJS.Timeout | undefined;

/** Removes a file of this process, now or later. Returns the error that prevents its removal now. */
export function removeOwnLock(path: string): unknown {
  const error = removeFile(path);
  if (error === undefined) pendingRemovals.delete(path);
  else {
    pendingRemovals.add(path);
    timer ??= setTimeout(retryAllRemovals, RETRY_AFTER).unref();
  }
  return error;
}

/** Whether this is a file of this process that does not hold the lock, and could not be removed. */
export function isPendingRemoval(path: string): boolean {
  return pendingRemovals.has(path);
}

/** Retries pending removals in a folder. */
export function retryRemovals(folder: string): void {
  for (const path of pendingRemovals) if (dirname(path) === folder) removeOwnLock(path);
}

/** Removes a file, if it exists. Returns the error that prevents its removal. */
export function removeFile(path: string): unknown {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissingFileError(error)) return error;
  }
  return undefined;
}

function retryAllRemovals(): void {
  timer = undefined;
  for (const path of pendingRemovals) removeOwnLock(path);
}
