import { spawnSync } from "node:child_process";
import { fdatasync, fstatSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openSqliteStore } from "../../src/store/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import type { SyncFile } from "../../src/store/options.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const driver = new URL("../../dist/store/sqlite/driver.js", import.meta.url).href;

describe("a commit on a SQLite file", () => {
  it("is not acknowledged before the disk has answered, and the event loop goes on meanwhile", async () => {
    let answer = (): void => {};
    const syncFile: SyncFile = (file, done) => (answer = () => fdatasync(file, done));
    const store = await openSqliteStore(await newFile(), { syncFile });
    let acknowledged = false;
    const commit = store.commit({ puts: [{ key: "a", value: "1" }] }).then(() => (acknowledged = true));
    await sleep(30);
    expect(acknowledged).toBe(false);
    answer();
    await commit;
    await store.close();
  });

  it("shares one sync with all that wait", async () => {
    let syncs = 0;
    const syncFile: SyncFile = (file, done) => {
      syncs++;
      fdatasync(file, done);
    };
    const store = await openSqliteStore(await newFile(), { syncFile });
    await Promise.all(Array.from({ length: 100 }, (_, n) => store.commit({ puts: [{ key: `k${n}`, value: "" }] })));
    expect(syncs).toBeLessThan(5);
    await store.close();
  });

  it("is not synced at all where only the process is to be survived", async () => {
    const syncFile: SyncFile = () => expect.fail("it was synced");
    const store = await openSqliteStore(await newFile(), { syncFile, durability: "process" });
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    await store.close();
  });

  it("syncs the WAL that SQLite writes, also when another process closed the new file before", async () => {
    const path = await newFile();
    const synced: bigint[] = [];
    const syncFile: SyncFile = (file, done) => {
      synced.push(fstatSync(file, { bigint: true }).ino);
      fdatasync(file, done);
    };
    const store = await openSqliteStore(path, { syncFile });
    const script = `const { openDatabase } = await import(${JSON.stringify(driver)});
      const other = await openDatabase(${JSON.stringify(path)});
      other.exec("SELECT count(*) FROM savepoint_record");
      other.close();`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(child.stderr).toBe("");
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    expect(synced).toEqual([statSync(`${path}-wal`, { bigint: true }).ino]);
    await store.close();
  });

  it("fails when the disk fails, and so does everything after it until the store is opened again", async () => {
    const path = await newFile();
    let failing = false;
    const syncFile: SyncFile = (file, done) => (failing ? done(new Error("EIO")) : fdatasync(file, done));
    const sp = await Savepoint.open(`sqlite:${path}`, { syncFile });
    const session = sp.session("s");
    await session.save({ n: 1 }, { id: "first" });
    failing = true;
    await expect(session.save({ n: 2 }, { id: "second" })).rejects.toMatchObject({ code: "IO_FAILED" });
    failing = false;
    // It stands in the WAL, and may be gone after a power cut: asking for it again must not be answered with yes.
    await expect(session.save({ n: 2 }, { id: "second" })).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(sp.session("s").save({ n: 3 })).rejects.toMatchObject({ code: "IO_FAILED" });
    await sp.close();
    const again = await Savepoint.open(`sqlite:${path}`);
    expect((await again.session("s").load("first"))?.state).toEqual({ n: 1 });
    await again.session("s").save({ n: 4 });
    await again.close();
  });

  it("fails after one busyTimeout, however many wait with it", async () => {
    const path = await newFile();
    const store = await openSqliteStore(path, { busyTimeout: "200ms" });
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    const other = await openDatabase(path);
    other.exec("BEGIN IMMEDIATE");
    let answers = 0;
    const waiting = Array.from({ length: 100 }, (_, n) =>
      store.commit({ puts: [{ key: `k${n}`, value: "" }] }).finally(() => answers++),
    );
    const results = await Promise.allSettled(waiting);
    expect(results.every((result) => result.status === "rejected")).toBe(true);
    expect(answers).toBe(100);
    other.exec("ROLLBACK");
    other.close();
    await store.commit({ puts: [{ key: "b", value: "2" }] });
    await store.close();
  }, 10_000);
});

async function newFile(): Promise<string> {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  return join(folder, "store.db");
}
