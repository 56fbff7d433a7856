/** A process that holds the lock and shows no sign of life, because it is frozen or computes, and what it does afterwards. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WRITE_POINTS } from "../../src/store/file/write-points.js";
import { openFileStore, type Commit, type Store } from "../../src/store.js";
import { blobOf, contentOf, frame } from "../../src/testing/samples.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const CHILD = fileURLToPath(new URL("./file-child.mjs", import.meta.url));
/** How long the holder may show no sign of life here, in milliseconds. */
const SILENCE = 300;
const FIRST: Commit = { puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] };
/** It conflicts with itself, should it be written twice. */
const SECOND: Commit = {
  checks: [{ key: "k", value: "1" }],
  puts: [{ key: "k", value: "2" }],
  items: [{ tape: "t", first: 1, items: [frame(1)] }],
};
/** By the process that takes over, to the same file and to another one. */
const OTHERS: Commit[] = [
  { puts: [{ key: "other", value: "1" }], items: [{ tape: "t", first: 10, items: [frame(10)] }] },
  { puts: [{ key: "another", value: "1" }] },
];

let folder: string;
let path: string;
let child: ChildProcess | undefined;
let lines: Interface;
let stores: Store[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  child = undefined;
  stores = [];
});
afterEach(async () => {
  if (child && child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

/** A store that is closed after the test. */
async function open(silence = SILENCE): Promise<Store> {
  const store = await openFileStore(path, { busyTimeout: "60s" }, { silence });
  stores.push(store);
  return store;
}

/** A process that stands still at a point of its work. */
async function freezeAt(point: string, work: Commit | "compact", options = {}): Promise<ChildProcess> {
  const text = work === "compact" ? work : JSON.stringify(work);
  const started = start("freeze", point, text, JSON.stringify({ silence: SILENCE, ...options }));
  expect(await nextLine()).toBe("frozen");
  while (!/\) T /.test(readFileSync(`/proc/${started.pid}/stat`, "utf8"))) await sleep(1);
  return started;
}

function start(...args: string[]): ChildProcess {
  child = spawn(process.execPath, [CHILD, path, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  return child;
}

async function nextLine(): Promise<string> {
  const [line] = (await Promise.race([once(lines, "line"), once(lines, "close")])) as [string?];
  if (line === undefined) throw new Error("The process has ended.");
  return line;
}

const onLinux = it.runIf(process.platform === "linux");
const savePoints = WRITE_POINTS.filter((point) => !point.includes(":"));
const packPoints = WRITE_POINTS.filter((point) => point.includes(":"));

describe("beside a process that is frozen while it saves,", () => {
  for (const point of savePoints) {
    onLinux(`at "${point}", others read at once and write soon, and its save is finished once it wakes`, async () => {
      const store = await open();
      await store.commit(FIRST);
      const before = await contentOf(store);
      const frozen = await freezeAt(point, SECOND);
      // With a lock they would wait for as long as it is frozen.
      const reader = await open(3_600_000);
      if (point !== "logged") expect(await contentOf(reader)).toEqual(before);
      for (const commit of OTHERS) await store.commit(commit);
      const isComplete = ["written", "synced", "logged"].includes(point);
      expect(await store.get(["k", "other"])).toMatchObject([{ value: isComplete ? "2" : "1" }, { value: "1" }]);
      expect(await contentOf(reader)).toEqual(await contentOf(store));
      const outcome = nextLine();
      const exit = once(frozen, "exit");
      frozen.kill("SIGCONT");
      expect(await outcome).toBe("done");
      await exit;
      for (const each of [store, reader, await open()]) {
        expect(await each.get(["k", "other", "another"])).toMatchObject([
          { value: "2" },
          { value: "1" },
          { value: "1" },
        ]);
        const items = await each.items([0, 1, 10].map((start) => ({ tape: "t", start, count: 1 })));
        expect(items).toEqual([frame(0), frame(1), frame(10)]);
        expect(await each.check?.()).toEqual([]);
      }
      expect(await readdir(join(path, "lock"))).toEqual([]);
    });
  }

  for (const commits of [[], OTHERS]) {
    for (const dieAt of ["torn", "written"]) {
      const what = dieAt === "torn" ? "a part of a save" : "a save";
      const where = commits.length === 0 ? "at the end of a file" : "behind the commits of others";
      onLinux(`${what} that it writes after it lost the lock never counts, ${where}`, async () => {
        const store = await open();
        await store.commit(FIRST);
        const frozen = await freezeAt("checked", SECOND, { dieAt, tears: dieAt === "torn" });
        await store.commit({ puts: [{ key: "taken", value: "1" }] });
        for (const commit of commits) await store.commit(commit);
        const before = await contentOf(store);
        const { size } = statSync(join(path, "tapes", "t-t.jsonl"));
        const exit = once(frozen, "exit");
        frozen.kill("SIGCONT");
        expect((await exit)[1]).toBe("SIGKILL");
        expect(statSync(join(path, "tapes", "t-t.jsonl")).size, "it has written").toBeGreaterThan(size);
        for (const each of [store, await open()]) {
          expect(await contentOf(each)).toEqual(before);
          expect(await each.check?.()).toEqual([]);
        }
        // It hinders neither the next writer nor packing.
        await store.commit({ items: [{ tape: "t", first: 1, items: [frame("1")] }] });
        await store.compact();
        for (const each of [store, await open()]) {
          expect(await each.get(["k"])).toMatchObject([{ value: "1" }]);
          expect(await each.items([{ tape: "t", start: 0, count: 2 }])).toEqual([frame(0), frame("1")]);
          expect(await each.check?.()).toEqual([]);
        }
      });
    }
  }

  onLinux("a save that it wrote too late is written again, once", async () => {
    const store = await open();
    await store.commit(FIRST);
    const frozen = await freezeAt("checked", SECOND, { tears: false });
    for (const commit of OTHERS) await store.commit(commit);
    const outcome = nextLine();
    const exit = once(frozen, "exit");
    frozen.kill("SIGCONT");
    expect(await outcome).toBe("done");
    await exit;
    for (const each of [store, await open()]) {
      expect(await each.get(["k", "other"])).toMatchObject([{ value: "2" }, { value: "1" }]);
      expect(await each.items([{ tape: "t", start: 0, count: 2 }])).toEqual([frame(0), frame(1)]);
      expect(await each.check?.()).toEqual([]);
    }
  });
});

describe("beside a process that is frozen while it packs,", () => {
  for (const point of packPoints) {
    onLinux(
      `at "${point}", others read at once and write soon, and nothing of that is lost once it wakes`,
      async () => {
        const store = await open();
        await store.commit(FIRST);
        await store.commit({ puts: [{ key: "k", value: "1.5" }], items: [{ tape: "t", first: 1, items: [frame(1)] }] });
        const before = await contentOf(store);
        const frozen = await freezeAt(point, "compact");
        const reader = await open(3_600_000);
        expect(await contentOf(reader)).toEqual(before);
        for (const commit of OTHERS) await store.commit(commit);
        const after = await contentOf(store);
        const outcome = nextLine();
        const exit = once(frozen, "exit");
        frozen.kill("SIGCONT");
        expect(await outcome).toBe("done");
        await exit;
        for (const each of [store, reader, await open()]) {
          expect(await contentOf(each)).toEqual(after);
          expect(await each.check?.()).toEqual([]);
        }
        const names = await readdir(path, { recursive: true });
        expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
      },
    );
  }
});

describe("beside a process that computes after it has begun to save,", () => {
  it("others read at once and write soon, and its save is acknowledged once it is done", async () => {
    const store = await open();
    await store.commit(FIRST);
    const isDone = join(folder, "done");
    const computing = start("compute", isDone, JSON.stringify(SECOND), JSON.stringify({ silence: SILENCE }));
    expect(await nextLine()).toBe("computing");
    expect(await readdir(join(path, "lock"))).toHaveLength(1);
    const reader = await open(3_600_000);
    expect(await reader.get(["k"])).toMatchObject([{ value: "1" }]);
    for (const commit of OTHERS) await store.commit(commit);
    const exit = once(computing, "exit");
    const outcome = nextLine();
    writeFileSync(isDone, "");
    expect(await outcome).toBe("done");
    await exit;
    for (const each of [store, reader, await open()]) {
      expect(await each.get(["k", "other", "another"])).toMatchObject([{ value: "2" }, { value: "1" }, { value: "1" }]);
      expect(await each.check?.()).toEqual([]);
    }
  });
});

it("no other code of a process runs while it holds the lock, if its disk is fast or not waited for", async () => {
  const store = await openFileStore(path, { durability: "process" });
  stores.push(store);
  await store.commit(FIRST);
  const locks: string[] = [];
  let isDone = false;
  const saves = (async () => {
    // Blobs are written before the lock is taken.
    for (let n = 0; n < 20; n++) {
      await store.commit({ puts: [{ key: "n", value: String(n) }], blobs: [blobOf(`blob ${n}`)] });
    }
    isDone = true;
  })();
  while (!isDone) {
    locks.push(...readdirSync(join(path, "lock")));
    await nextTurn();
  }
  await saves;
  expect(locks).toEqual([]);
});
