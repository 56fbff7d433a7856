/** Lock files that cannot be removed: what was saved is saved, and no process waits for longer than that lasts. */
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, fdatasync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { chmod, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openFileStore, type Store } from "../../src/store.js";
import type { BackgroundFailure, DiskOptions } from "../../src/store/contract/options.js";
import { type SyncFile, withTestHooks } from "../../src/store/shared/index.js";
import { until } from "../support/until.mjs";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const CHILD = fileURLToPath(new URL("./file-child.mjs", import.meta.url));
const put = (value: string): { puts: { key: string; value: string }[] } => ({ puts: [{ key: "k", value }] });

let folder: string;
let path: string;
let lock: string;
let reports: BackgroundFailure[];
let stores: Store[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  lock = join(path, "lock");
  reports = [];
  stores = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

async function open(options: DiskOptions = {}): Promise<Store> {
  const store = await openFileStore(path, {
    busyTimeout: 2_000,
    onBackgroundFailure: (failure) => reports.push(failure),
    ...options,
  });
  stores.push(store);
  return store;
}

/** Something that happens during the next save, while the lock is held. */
function duringSave(): { syncFile: SyncFile; next: (work: () => void) => void } {
  let work: (() => void) | undefined;
  return {
    syncFile(file, done) {
      work?.();
      work = undefined;
      fdatasync(file, done);
    },
    next: (given) => (work = given),
  };
}

async function untilEmpty(): Promise<void> {
  await until(async () => (await readdir(lock)).length === 0, "the lock folder to be empty");
}

/** Root may do anything: the test stops being root. */
async function withoutPrivileges<T>(work: () => Promise<T>): Promise<T> {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

describe("a lock file that cannot be removed after a save", () => {
  it("does not make the save fail, is reported once, and is removed when that is possible", async () => {
    await chmod(folder, 0o777);
    await withoutPrivileges(async () => {
      const { syncFile, next } = duringSave();
      const store = await open(withTestHooks({ syncFile }));
      const other = await open();
      await store.commit(put("1"));
      next(() => chmodSync(lock, 0o555));
      await store.commit(put("2"));
      expect(await store.get(["k"])).toMatchObject([{ value: "2" }]);
      expect(readdirSync(lock)).toHaveLength(1);
      expect(reports).toHaveLength(1);
      expect(reports[0]?.message).toContain(path);
      chmodSync(lock, 0o755);
      // No holder is left: neither handle of this process waits for it.
      await Promise.all([store.commit(put("3")), other.commit({ puts: [{ key: "l", value: "1" }] })]);
      expect(await other.get(["k", "l"])).toMatchObject([{ value: "3" }, { value: "1" }]);
      expect(readdirSync(lock)).toEqual([]);
      expect(reports).toHaveLength(1);
    });
  });

  it("is removed without another save", async () => {
    await chmod(folder, 0o777);
    await withoutPrivileges(async () => {
      const { syncFile, next } = duringSave();
      const store = await open(withTestHooks({ syncFile }));
      next(() => chmodSync(lock, 0o555));
      await store.commit(put("1"));
      chmodSync(lock, 0o755);
      await untilEmpty();
    });
  });
});

const canSeal = canMakeAppendOnly();

describe(`a lock folder from which nothing can be removed${canSeal ? "" : " (skipped: chattr +a does not work here)"}`, () => {
  const seal = (): unknown => execFileSync("chattr", ["+a", lock]);
  const unseal = (): unknown => execFileSync("chattr", ["-a", lock]);

  it.runIf(canSeal)("lets the process keep saving, and others as soon as files can be removed again", async () => {
    const { syncFile, next } = duringSave();
    const store = await open(withTestHooks({ syncFile }));
    const other = await open();
    await store.commit(put("1"));
    next(seal);
    try {
      for (const value of ["2", "3", "4"]) await store.commit(put(value));
      await other.commit({ puts: [{ key: "l", value: "1" }] });
      expect(await other.get(["k", "l"])).toMatchObject([{ value: "4" }, { value: "1" }]);
      expect(readdirSync(lock).length).toBeGreaterThan(0);
      // Each handle tells it once.
      expect(reports).toHaveLength(2);
    } finally {
      unseal();
    }
    await untilEmpty();
    const status = spawnSync(process.execPath, [CHILD, path, "commit", JSON.stringify(put("5"))]).status;
    expect(status).toBe(0);
    expect(await store.get(["k"])).toMatchObject([{ value: "5" }]);
  });

  it.runIf(canSeal)("lets others save if it contains the lock of a dead process, and is reported once", async () => {
    const store = await open();
    await store.commit(put("1"));
    spawnSync(process.execPath, [CHILD, path, "die", "written", JSON.stringify(put("2"))]);
    expect(readdirSync(lock)).toHaveLength(1);
    seal();
    try {
      for (const value of ["3", "4"]) await store.commit(put(value));
      expect(reports).toHaveLength(1);
    } finally {
      unseal();
    }
    expect(await store.get(["k"])).toMatchObject([{ value: "4" }]);
    await store.commit(put("5"));
    expect(readdirSync(lock)).toEqual([]);
    expect(await (await open()).get(["k"])).toMatchObject([{ value: "5" }]);
  });
});

function canMakeAppendOnly(): boolean {
  const trial = mkdtempSync(join(tmpdir(), "savepoint-"));
  try {
    execFileSync("chattr", ["+a", trial], { stdio: "ignore" });
    writeFileSync(join(trial, "file"), "");
    execFileSync("chattr", ["-a", trial], { stdio: "ignore" });
    return true;
  } catch {
    // Not root, or a file system that does not know it.
    return false;
  } finally {
    rmSync(trial, { recursive: true, force: true });
  }
}
