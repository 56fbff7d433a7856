/** The path of a store on the disk, if it has one: so that it is found from any folder, and is not overwritten. */
import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";

/** The URL with the path of a file or folder made absolute; any other stays as it is. */
export function resolveStoreUrl(url: string, cwd: string): string {
  const [, scheme, path] = /^(sqlite|file):(?:\/\/)?(.+)$/is.exec(url) ?? [];
  return path === undefined || path === ":memory:" || isAbsolute(path) ? url : `${scheme}:${resolve(cwd, path)}`;
}

/** The path of a store whose URL is resolved, the same for all ways to write it; `undefined` for one that has none. */
export function storePath(url: string): string | undefined {
  const match = /^(?:sqlite|file):(?:\/\/)?(.+)$/is.exec(url);
  return match?.[1] === undefined || match[1] === ":memory:" ? undefined : realPath(match[1]);
}

/** Is this file one of the store's? Both are absolute. */
export function isStoreFile(url: string, file: string): boolean {
  const store = storePath(url);
  const path = realPath(file);
  return store !== undefined && (path === store || path.startsWith(`${store}${sep}`) || path.startsWith(`${store}-`));
}

/** Also of what is not there yet. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), basename(path));
  }
}
