/**
 * Optional packages, such as the drivers of databases. They are loaded at run time from where Savepoint is installed, also
 * if a bundler has put Savepoint into another file: bundlers must not try to include what may not be installed.
 *
 * The program of a thread is a string, which has no place to look for packages from. The main thread locates them and
 * passes their paths.
 */
import { createRequire } from "node:module";
import { join } from "node:path";

/** The paths of packages by their names. */
export type PackagePaths = Readonly<Record<string, string>>;

let paths: PackagePaths = {};

/** Makes {@link loadPackage} load these packages from their paths, in a thread that cannot find them by their names. */
export function setPackagePaths(located: PackagePaths): void {
  paths = located;
}

/** Loads a package. Rejects if it is not installed. */
export async function loadPackage(name: string): Promise<unknown> {
  const path = paths[name];
  if (path !== undefined) return createRequire(path)(path);
  // The comments make bundlers keep the call as it is, without a warning.
  return import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ name);
}

/** The paths of those packages that are installed. Built-in modules have no path. */
export function locatePackages(names: readonly string[]): PackagePaths {
  const require = createRequire(ownPlace());
  const found: Record<string, string> = {};
  for (const name of names) {
    try {
      const path = paths[name] ?? require.resolve(name);
      if (path !== name) found[name] = path;
    } catch {
      // It is not installed. What needs it fails with its own message.
    }
  }
  return found;
}

/** The file that contains this code. If a bundler has made CommonJS of it, `import.meta.url` is missing. */
function ownPlace(): string {
  const url: string | undefined = import.meta.url;
  if (url?.startsWith("file:")) return url;
  return typeof __filename === "string" ? __filename : join(process.cwd(), "savepoint.js");
}
