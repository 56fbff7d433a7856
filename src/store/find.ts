/** Finds the default store: in the working folder or the nearest folder above it, like a git repository. */
import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const FOLDER = ".savepoint";

type Environment = Readonly<Record<string, string | undefined>>;

/** The URL of the default store: `SAVEPOINT_URL`, or the nearest `.savepoint` folder, or a new one in `folder`. */
export function findStore(folder: string = process.cwd(), env: Environment = process.env): string {
  const fromEnvironment = env["SAVEPOINT_URL"];
  if (fromEnvironment) return fromEnvironment;
  for (let at = resolve(folder); ; at = dirname(at)) {
    if (statSync(join(at, FOLDER), { throwIfNoEntry: false })?.isDirectory()) return storeUrl(at);
    if (dirname(at) === at) return storeUrl(resolve(folder));
  }
}

function storeUrl(folder: string): string {
  return `sqlite:${join(folder, FOLDER, "store.db")}`;
}
