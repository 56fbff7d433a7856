/**
 * Optional packages, such as the drivers of databases. They are loaded at run time from where Savepoint is installed, also
 * if a bundler has put Savepoint into another file: bundlers must not try to include what may not be installed.
 *
 * The program of a thread is a string, which has no place to look for packages from. The main thread locates them and
 * passes their paths.
 */
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
  if (path !== undefined) return requireFrom(path)(path);
  // The comments make bundlers keep the call as it is, without a warning.
  return import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ name);
}

/** The paths of those packages that are installed. Built-in modules have no path. */
export function locatePackages(names: readonly string[]): PackagePaths {
  const found: Record<string, string> = {};
  for (const name of names) {
    const path = paths[name] ?? locate(name);
    if (path !== undefined && path !== name) found[name] = path;
  }
  return found;
}

function locate(name: string): string | undefined {
  for (const place of places()) {
    try {
      return requireFrom(place).resolve(name);
    } catch {
      // It is not installed there. If it is installed nowhere, what needs it fails with its own message.
    }
  }
  return undefined;
}

/**
 * Where packages are looked up from: the file that contains this code, and the program. In CommonJS that a bundler has made,
 * `import.meta.url` is missing; in the output of webpack, it is where the file was when the bundle was made.
 */
function places(): string[] {
  const url: string | undefined = import.meta.url;
  const own = url?.startsWith("file:") ? url : typeof __filename === "string" ? __filename : undefined;
  return [own, process.argv[1], join(process.cwd(), "savepoint.js")].filter((place) => place !== undefined);
}

/** `createRequire`, which webpack replaces wherever it recognises the import. */
function requireFrom(place: string): NodeJS.Require {
  return process.getBuiltinModule("node:module").createRequire(place);
}
