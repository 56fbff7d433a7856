/** Where a store is on the disk, if it is on one: so that nothing is written over it. */
import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

/** The same for all ways to write it; `undefined` for a store that has no place of its own. */
export function pathOfStore(url: string): string | undefined {
  const match = /^(?:sqlite|file):(?:\/\/)?(.+)$/s.exec(url);
  return match?.[1] === undefined || match[1] === ":memory:" ? undefined : realPath(match[1]);
}

/** Is this file one of the store's? */
export function isPartOf(url: string, file: string): boolean {
  const store = pathOfStore(url);
  const path = realPath(file);
  return store !== undefined && (path === store || path.startsWith(`${store}${sep}`) || path.startsWith(`${store}-`));
}

/** Also of what is not there yet. */
function realPath(path: string): string {
  const absolute = resolve(path);
  try {
    return realpathSync(absolute);
  } catch {
    const parent = dirname(absolute);
    return parent === absolute ? absolute : join(realPath(parent), basename(absolute));
  }
}
