/** Several processes in one folder: who waits for whom, and what becomes of the lock of one that is gone. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { fdatasync, readdirSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError } from "../../src/errors.js";
import { parseLine, splitLines } from "../../src/store/file/lines.js";
import { WRITE_POINTS } from "../../src/store/file/write-points.js";
import { openFileStore, type Commit, type Store } from "../../src/store.js";
import type { DiskOptions } from "../../src/store/contract/options.js";
import { type SyncFile, withTestHooks } from "../../src/store/shared/index.js";
import { thisProcess } from "../../src/util/process-identity.js";
import { contentOf, frame } from "../../src/testing/samples.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { runs } from "../support/runs.js";
import { until } from "../support/until.mjs";

const CHILD = fileURLToPath(new URL("./file-child.mjs", import.meta.url));
const FIRST: Commit = { puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] };
const SECOND: Commit = { puts: [{ key: "k", value: "2" }], items: [{ tape: "t", first: 1, items: [frame(1)] }] };

let folder: string;
let path: string;
let lock: string;
let children: ChildProcess[];
let stores: Store[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  lock = join(path, "lock");
  children = [];
  stores = [];
});
afterEach(async () => {
  for (const child of children) if (child.exitCode === null && child.signalCode === null) await end(child);
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

/** A store that is closed after the test. */
async function open(options: DiskOptions = {}, silence?: number): Promise<Store> {
  const internals = silence === undefined ? {} : { silence };
  const store = await openFileStore(path, { onBackgroundFailure: () => {}, ...options }, internals);
  stores.push(store);
  return store;
}

describe("processes that increase one counter lose nothing", () => {
  for (const [processes, times] of [
    [2, 100],
    [8, 25],
  ] as const) {
    it(`with ${processes} processes that also create the store together`, async () => {
      const running = Array.from({ length: processes }, (_, n) => start("count", `process ${n}`, String(times)));
      const exits = running.map((child) => once(child, "exit"));
      await Promise.all(running.map((child) => once(child.stdout as NodeJS.ReadableStream, "data")));
      for (const child of running) child.stdin?.end("go\n");
      for (const exit of exits) expect((await exit)[0]).toBe(0);
      const store = await open();
      const all = processes * times;
      const items = await store.items([{ tape: "t", start: 0, count: all }]);
      const expected = Array.from({ length: all }, (_, n) =>
        JSON.stringify([`process ${n % processes}`, Math.floor(n / processes)]),
      );
      expect(items.map((item) => ("json" in item ? item.json : item.unreadable)).sort()).toEqual(expected.sort());
      expect(await store.get(["count", "next"])).toMatchObject([{ value: String(all) }, { value: String(all) }]);
      expect(await store.check?.()).toEqual([]);
      expect(await readdir(lock)).toEqual([]);
    });
  }
});

describe("a process that dies with the lock", () => {
  for (const point of WRITE_POINTS) {
    it(`at "${point}" makes no other process wait, and leaves no partial commit`, async () => {
      const store = await open();
      await store.commit(FIRST);
      await store.commit({ puts: [{ key: "k", value: "1.5" }] });
      const isPacking = point.startsWith("replace") || point.startsWith("compact");
      const before = await contentOf(store);
      await dieAt(point, isPacking ? "compact" : JSON.stringify(SECOND));
      expect(await readdir(lock)).toHaveLength(1);
      await store.commit({ puts: [{ key: "after", value: "1" }] });
      expect(await readdir(lock)).toEqual([]);
      const isWhole = ["written", "synced", "logged"].includes(point);
      expect(await store.get(["k", "after"])).toMatchObject([{ value: isWhole ? "2" : "1.5" }, { value: "1" }]);
      const content = await contentOf(store);
      if (!isWhole) expect(content.tapes).toEqual(before.tapes);
      expect(await contentOf(await open())).toEqual(content);
      expect(await store.check?.()).toEqual([]);
    });
  }

  it("during compaction does not prevent other processes from reading", async () => {
    const store = await open();
    await store.commit(FIRST);
    await store.commit({ puts: [{ key: "k", value: "2" }] });
    const expected = await contentOf(store);
    // It has read nothing yet, so it has no file open.
    const reader = await open();
    await dieAt("replace:renamed", "compact");
    expect(await contentOf(reader)).toEqual(expected);
  });

  it("is distinguished from one that closed the store", async () => {
    const store = await openFileStore(path);
    await store.commit(FIRST);
    await store.close();
    await dieAt("locked", JSON.stringify(SECOND));
    const again = await openFileStore(path);
    expect(await again.get(["k"])).toMatchObject([{ value: "1" }]);
    await again.close();
    await dieAt("synced", JSON.stringify(SECOND));
    const third = await open();
    expect(await third.get(["k"])).toMatchObject([{ value: "2" }]);
  });
});

describe("a living process that holds the lock", () => {
  it("makes other writers wait and then fail with BUSY and its pid, while opening and reading need no lock", async () => {
    const store = await open({ busyTimeout: 100 });
    await store.commit(FIRST);
    const child = await hold("locked");
    const error = await store.commit(SECOND).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "BUSY", details: { pids: [child.pid] } });
    expect((error as Error).message).toContain(`hold it or wait for it: ${child.pid}. `);
    expect(await store.get(["k"])).toMatchObject([{ value: "1" }]);
    await expect(store.compact()).rejects.toMatchObject({ code: "BUSY" });
    await expect(store.retain("t", [], { below: 1 })).rejects.toMatchObject({ code: "BUSY" });
    const reader = await open({ busyTimeout: 50 });
    expect(await reader.get(["k"])).toMatchObject([{ value: "1" }]);
    await end(child);
    await store.commit(SECOND);
    expect(await store.get(["k"])).toMatchObject([{ value: "2" }]);
  });

  it("a process that holds the lock for a while makes others wait, without blocking the event loop", async () => {
    const store = await open({ busyTimeout: "60s" });
    await store.commit(FIRST);
    const child = await hold("written");
    let turns = 0;
    const ticking = setInterval(() => turns++, 1);
    const commit = store.commit({ puts: [{ key: "after", value: "1" }] });
    await until(() => turns >= 20, "twenty turns of the event loop");
    await end(child);
    await commit;
    clearInterval(ticking);
    expect(await store.get(["after"])).toMatchObject([{ value: "1" }]);
  });

  it("a process that is stopped for a moment while it holds the lock is not taken for dead, and resumes where it was", async () => {
    const store = await open({ busyTimeout: 200 });
    const counts = runs(300, 80);
    const child = start("count", "child", String(counts));
    await once(child.stdout as NodeJS.ReadableStream, "data");
    child.stdin?.end("go\n");
    const exit = once(child, "exit");
    // Stopped wherever it is, now and then with the lock held.
    for (let time = 0; time < runs(30, 8) && child.exitCode === null; time++) {
      child.kill("SIGSTOP");
      const held = readdirSync(lock).length > 0;
      const commit = store.commit({ puts: [{ key: `mine/${time}`, value: "1" }] });
      if (held) await expect(commit.catch(isBusy)).resolves.toBeDefined();
      else await commit;
      child.kill("SIGCONT");
      // Deliberately a time: it is stopped at any moment.
      await sleep(10);
    }
    expect((await exit)[0]).toBe(0);
    expect(await store.get(["count"])).toMatchObject([{ value: String(counts) }]);
    expect(await contentOf(await open())).toEqual(await contentOf(store));
    expect(await store.check?.()).toEqual([]);
  });
});

describe("a lock of another machine", () => {
  const here = thisProcess();
  const others = {
    "another host": { ...here, host: "elsewhere", boot: "another boot" },
    "another namespace": { ...here, namespace: "pid:[1]" },
  };
  for (const [what, identity] of Object.entries(others)) {
    it(`a lock of ${what} is honoured while it shows signs of life, and no longer`, async () => {
      const store = await open({ busyTimeout: "60s" }, 500);
      await store.commit(FIRST);
      const file = join(lock, nameOf(identity));
      writeFileSync(file, "");
      let signs = 0;
      const sign = setInterval(() => utimesSync(file, new Date(), new Date(Date.now() + signs++)), 50);
      let done = false;
      const commit = store.commit(SECOND).then(() => (done = true));
      // Longer than silence is believed.
      await until(() => signs >= 20, "twenty signs of life");
      expect(done).toBe(false);
      clearInterval(sign);
      await commit;
      expect(await readdir(lock)).toEqual([]);
      expect(await store.get(["k"])).toMatchObject([{ value: "2" }]);
    });
  }

  it("that has rebooted since is dead at once", async () => {
    const store = await open({ busyTimeout: 1_000 });
    writeFileSync(join(lock, nameOf({ ...here, boot: "another boot" })), "");
    await store.commit(FIRST);
    expect(await readdir(lock)).toEqual([]);
  });

  it("with a pid that was reused is dead at once", async () => {
    const store = await open({ busyTimeout: 1_000 });
    writeFileSync(join(lock, nameOf({ ...here, start: "1" })), "");
    await store.commit(FIRST);
    expect(await readdir(lock)).toEqual([]);
  });
});

describe("a living process whose lock was taken over", () => {
  describe("while it waited for the disk", () => {
    let other: Store;
    let slow: Store;
    let watcher: Store;
    let isDone: boolean;
    beforeEach(async () => {
      let answer: (() => void) | undefined;
      const syncFile: SyncFile = (file, done) => {
        if (answer) fdatasync(file, done);
        else answer = () => fdatasync(file, done);
      };
      other = await open();
      await other.commit({ puts: [{ key: "k", value: "1" }] });
      watcher = await open();
      slow = await open(withTestHooks({ syncFile }));
      // Two commits: the process that takes over records only the state of the file after both.
      const commits = ["slow", "slow/2"].map((key) => slow.commit({ puts: [{ key, value: "1" }] }));
      const done = Promise.all(commits).then(
        () => true,
        () => false,
      );
      const answerNow = await until(() => answer, "the disk to be asked");
      takeOver();
      await other.commit({ puts: [{ key: "other", value: "1" }] });
      answerNow();
      isDone = await done;
    });

    it("does not overwrite the commit log", expectIntactLog);

    it("hides no commits from other processes", async () => {
      expect(await watcher.get(["other"])).toMatchObject([{ value: "1" }]);
    });

    it("does not overwrite the commits of other processes", async () => {
      await slow.commit({ puts: [{ key: "slow/3", value: "1" }] }).catch(isBusy);
      const reader = await open();
      expect(await reader.get(["other"])).toMatchObject([{ value: "1" }]);
      expect(await reader.check?.()).toEqual([]);
    });

    it("reads everything that was acknowledged to it", async () => {
      const reader = await open();
      expect(await reader.check?.()).toEqual([]);
      expect(await reader.get(["other"])).toMatchObject([{ value: "1" }]);
      if (isDone) expect(await reader.get(["slow", "slow/2"])).toMatchObject([{ value: "1" }, { value: "1" }]);
      expect(await contentOf(reader)).toEqual(await contentOf(other));
    });
  });

  for (const at of ["replace:written", "replace:renamed"]) {
    it(`does not replace a file that was written to meanwhile (${at})`, async () => {
      const other = await open();
      await other.commit(FIRST);
      await other.commit(SECOND);
      let isTaken = false;
      const probe = (point: string): void => {
        if (point !== at || isTaken) return;
        isTaken = true;
        takeOver();
        const commit = JSON.stringify({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
        expect(spawnSync(process.execPath, [CHILD, path, "commit", commit], { stdio: "inherit" }).status).toBe(0);
      };
      const slow = await open(withTestHooks({ probe }));
      await slow.compact().catch((error: unknown) => expect(isSavepointError(error)).toBe(true));
      expect(isTaken).toBe(true);
      await expectIntactLog();
      for (const reader of [await open(), other, slow]) {
        expect(await reader.items([{ tape: "t", start: 0, count: 3 }])).toEqual([frame(0), frame(1), frame(2)]);
        expect(await reader.check?.()).toEqual([]);
      }
    });
  }

  /** As another machine does it that has seen no sign for long. */
  function takeOver(): void {
    for (const name of readdirSync(lock))
      renameSync(join(lock, name), join(lock, nameOf({ ...thisProcess(), boot: "x" })));
  }
});

it("other files in the lock folder are left alone", async () => {
  const store = await open({ busyTimeout: 1_000 });
  const strays = [".DS_Store", "desktop.ini", "1-2-3", "notes"];
  for (const name of strays) await writeFile(join(lock, name), "x");
  await mkdir(join(lock, "folder"));
  await store.commit(FIRST);
  await store.compact();
  expect((await readdir(lock)).sort()).toEqual([...strays, "folder"].sort());
});

it("a lock of another handle in the same process is honoured", async () => {
  let answer: (() => void) | undefined;
  const syncFile: SyncFile = (file, done) => (answer = () => fdatasync(file, done));
  const slow = await open(withTestHooks({ syncFile }));
  const other = await open({ busyTimeout: 50 });
  const commit = slow.commit(FIRST);
  const answerNow = await until(() => answer, "the disk to be asked");
  await expect(other.commit(SECOND)).rejects.toMatchObject({ code: "BUSY" });
  answerNow();
  await commit;
  await other.commit(SECOND);
  expect(await contentOf(slow)).toEqual(await contentOf(other));
});

/** No process has overwritten what another one wrote. */
async function expectIntactLog(): Promise<void> {
  const lines = [...splitLines(await readFile(join(path, "commits.jsonl")), 0)];
  expect(lines.filter(({ bytes, ends }) => !ends || !parseLine(bytes)).map(({ bytes }) => bytes.toString())).toEqual(
    [],
  );
}

function isBusy(error: unknown): true {
  expect(error).toMatchObject({ code: "BUSY" });
  return true;
}

function start(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [CHILD, path, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  return child;
}

/** A process that stands still with the lock held. */
async function hold(point: string): Promise<ChildProcess> {
  const child = start("hold", point, JSON.stringify(SECOND));
  await once(child.stdout as NodeJS.ReadableStream, "data");
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

async function dieAt(point: string, work: string): Promise<void> {
  const child = start("die", point, work);
  expect((await once(child, "exit"))[1]).toBe("SIGKILL");
}

/** The name of a lock as such a process has it. */
function nameOf({ pid, start: began, namespace, boot, host }: ReturnType<typeof thisProcess>): string {
  return ["000000001", pid, encode(began), encode(namespace), encode(boot), encode(host), "0123456789ab"].join("-");
}

function encode(text: string | undefined): string {
  if (text === undefined) return "unknown";
  return /^\d+$/.test(text) ? text : createHash("sha256").update(text).digest("hex").slice(0, 12);
}
