/** The files of an open SQLite store are removed or replaced: no save is acknowledged into a file that cannot be opened again. */
import { existsSync } from "node:fs";
import { copyFile, link, mkdir, rename, rm, symlink, unlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SavepointError } from "../../src/errors.js";
import { type DamageEvent, Savepoint } from "../../src/index.js";
import { openSqliteStore, type Store } from "../../src/store.js";
import { SqliteConnection } from "../../src/store/sqlite/connection.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { FileGuard } from "../../src/store/sqlite/file-guard.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

/** A commit is acknowledged for no longer than this after a file is gone, in milliseconds. */
const BOUND = 100;

let folder: string;
let path: string;
let stores: { close(): Promise<void> }[];
beforeEach(async () => {
  folder = await makeFolder();
  await mkdir(join(folder, "data"));
  path = join(folder, "data", "store.db");
  stores = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

async function open(target: Parameters<typeof openSqliteStore>[0] = path): Promise<Store> {
  const store = await openSqliteStore(target, { onBackgroundFailure: () => {} });
  stores.push(store);
  await store.commit({ puts: [{ key: "before", value: "1" }] });
  return store;
}

const commit = (store: Store): Promise<unknown> => store.commit({ puts: [{ key: "k", value: "1" }] });

/** Commits until that is refused. The one that is refused first must begin within the bound. */
async function refusalOf(store: Store): Promise<SavepointError> {
  const gone = performance.now();
  for (;;) {
    const begun = performance.now();
    try {
      await commit(store);
    } catch (error) {
      return error as SavepointError;
    }
    expect(begun - gone).toBeLessThan(BOUND);
  }
}

async function replace(name: string): Promise<void> {
  await copyFile(name, join(folder, "copy"));
  await rename(join(folder, "copy"), name);
}

describe("a SQLite store whose files are removed or replaced while it is open", () => {
  const removals: Record<string, () => Promise<void>> = {
    "the database is removed": () => unlink(path),
    "the database is replaced by a copy of it": () => replace(path),
    "the WAL is removed": () => unlink(`${path}-wal`),
    "the WAL is replaced by a copy of it": () => replace(`${path}-wal`),
    "the shared memory of the WAL is removed": () => unlink(`${path}-shm`),
    "the folder is renamed": () => rename(join(folder, "data"), join(folder, "elsewhere")),
    "the folder is removed": () => rm(join(folder, "data"), { recursive: true }),
  };
  for (const [what, remove] of Object.entries(removals)) {
    it(`refuses commits once ${what}, and can still be read`, async () => {
      const store = await open();
      await remove();
      const error = await refusalOf(store);
      expect(error).toMatchObject({ name: "SavepointError", code: "IO_FAILED" });
      expect(error.message).toContain(path);
      expect(error.details).toMatchObject({ path: expect.stringContaining(path) });
      await expect(commit(store)).rejects.toMatchObject({ code: "IO_FAILED", message: error.message });
      await expect(store.compact()).rejects.toMatchObject({ code: "IO_FAILED" });
      expect(await store.get(["before"])).toEqual([{ key: "before", value: "1", refs: "" }]);
    });
  }

  it("reports what happened when it is checked, before any commit has noticed", async () => {
    const store = await open();
    await unlink(path);
    const problems = await store.check?.();
    expect(problems).toEqual([{ place: path, reason: expect.stringMatching(/removed/) }]);
    await expect(commit(store)).rejects.toMatchObject({ code: "IO_FAILED" });
  });

  it("keeps rejecting commits after the file is put back, until it is opened again", async () => {
    const store = await open();
    await rename(path, `${path}.away`);
    await refusalOf(store);
    await rename(`${path}.away`, path);
    await expect(commit(store)).rejects.toMatchObject({ code: "IO_FAILED" });
    await store.close();
    const again = await open();
    expect(await again.check?.()).toEqual([]);
    await commit(again);
  });

  it("does not touch the file that took the place of its own when it is closed", async () => {
    const store = await open();
    const other = join(folder, "other.db");
    const another = await openSqliteStore(other);
    await another.commit({ puts: [{ key: "other", value: "1" }] });
    await another.close();
    await rename(other, path);
    await unlink(`${path}-wal`);
    await unlink(`${path}-shm`);
    const newcomer = await openSqliteStore(path);
    await newcomer.commit({ puts: [{ key: "newer", value: "1" }] });
    await refusalOf(store);
    await store.close();
    expect(existsSync(`${path}-wal`)).toBe(true);
    await newcomer.commit({ puts: [{ key: "newest", value: "1" }] });
    const keys = ["other", "newer", "newest", "before"];
    const found = (await newcomer.get(keys)).map((record) => record !== undefined);
    expect(found).toEqual([true, true, true, false]);
    expect(await newcomer.check?.()).toEqual([]);
    await newcomer.close();
  });

  it("emits one damage event, and fails verification", async () => {
    const events: DamageEvent[] = [];
    const on = { damage: (event: DamageEvent) => void events.push(event), backgroundFailure: () => {} };
    const sp = await Savepoint.open(`sqlite:${path}`, { on });
    stores.push(sp);
    const session = sp.session("s");
    await session.save({ n: 1 });
    await unlink(path);
    const report = await sp.verify();
    expect(report.ok).toBe(false);
    expect(JSON.stringify(report)).toContain(path);
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(sp.session("t").save({ n: 2 })).rejects.toMatchObject({ code: "IO_FAILED" });
    expect(events).toEqual([expect.objectContaining({ sessionId: undefined, reason: expect.stringContaining(path) })]);
    expect((await session.latest())?.state).toEqual({ n: 1 });
  });

  it("is guarded by its path also where the caller opened the database", async () => {
    const database = await openDatabase(path);
    const store = await openSqliteStore(database);
    await commit(store);
    await replace(path);
    expect((await refusalOf(store)).code).toBe("IO_FAILED");
    await store.close();
    database.close();
  });
});

describe("a SQLite store behind a symbolic link", () => {
  it("is saved to and found again through the link", async () => {
    const alias = join(folder, "alias.db");
    await symlink(path, alias);
    await (await open(alias)).close();
    const store = await openSqliteStore(path);
    expect(await store.get(["before"])).toEqual([{ key: "before", value: "1", refs: "" }]);
    await store.close();
  });

  it("refuses commits once the link leads to another file", async () => {
    const current = join(folder, "current");
    await symlink(join(folder, "data"), current);
    const store = await open(join(current, "store.db"));
    await mkdir(join(folder, "next"));
    await unlink(current);
    await symlink(join(folder, "next"), current);
    expect((await refusalOf(store)).code).toBe("IO_FAILED");
  });
});

describe("a SQLite store whose files stay where they are", () => {
  it("refuses work that waited for too long with CLOSED once it is closed, though closing removes the WAL", async () => {
    const database = await openDatabase(path);
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (a)");
    const guard = new FileGuard([path, `${path}-wal`]);
    const connection = new SqliteConnection(database, "sqlite:test", true, {}, { guard });
    const opened = performance.now();
    await connection.close();
    await rm(`${path}-wal`, { force: true });
    while (performance.now() - opened < 2 * BOUND) await nextTurn();
    const late = connection.transaction("Writing to", () => connection.run("INSERT INTO t VALUES (1)"));
    await expect(late).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("keeps saving while it is compacted, linked, touched, and opened and closed by others", async () => {
    const store = await open();
    const deadline = performance.now() + 3 * BOUND;
    for (let n = 0; performance.now() < deadline; n++) {
      await store.commit({
        items: [{ tape: "t", first: n, items: [{ json: JSON.stringify("x".repeat(500)), refs: "" }] }],
      });
      if (n % 50 === 0) {
        await (await openSqliteStore(path)).close();
        await store.compact();
        await utimes(path, 1, 1);
        await link(path, join(folder, `link ${n}`));
      }
    }
    expect(await store.check?.()).toEqual([]);
  });
});
