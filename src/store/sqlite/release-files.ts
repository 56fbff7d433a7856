/**
 * Makes a closed database release its files.
 *
 * Version 1 of @photostructure/sqlite, which Node 20 needs, finalizes a statement when it is garbage collected. Until then a
 * closed connection keeps its files open, and their disk cannot be unmounted. So this runs the garbage collector: first for
 * new objects, which takes a millisecond and is enough if the store was open for a short time, then for all objects.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** How many databases of this thread have each file open. */
const users = new Map<string, number>();

/**
 * Counts a database that has a file open.
 *
 * @returns a function to call after closing the database, while the database is still referenced, because the driver
 *   crashes if a database is collected before its statements
 */
export function trackOpenFile(path: string): () => Promise<void> {
  users.set(path, (users.get(path) ?? 0) + 1);
  return async () => {
    const others = (users.get(path) ?? 1) - 1;
    if (others > 0) {
      users.set(path, others);
      return;
    }
    users.delete(path);
    // Two full collections, because the first may only finish one that is already in progress, which misses objects
    // that became unused since.
    for (const options of [{ type: "minor" }, undefined, undefined] as const) {
      if (!mayBeOpen(path)) return;
      collectGarbage(options);
      // Finalizers run in a turn of their own.
      await nextTurn();
    }
  };
}

/** Whether this process has the file or its WAL open. Known only on Linux; elsewhere always `true`. */
function mayBeOpen(path: string): boolean {
  if (process.platform !== "linux") return true;
  return readdirSync("/proc/self/fd").some((name) => targetOf(`/proc/self/fd/${name}`).startsWith(path));
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    // Closed meanwhile, like the descriptor that read the list.
    return "";
  }
}

type CollectOptions = { readonly type: "minor" } | undefined;
let collect: ((options?: CollectOptions) => void) | undefined;

/** Collects new objects, or all objects without options, because `{ type: "major" }` collects too little on Node 20. */
function collectGarbage(options: CollectOptions): void {
  if (!collect) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as (options?: CollectOptions) => void;
  }
  if (options) collect(options);
  else collect();
}
