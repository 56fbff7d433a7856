/** Races around the lock of a folder that need one exact order of events: each is staged within one process. */
import { appendFileSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StoreAccess } from "../../src/store/file/access.js";
import { StoreContents } from "../../src/store/file/contents.js";
import type { HeldLock } from "../../src/store/file/lock.js";
import { Folder } from "../../src/store/file/folder.js";
import { encodeLine, encodeValueLine } from "../../src/store/file/lines.js";
import { fencedName, newLockName } from "../../src/store/file/lock-files.js";
import { FolderLock } from "../../src/store/file/lock.js";
import { openFileStore, type Store } from "../../src/store.js";
import { blobOf, frame } from "../../src/testing/samples.js";
import { withTestHooks } from "../../src/store/shared/index.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

let folder: string;
let path: string;
let lock: string;
let stores: Store[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  lock = join(path, "lock");
  stores = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

async function open(probe?: (point: string) => void): Promise<Store> {
  const store = await openFileStore(path, withTestHooks(probe ? { probe } : {}));
  stores.push(store);
  return store;
}

/** The parts of a store, so that a test can act between two of its steps. */
function openParts(): StoreAccess {
  const options = { timeout: 10_000, report: () => {} };
  return new StoreAccess(
    new StoreContents(new Folder(path), `file:${path}`),
    new FolderLock(lock, `file:${path}`, options),
  );
}

/** A commit that puts one record, complete in its file and not in the commit log. */
function appendCommit(key: string, at: number): void {
  const head = { put: key, at };
  appendFileSync(join(path, "records.jsonl"), encodeValueLine(head, "1") + encodeLine({ commit: at, holds: [head] }));
}

describe("a process that takes over the lock", () => {
  it("makes all processes accept the same commits, even if an earlier holder adds its fence at the same time", async () => {
    const store = await open();
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    // By the process that lost the lock first: the second one has not read it, the third one has.
    appendCommit("late", 2);
    writeFileSync(join(lock, fencedName(newLockName(Date.now()))), "");
    const [third, reader] = [openParts(), openParts()];
    const raiseFence = third.contents.raiseFence.bind(third.contents);
    let isSecondDone = false;
    third.contents.raiseFence = (held) => {
      if (!isSecondDone) {
        appendFileSync(join(path, "commits.jsonl"), encodeLine({ fence: 1, after: 1 }));
        reader.contents.load({ isBusy: true, acceptsReplaced: true });
      }
      isSecondDone = true;
      return raiseFence(held);
    };
    expect(await third.exclusive(() => third.contents.catalog.record("late")?.length)).toBeGreaterThan(0);
    expect(reader.contents.catchUp(), "what was read in between must be read anew").toBe(false);
    for (const each of [store, await open()]) {
      expect(await each.get(["k", "late"])).toMatchObject([{ value: "1" }, { value: "1" }]);
      expect(await each.check?.()).toEqual([]);
    }
    expect(readdirSync(lock)).toEqual([]);
  });

  it("shows signs of life with every file that it reads and logs", async () => {
    const store = await open();
    for (const tape of ["a", "b", "c"]) await store.commit({ items: [{ tape, first: 0, items: [frame(0)] }] });
    const counts = { load: 0, rewrite: 0 };
    const { contents } = openParts();
    const lockOf = (part: keyof typeof counts): HeldLock => ({
      isHeld: true,
      assertHeld: () => {},
      refresh: () => counts[part]++,
    });
    contents.recover(lockOf("load"));
    rmSync(join(path, "commits.jsonl"));
    contents.recover(lockOf("rewrite"));
    expect(counts.load).toBeGreaterThanOrEqual(3);
    expect(counts.rewrite, "the list is written anew").toBeGreaterThanOrEqual(2 * counts.load);
  });

  it("does not accept a save whose blob was removed meanwhile", async () => {
    const blob = blobOf("b".repeat(2_000));
    let isTaken = false;
    const store = await open((point) => {
      if (point !== "torn" || isTaken) return;
      isTaken = true;
      for (const name of readdirSync(lock)) renameSync(join(lock, name), join(lock, fencedName(name)));
      rmSync(join(path, "blobs"), { recursive: true });
    });
    await store.commit({ puts: [{ key: "k", value: "1" }], blobs: [blob] });
    expect(isTaken).toBe(true);
    const found = await store.blob(blob.hash);
    expect("unreadable" in found ? found : new Uint8Array(found)).toEqual(blob.bytes);
  });
});

describe("a process that reads everything while another one saves", () => {
  for (const isReleased of [false, true]) {
    const when = isReleased ? "has come and gone" : "is still there";
    it(`accepts only commits in the commit log if file times are coarse and the lock ${when}`, async () => {
      const store = await open();
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      const second = new Date(Math.floor(Date.now() / 1_000) * 1_000);
      utimesSync(lock, second, second);
      const { mtimeMs } = statSync(lock);
      const reader = openParts();
      const load = reader.contents.load.bind(reader.contents);
      const loads: boolean[] = [];
      reader.contents.load = (reading) => {
        loads.push(reading.isBusy);
        if (loads.length === 1) {
          const held = join(lock, newLockName(Date.now()));
          writeFileSync(held, "");
          appendCommit("unsynced", 2);
          const result = load(reading);
          if (isReleased) {
            // A save that succeeded is in the list by then. This one stays out of it, so that counting it would show.
            appendFileSync(join(path, "commits.jsonl"), encodeLine({ last: 2 }));
            rmSync(held);
          }
          utimesSync(lock, second, second);
          return result;
        }
        return load(reading);
      };
      const isCounted = await reader.read(() => reader.contents.catalog.record("unsynced") !== undefined);
      expect(statSync(lock).mtimeMs).toBe(mtimeMs);
      expect(loads).toEqual([false, true]);
      expect(isCounted).toBe(false);
      for (const name of readdirSync(lock)) rmSync(join(lock, name));
    });
  }
});
