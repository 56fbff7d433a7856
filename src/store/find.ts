/** Where the store is when nobody says: found upwards from the working folder, like a git repository. */
import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const FOLDER = ".savepoint";

type Environment = Readonly<Record<string, string | undefined>>;

/** The URL in `SAVEPOINT_URL`; else of the nearest `.savepoint` folder; else of a new one in the working folder. */
export function findStore(folder: string = process.cwd(), env: Environment = process.env): string {
  const fromEnvironment = env["SAVEPOINT_URL"];
  if (fromEnvironment) return fromEnvironment;
  for (let at = resolve(folder); ; at = dirname(at)) {
    const found = statSync(join(at, FOLDER), { throwIfNoEntry: false });
    if (found?.isDirectory()) return storeIn(at);
    if (dirname(at) === at) return storeIn(resolve(folder));
  }
}

function storeIn(folder: string): string {
  return `sqlite:${join(folder, FOLDER, "store.db")}`;
}
