/** Paths of stores on disk. */
import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";

/** A store URL with its path made absolute. URLs without a path stay as they are. */
export function resolveStoreUrl(url: string, cwd: string): string {
  const [, scheme, path] = /^(sqlite|file):(?:\/\/)?(.+)$/is.exec(url) ?? [];
  return path === undefined || path === ":memory:" || isAbsolute(path) ? url : `${scheme}:${resolve(cwd, path)}`;
}

/** The real path of a store, the same for every spelling of it. `undefined` for a store that is not on disk. */
export function storePath(url: string): string | undefined {
  const match = /^(?:sqlite|file):(?:\/\/)?(.+)$/is.exec(url);
  return match?.[1] === undefined || match[1] === ":memory:" ? undefined : realPath(match[1]);
}

/** Whether a file belongs to a store and must not be overwritten. Both paths are absolute. */
export function isStoreFile(url: string, file: string): boolean {
  const store = storePath(url);
  const path = realPath(file);
  return store !== undefined && (path === store || path.startsWith(`${store}${sep}`) || path.startsWith(`${store}-`));
}

/** The real path. The file need not exist yet. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), basename(path));
  }
}
