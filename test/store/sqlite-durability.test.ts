import { spawnSync } from "node:child_process";
import { fdatasync, fstatSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openSqliteStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { type SyncFile, withTestHooks } from "../../src/store/shared/index.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { until } from "../support/until.mjs";

const driver = new URL("../../dist/internals.js", import.meta.url).href;

describe("a commit on a SQLite file", () => {
  it("a commit is not acknowledged before the disk has answered, and the event loop is not blocked meanwhile", async () => {
    let answer: (() => void) | undefined;
    const syncFile: SyncFile = (file, done) => (answer = () => fdatasync(file, done));
    const store = await openSqliteStore(await newFile(), withTestHooks({ syncFile }));
    let acknowledged = false;
    const commit = store.commit({ puts: [{ key: "a", value: "1" }] }).then(() => (acknowledged = true));
    const answerNow = await until(() => answer, "the disk to be asked");
    // Another operation is done meanwhile.
    await store.get(["b"]);
    expect(acknowledged).toBe(false);
    answerNow();
    await commit;
    await store.close();
  });

  it("shares one sync with all other waiting commits", async () => {
    let syncs = 0;
    const syncFile: SyncFile = (file, done) => {
      syncs++;
      fdatasync(file, done);
    };
    const store = await openSqliteStore(await newFile(), withTestHooks({ syncFile }));
    await Promise.all(Array.from({ length: 100 }, (_, n) => store.commit({ puts: [{ key: `k${n}`, value: "" }] })));
    expect(syncs).toBeLessThan(5);
    await store.close();
  });

  it("is not synced with durability: process", async () => {
    const syncFile: SyncFile = () => expect.fail("it was synced");
    const store = await openSqliteStore(await newFile(), withTestHooks({ syncFile }, { durability: "process" }));
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
    const store = await openSqliteStore(path, withTestHooks({ syncFile }));
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
    const failures: string[] = [];
    const on = { backgroundFailure: ({ message }: { message: string }) => void failures.push(message) };
    const sp = await Savepoint.open(`sqlite:${path}`, withTestHooks({ syncFile }, { on }));
    const session = sp.session("s");
    await session.save({ n: 1 }, { id: "first" });
    failing = true;
    await expect(session.save({ n: 2 }, { id: "second" })).rejects.toMatchObject({ code: "IO_FAILED" });
    failing = false;
    // It stands in the WAL, and may be gone after a power cut: asking for it again must not be answered with yes.
    await expect(session.save({ n: 2 }, { id: "second" })).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(sp.session("s").save({ n: 3 })).rejects.toMatchObject({ code: "IO_FAILED" });
    await sp.close();
    expect(failures).toEqual([expect.stringContaining("clean shutdown could not be recorded")]);
    const again = await Savepoint.open(`sqlite:${path}`);
    expect((await again.session("s").load("first"))?.state).toEqual({ n: 1 });
    await again.session("s").save({ n: 4 });
    await again.close();
  });

  it("all commits that wait for another process fail after one busyTimeout, however many they are", async () => {
    const path = await newFile();
    const store = await openSqliteStore(path, { busyTimeout: "200ms" });
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    const other = await openDatabase(path);
    other.exec("BEGIN IMMEDIATE");
    const began = performance.now();
    const answers: number[] = [];
    const waiting = Array.from({ length: 100 }, (_, n) =>
      store.commit({ puts: [{ key: `k${n}`, value: "" }] }).finally(() => answers.push(performance.now() - began)),
    );
    const results = await Promise.allSettled(waiting);
    expect(results.every((result) => result.status === "rejected")).toBe(true);
    expect(answers).toHaveLength(100);
    // One after another they would take a hundred times as long as the first.
    expect(answers.at(-1)).toBeLessThan(20 * (answers[0] as number));
    other.exec("ROLLBACK");
    other.close();
    await store.commit({ puts: [{ key: "b", value: "2" }] });
    await store.close();
  });
});

async function newFile(): Promise<string> {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  return join(folder, "store.db");
}
