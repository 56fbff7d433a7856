/**
 * The folder of one run of the tests. Everything temporary is created in it, because `TMPDIR` of every process of the run
 * names a folder there. So what is left behind can be found: files in that folder, and processes with that environment.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** What `TMPDIR` is set to. @param {string} folder that of the run */
export function temporaryFolderOf(folder) {
  return join(folder, "tmp");
}

/**
 * A folder in memory that goes with that of the run, or nothing, where the system has no such folders. Tests create it
 * when they first need it.
 *
 * @param {string} folder that of the run
 * @returns {string | undefined}
 */
export function memoryFolderOf(folder) {
  return existsSync("/dev/shm") ? join("/dev/shm", basename(folder)) : undefined;
}

/**
 * Names that no test is responsible for. SQLite creates files named `etilqs_…` and unlinks them at once: a process that is
 * killed in between leaves one. `node-compile-cache` is the cache of compiled code that npm and tsc turn on in Node 22
 * and later.
 */
const NOT_OF_A_TEST = /^(etilqs_|node-compile-cache$)/;

/** What is left of the files of a run, as paths. @param {string} folder that of the run */
export function findFiles(folder) {
  return [temporaryFolderOf(folder), memoryFolderOf(folder)]
    .filter((path) => path !== undefined && existsSync(path))
    .flatMap((path) =>
      readdirSync(/** @type {string} */ (path))
        .filter((name) => !NOT_OF_A_TEST.test(name))
        .map((name) => join(/** @type {string} */ (path), name)),
    );
}

/** @typedef {{ pid: number; parent: number; command: string }} Process */

/**
 * The processes of a run. Only Linux shows the environment of other processes: elsewhere, none are found.
 *
 * @param {string} folder that of the run
 * @returns {Process[]}
 */
export function findProcesses(folder) {
  if (!existsSync("/proc/self/environ")) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      try {
        const variables = readFileSync(`/proc/${name}/environ`, "utf8").split("\0");
        if (!variables.some((variable) => variable.startsWith(`TMPDIR=${temporaryFolderOf(folder)}`))) return [];
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        const parent = Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${name}/status`, "utf8"))?.[1]);
        return [{ pid: Number(name), parent, command }];
      } catch {
        // It has ended, or belongs to another user.
        return [];
      }
    });
}

/**
 * Kills the processes of a run, also those that they start meanwhile.
 *
 * @param {string} folder that of the run
 * @param {number} [spared] a process whose children are left alone
 */
export async function killProcesses(folder, spared) {
  for (;;) {
    const found = findProcesses(folder).filter(({ parent }) => parent !== spared);
    if (found.length === 0) return;
    for (const { pid } of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
    await sleep(10);
  }
}

/** Removes the folder of a run with everything in it. @param {string} folder */
export function removeFolders(folder) {
  for (const path of [folder, memoryFolderOf(folder)]) {
    if (path !== undefined) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  }
}
