/**
 * Finds the default store: in the working folder or the nearest folder above it, like a git repository.
 *
 * The caller did not name this store, and another user may have put it there, so it must belong to the user.
 */
import { realpathSync, statSync, type Stats } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { SavepointError } from "../errors.js";

const FOLDER = ".savepoint";
const FILE = "store.db";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The URL of the default store: `SAVEPOINT_URL`, or the nearest `.savepoint` folder, or a new one in `folder`. The search goes up
 * to and including the home folder, and does not leave the file system.
 *
 * @throws `UNSAFE_STORE` if the nearest `.savepoint` folder or its store belongs to another user, or if everyone or a group
 *   other than the user's primary group can write it. Windows has no such check. `SAVEPOINT_SAFE_DIRECTORY` allows
 *   exceptions: a list of absolute folders like `PATH`, or `*`.
 */
export function findStore(folder: string = process.cwd(), env: Environment = process.env): string {
  const fromEnvironment = env["SAVEPOINT_URL"];
  if (fromEnvironment) return fromEnvironment;
  const start = resolve(folder);
  const home = statOf(env["HOME"] || homedir());
  for (let at = start; ; at = dirname(at)) {
    if (statOf(join(at, FOLDER))?.isDirectory()) {
      if (!isAllowed(at, env)) requireSafe(at, env);
      return storeUrl(at);
    }
    const [own, parent] = [statOf(at), statOf(dirname(at))];
    const isHome = own !== undefined && own.dev === home?.dev && own.ino === home.ino;
    if (dirname(at) === at || isHome || own?.dev !== parent?.dev) return storeUrl(start);
  }
}

function storeUrl(folder: string): string {
  return `sqlite:${join(folder, FOLDER, FILE)}`;
}

/** Whether `SAVEPOINT_SAFE_DIRECTORY` lists a folder. */
function isAllowed(folder: string, env: Environment): boolean {
  const allowed = (env["SAVEPOINT_SAFE_DIRECTORY"] ?? "").split(delimiter);
  return allowed.includes("*") || allowed.includes(folder) || allowed.includes(realpathSync(folder));
}

/** Checks the targets of symlinks and not the links. */
function requireSafe(folder: string, env: Environment): void {
  const user = process.geteuid?.();
  // Windows has no user ids.
  if (user === undefined) return;
  const users = [user, ...sudoId(user, env["SUDO_UID"])];
  const groups = [process.getegid?.(), ...sudoId(user, env["SUDO_GID"])];
  for (const path of [join(folder, FOLDER), ...["", "-wal", "-shm"].map((end) => join(folder, FOLDER, FILE + end))]) {
    const { uid, gid, mode } = statOf(path) ?? {};
    if (uid === undefined || gid === undefined || mode === undefined) continue;
    if (!users.includes(uid)) {
      throw unsafeStore(folder, path, { owner: uid }, `belongs to user ${uid}, and you are user ${user}`);
    }
    // On many systems each user has a group of their own, and new files can be written by it.
    if (mode & 0o002 || (mode & 0o020 && !groups.includes(gid))) {
      throw unsafeStore(folder, path, { owner: uid, mode: mode & 0o777 }, "can be written by other users");
    }
  }
}

/** The id of the user who called sudo. Only root trusts the variable. */
function sudoId(user: number, id: string | undefined): number[] {
  return user === 0 && id !== undefined && /^\d+$/.test(id) ? [Number(id)] : [];
}

/** `undefined` if there is nothing that can be read: no file, a loop of symlinks, or a folder that the user may not enter. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function unsafeStore(folder: string, path: string, details: object, reason: string): SavepointError {
  const fix =
    "mode" in details
      ? "Remove the permission with chmod go-w. If other users are supposed to write it"
      : "If you trust it";
  return new SavepointError(
    "UNSAFE_STORE",
    `The store that was found in ${folder} is not used: ${path} ${reason}. ${fix}, name the store (${storeUrl(folder)}), or add ${folder} to SAVEPOINT_SAFE_DIRECTORY.`,
    { details: { path, ...details } },
  );
}
