/** Unfinished writes of dead processes, and how they are distinguished from damage. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFile, cp, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { parseLine, splitLines } from "../../src/store/file/lines.js";
import { openFileStore, type Commit, type Store } from "../../src/store.js";
import type { DiskOptions } from "../../src/store/contract/options.js";
import { contentOf, frame } from "../../src/testing/samples.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const CHILD = fileURLToPath(new URL("./file-child.mjs", import.meta.url));

let folder: string;
let path: string;
let stores: Store[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  stores = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await removeFolder(folder);
});

/** A store that is closed after the test. */
async function open(options: DiskOptions = {}): Promise<Store> {
  const store = await openFileStore(path, options);
  stores.push(store);
  return store;
}

async function withStore<T>(work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openFileStore(path);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const write = (...commits: Commit[]): Promise<void> =>
  withStore(async (store) => {
    for (const commit of commits) await store.commit(commit);
  });

describe("an unfinished commit at the end of a file", () => {
  const first: Commit = { puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] };
  const second: Commit = {
    deletes: ["k"],
    puts: [{ key: "l", value: "2\n3" }],
    items: [{ tape: "t", first: 1, items: [frame("é"), frame(2)] }],
  };

  it("is ignored by readers and cut off by the next writer, whatever its length", async () => {
    await write(first);
    const file = join(path, "tapes", "t-t.jsonl");
    const { size } = await stat(file);
    const log = await readFile(join(path, "commits.jsonl"));
    const before = await withStore(contentOf);
    await write(second);
    const longer = await readFile(file);
    expect(longer.length).toBeGreaterThan(size);
    const last = longer.length - 1;
    for (let length = size + 1; length <= last; length += length > last - 20 ? 1 : 7) {
      await writeFile(file, longer.subarray(0, length));
      await writeFile(join(path, "commits.jsonl"), log);
      await withStore(async (store) => {
        expect(await contentOf(store), `${length} bytes`).toEqual(before);
        expect(await store.check?.()).toEqual([]);
        expect((await stat(file)).size, "reading changes nothing").toBe(length);
        await store.retain("t", [], { below: 0 });
        expect((await stat(file)).size, `${length} bytes`).toBe(size);
        expect(await contentOf(store), `${length} bytes`).toEqual(before);
      });
    }
  });

  it("is valid as soon as it is complete, even if the commit log does not contain it", async () => {
    await write(first);
    const log = await readFile(join(path, "commits.jsonl"));
    await write(second);
    const after = await withStore(contentOf);
    await writeFile(join(path, "commits.jsonl"), log);
    await withStore(async (store) => {
      expect(await contentOf(store)).toEqual(after);
      expect(await store.check?.()).toEqual([]);
    });
  });

  it("is cut off in a new file, which can then be written to", async () => {
    await write(first);
    const file = join(path, "records.jsonl");
    for (const text of ["", "{", '{"savepoint":1,"file":"records"', "\0\0\0\0"]) {
      await writeFile(file, text);
      await withStore(async (store) => expect(await store.check?.()).toEqual([]));
      await write({ puts: [{ key: "new", value: text === "" ? "0" : "1" }] });
      await withStore(async (store) => expect(await store.get(["k", "new"])).toMatchObject([{ value: "1" }, {}]));
      await write({ deletes: ["new"] });
      await withStore((store) => store.compact());
    }
  });

  it("is cut off by the next writer if its process has died", async () => {
    const other = await open();
    await other.commit(first);
    const before = await contentOf(other);
    expect(die("torn", second)).toBe("SIGKILL");
    const file = join(path, "tapes", "t-t.jsonl");
    const torn = (await stat(file)).size;
    expect(await contentOf(other), "whoever only reads does not see it").toEqual(before);
    expect((await stat(file)).size, "and leaves it").toBe(torn);
    await other.commit({ puts: [{ key: "after", value: "1" }], items: [{ tape: "t", first: 1, items: [frame(9)] }] });
    const all = await contentOf(other);
    expect(all.tapes["t"]?.slice(0, 3)).toEqual([frame(0), frame(9), "missing"]);
    await withStore(async (store) => {
      expect(await contentOf(store)).toEqual(all);
      expect(await store.check?.()).toEqual([]);
    });
  });

  it("in a new file is not confused with an earlier file of the same name", async () => {
    const idle = await open();
    const busy = await open();
    await busy.commit({ puts: [{ key: "k", value: "1" }] });
    expect(await idle.get(["k"])).toMatchObject([{ value: "1" }]);
    await busy.commit({ deletes: ["k"] });
    await busy.compact();
    await writeFile(join(path, "records.jsonl"), '{"savepo');
    await write({ puts: [{ key: "k", value: "2" }] });
    expect(await idle.get(["k"])).toMatchObject([{ value: "2" }]);
    await idle.commit({ puts: [{ key: "l", value: "1" }] });
    await withStore(async (store) => {
      expect(await store.get(["k", "l"])).toMatchObject([{ value: "2" }, { value: "1" }]);
      expect(await store.check?.()).toEqual([]);
    });
  });

  it("is not touched while a living process is writing it", async () => {
    const other = await open({ busyTimeout: 50 });
    await other.commit(first);
    const before = await contentOf(other);
    const child = spawn(process.execPath, [CHILD, path, "hold", "torn", JSON.stringify(second)]);
    onTestFinished(async () => {
      child.kill("SIGKILL");
    });
    await once(child.stdout, "data");
    const file = join(path, "tapes", "t-t.jsonl");
    const torn = await readFile(file);
    await withStore(async (store) => expect(await contentOf(store)).toEqual(before));
    await expect(other.commit({ puts: [{ key: "x", value: "1" }] })).rejects.toMatchObject({ code: "BUSY" });
    expect(await contentOf(other)).toEqual(before);
    expect(await readFile(file)).toEqual(torn);
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
    await withStore(async (store) => expect(await contentOf(store)).toEqual(before));
  });
});

describe("a damaged line", () => {
  it("before intact lines is reported as damage and not cut off", async () => {
    await write(
      { puts: [{ key: "a", value: "1" }] },
      { puts: [{ key: "b", value: "1" }] },
      { puts: [{ key: "c", value: "1" }] },
    );
    const file = join(path, "records.jsonl");
    const bytes = await damageLine(file, (fields) => fields["put"] === "b");
    for (let time = 0; time < 3; time++) {
      await withStore(async (store) => {
        expect(await store.get(["a", "c"])).toMatchObject([{ value: "1" }, { value: "1" }]);
        expect((await store.get(["b"]))[0]).toHaveProperty("unreadable");
        expect(await store.check?.()).toHaveLength(1);
      });
      expect((await readFile(file)).subarray(0, bytes.length)).toEqual(bytes);
    }
    await write({ puts: [{ key: "b", value: "2" }] });
    await withStore(async (store) => expect(await store.get(["b"])).toMatchObject([{ value: "2" }]));
  });

  it("at the end of a file is damage if it was acknowledged", async () => {
    await write({ puts: [{ key: "a", value: "1" }] }, { puts: [{ key: "a", value: "2" }] });
    const file = join(path, "records.jsonl");
    await truncate(file, (await stat(file)).size - 100);
    for (let time = 0; time < 2; time++) {
      await withStore(async (store) => expect((await store.get(["a"]))[0]).toHaveProperty("unreadable"));
    }
  });

  it("at the end of a file is not cut off if the commit log is missing, because it may have been acknowledged", async () => {
    await write({ puts: [{ key: "a", value: "1" }] });
    const file = join(path, "records.jsonl");
    await appendFile(file, '{"put":"a","at":2,"value":"2"');
    await rm(join(path, "commits.jsonl"));
    const bytes = await readFile(file);
    await withStore(async (store) => {
      expect(await store.get(["a"])).toMatchObject([{ value: "1" }]);
      expect(await store.check?.()).not.toEqual([]);
    });
    expect((await readFile(file)).subarray(0, bytes.length)).toEqual(bytes);
  });

  it("does not affect the intact lines of its commit", async () => {
    await write({ puts: [{ key: "k", value: "1" }] }, { deletes: ["k"], puts: [{ key: "k", value: "2" }] });
    await damageLine(join(path, "records.jsonl"), (fields) => fields["delete"] === "k");
    await withStore(async (store) => expect(await store.get(["k"])).toMatchObject([{ value: "2" }]));
  });

  describe("that lacks only its line end, because the end of its file is missing,", () => {
    const KEYS = ["a", "b", "c"];
    const file = (): string => join(path, "tapes", "t-t.jsonl");
    /** Cuts the file before the line end of its last item. */
    beforeEach(async () => {
      const items = [{ tape: "t", first: 0, items: [frame(0), frame(1)] }];
      await write({ puts: KEYS.map((key) => ({ key, value: `"${key}"` })), items });
      const bytes = await readFile(file());
      const lines = [...splitLines(bytes, 0)];
      const last = lines.find((line) => parseLine(line.bytes)?.fields["item"] === 1);
      await truncate(file(), (last?.offset ?? 0) + (last?.bytes.length ?? 0));
    });
    const expectAll = async (store: Store): Promise<void> => {
      expect(await store.get(KEYS)).toMatchObject(KEYS.map((key) => ({ key, value: `"${key}"` })));
      expect(await store.items([{ tape: "t", start: 0, count: 2 }])).toEqual([frame(0), frame(1)]);
    };

    it("is intact as soon as a writer has completed it, with the other lines of its commit", async () => {
      await withStore(async (store) => {
        expect(await store.check?.()).not.toEqual([]);
        await store.commit({ puts: [{ key: "d", value: "1" }] });
        await expectAll(store);
      });
      await withStore(expectAll);
      await write({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
      await withStore(expectAll);
    });

    it("is kept when the writer that has completed it compacts the file", async () => {
      await withStore(async (store) => {
        await store.commit({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
        await store.retain("t", [{ start: 0, count: 2 }], { below: 3, repack: true });
        await expectAll(store);
      });
      await withStore(expectAll);
    });

    it("is intact also if the commit log is missing, and so is its commit if it is the last line of that", async () => {
      await write({ items: [{ tape: "t", first: 2, items: [frame(2)] }] });
      await truncate(file(), (await stat(file())).size - 1);
      await rm(join(path, "commits.jsonl"));
      await withStore(async (store) => {
        await store.commit({ items: [{ tape: "t", first: 3, items: [frame(3)] }] });
        const span = { tape: "t", start: 0, count: 4 };
        const found = await store.items([span]);
        expect(found).toEqual([frame(0), frame(1), frame(2), frame(3)]);
        await withStore(async (other) => expect(await other.items([span])).toEqual(found));
      });
    });
  });

  /** The line by which something went: its commit's last line knows it too. */
  describe("that removes a record keeps the record removed", () => {
    beforeEach(async () => {
      await write(
        { puts: [{ key: "k", value: "1" }] },
        { deletes: ["k"], items: [{ tape: "t", first: 0, items: [frame(0), frame(1)] }] },
      );
      await damageLine(join(path, "tapes", "t-t.jsonl"), (fields) => fields["delete"] === "k");
    });
    const expectGone = (): Promise<void> =>
      withStore(async (store) => expect(await store.get(["k"])).toEqual([undefined]));

    it("before any compaction", expectGone);

    it("after its file is compacted", async () => {
      await withStore((store) => store.retain("t", [{ start: 1, count: 1 }], { below: 2, repack: true }));
      await expectGone();
    });

    it("after everything is compacted", async () => {
      await withStore((store) => store.compact());
      await expectGone();
    });
  });

  it("of a record that was deleted later is dropped when everything is compacted", async () => {
    await write(
      { puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] },
      { puts: [{ key: "other", value: "1" }] },
    );
    await damageLine(join(path, "tapes", "t-t.jsonl"), (fields) => fields["put"] === "k");
    await write({ deletes: ["k"] });
    await withStore((store) => store.compact());
    await withStore(async (store) => expect(await store.get(["k"])).toEqual([undefined]));
  });

  it("does not bring back records that were deleted from its file when everything is compacted", async () => {
    await write(
      { puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] },
      { items: [{ tape: "t", first: 1, items: [frame(1)] }] },
      { deletes: ["k"] },
    );
    await damageLine(join(path, "tapes", "t-t.jsonl"), (fields) => fields["item"] === 1);
    await withStore(async (store) => {
      expect(await store.get(["k"])).toEqual([undefined]);
      await store.compact();
    });
    await withStore(async (store) => {
      expect(await store.get(["k"])).toEqual([undefined]);
      expect(await store.items([{ tape: "t", start: 0, count: 1 }])).toEqual([frame(0)]);
    });
  });

  it("in a commit log that was shortened does not bring back older versions", async () => {
    const many = Array.from({ length: 9_000 }, (_, n) => ({
      puts: [{ key: `key/${n % 10}/${"x".repeat(40)}`, value: "1" }],
    }));
    const store = await openFileStore(path, { durability: "process" });
    await store.commit({ puts: [{ key: "k", value: "old" }] });
    await store.commit({ puts: [{ key: "k", value: "new" }] });
    const log = join(path, "commits.jsonl");
    for (let size = 0; ;) {
      await Promise.all(many.splice(0, 256).map((commit) => store.commit(commit)));
      const now = (await stat(log)).size;
      if (now < size) break;
      size = now;
      expect(many.length, "the list is shortened at some time").toBeGreaterThan(0);
    }
    await store.close();
    const file = join(path, "records.jsonl");
    const bytes = await readFile(file);
    // Between the record and the last line of its commit: neither is a line any more.
    const end = bytes.indexOf("\n", bytes.indexOf('"new"'));
    bytes[end] = (bytes[end] as number) ^ 1;
    await writeFile(file, bytes);
    await withStore(async (again) => expect(await again.get(["k"])).not.toMatchObject([{ value: "old" }]));
  });

  it("is reported also to processes that have the store open", async () => {
    await write({ puts: [{ key: "a", value: "1" }] }, { puts: [{ key: "b", value: "1" }] });
    const copy = join(folder, "copy");
    await cp(path, copy, { recursive: true });
    await damageLine(join(path, "records.jsonl"), (fields) => fields["put"] === "a");
    const one = await openFileStore(path);
    const two = await openFileStore(path);
    await one.commit({ puts: [{ key: "c", value: "1" }] });
    for (const store of [one, two]) {
      expect((await store.get(["a"]))[0]).toHaveProperty("unreadable");
      expect(await store.get(["b", "c"])).toMatchObject([{ value: "1" }, { value: "1" }]);
      await store.close();
    }
  });
});

/** How a process ends that is killed at a point of a write. */
function die(point: string, work: Commit | "compact"): string | null {
  const text = work === "compact" ? work : JSON.stringify(work);
  return spawnSync(process.execPath, [CHILD, path, "die", point, text], { stdio: "inherit" }).signal;
}

/** Flips a bit in the middle of the last such line; returns what is in the file then. */
async function damageLine(file: string, isIt: (fields: Readonly<Record<string, unknown>>) => boolean): Promise<Buffer> {
  const bytes = await readFile(file);
  const lines = [...splitLines(bytes, 0)].filter((line) => isIt(parseLine(line.bytes)?.fields ?? {}));
  const line = lines.at(-1);
  if (!line) throw new Error(`There is no such line in ${file}.`);
  const middle = line.offset + (line.bytes.length >> 1);
  bytes[middle] = (bytes[middle] as number) ^ 1;
  await writeFile(file, bytes);
  return bytes;
}
