/** A store that is opened read-only is never changed, in whatever state it is, and shows everything that was saved. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OpenTarget, Savepoint } from "../../src/index.js";
import { openMemoryStore, openStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { canMount, SmallDisk } from "../store/small-disk.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { requireOrSkip } from "../support/requires.js";

const isRoot = process.geteuid?.() === 0;
const itAsRoot = requireOrSkip(canMount, "needs root to mount a small disk");
const itAsUser = requireOrSkip(!isRoot, "needs a user who is not root");

let folder: string;
let writer: Writer | undefined;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(async () => {
  await writer?.kill();
  writer = undefined;
  await removeFolder(folder);
});

/** Another process that saves a number in session "s" whenever it is told to. */
class Writer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(url: string) {
    const program = `
      const { Savepoint } = await import("savepoint");
      const sp = await Savepoint.open(${JSON.stringify(url)});
      const session = sp.session("s");
      const lines = (await import("node:readline")).createInterface({ input: process.stdin });
      for await (const line of lines) {
        if (line === "close") break;
        await session.save({ n: Number(line), messages: [{ role: "user", content: "needle " + line }] });
        console.log(line);
      }
      await sp.close();
      console.log("closed");
      process.exit();`;
    this.#child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  }

  async save(n: number): Promise<void> {
    await this.#tell(String(n));
  }

  async close(): Promise<void> {
    await this.#tell("close");
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, "close");
    this.#child.kill("SIGKILL");
    await closed;
  }

  async #tell(line: string): Promise<void> {
    this.#child.stdin?.write(`${line}\n`);
    const { done } = await this.#lines.next();
    if (done) throw new Error("The writing process has ended.");
  }
}

/** Names, times and bytes of all files and folders. */
function contentsOf(path: string): Record<string, string> {
  const found: Record<string, string> = {};
  const visit = (entry: string): void => {
    const stats = lstatSync(entry, { bigint: true });
    const bytes = stats.isFile() ? readFileSync(entry).toString("base64") : "";
    found[relative(path, entry)] = `${stats.mode} ${stats.mtimeNs} ${bytes}`;
    if (stats.isDirectory()) for (const name of readdirSync(entry)) visit(join(entry, name));
  };
  visit(path);
  return found;
}

async function latest(sp: Savepoint): Promise<unknown> {
  return ((await sp.session("s").latest())?.state as { n: number } | undefined)?.n;
}

/** Reads everything in a store, and expects that its newest state is `n`. */
async function readAll(target: OpenTarget, n: number): Promise<void> {
  const sp = await Savepoint.open(target, { readOnly: true });
  try {
    expect(await latest(sp)).toBe(n);
    expect(await sp.search(`needle ${n}`)).toHaveLength(1);
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true });
    expect((await sp.stats()).sessions).toBe(1);
    await expect(sp.session("s").save({ n: -1 })).rejects.toMatchObject({ code: "READ_ONLY" });
  } finally {
    await sp.close();
  }
}

/** Fills a store in another process, which closes it or is killed. */
async function fill(url: string, { killed }: { killed: boolean }): Promise<void> {
  writer = new Writer(url);
  for (let n = 0; n < 5; n++) await writer.save(n);
  await (killed ? writer.kill() : writer.close());
}

const copiesIn = (path: string): string[] => readdirSync(path).filter((name) => name.startsWith("savepoint-read-"));

describe.each([
  { scheme: "sqlite", path: "store.db" },
  { scheme: "file", path: "store" },
])("a $scheme: store that is opened read-only", ({ scheme, path }) => {
  const url = (): string => `${scheme}:${join(folder, path)}`;

  it("is not created if it does not exist", async () => {
    const missing = `${scheme}:${join(folder, "sub", path)}`;
    await expect(Savepoint.open(missing, { readOnly: true })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("is not changed after a clean shutdown, and shows everything", async () => {
    await fill(url(), { killed: false });
    const before = contentsOf(folder);
    await readAll(url(), 4);
    expect(contentsOf(folder)).toEqual(before);
  });

  it("is not changed after kill -9, shows everything, and still reports the crash to the next process", async () => {
    await fill(url(), { killed: true });
    const before = contentsOf(folder);
    await readAll(url(), 4);
    expect(contentsOf(folder)).toEqual(before);
    const sp = await Savepoint.open(url());
    expect(sp.lastShutdown.clean).toBe(false);
    await sp.close();
  });

  it("shows what another process saves, closes and opens meanwhile", async () => {
    await fill(url(), { killed: false });
    const sp = await Savepoint.open(url(), { readOnly: true });
    expect(await latest(sp)).toBe(4);
    for (let round = 1; round <= 3; round++) {
      writer = new Writer(url());
      for (let n = 0; n < 3; n++) {
        await writer.save(10 * round + n);
        expect(await latest(sp)).toBe(10 * round + n);
      }
      await (round === 2 ? writer.kill() : writer.close());
      expect(await latest(sp)).toBe(10 * round + 2);
    }
    await sp.close();
  });

  itAsUser("can be on a medium that cannot be written, closed cleanly or after kill -9", async () => {
    for (const killed of [false, true]) {
      const place = join(folder, String(killed));
      mkdirSync(place);
      const target = `${scheme}:${join(place, path)}`;
      await fill(target, { killed });
      execFileSync("chmod", ["-R", "a-w", place]);
      try {
        const before = contentsOf(place);
        await readAll(target, 4);
        expect(contentsOf(place)).toEqual(before);
      } finally {
        execFileSync("chmod", ["-R", "u+w", place]);
      }
    }
  });

  itAsRoot("can be on a disk that is mounted read-only, closed cleanly or after kill -9", async () => {
    for (const killed of [false, true]) {
      const disk = new SmallDisk("8m");
      try {
        const target = `${scheme}:${join(disk.path, path)}`;
        await fill(target, { killed });
        execFileSync("mount", ["-o", "remount,ro", disk.path]);
        const before = contentsOf(disk.path);
        await readAll(target, 4);
        expect(contentsOf(disk.path)).toEqual(before);
      } finally {
        disk.unmount({ lazy: true });
      }
    }
  });
});

describe("a SQLite store that is opened read-only", () => {
  const file = (): string => join(folder, "store.db");
  const url = (): string => `sqlite:${file()}`;

  it("is read from a private copy if its -shm is missing, and the copy is removed", async () => {
    await fill(url(), { killed: true });
    rmSync(`${file()}-shm`);
    const before = contentsOf(folder);
    const copies = copiesIn(tmpdir());
    const sp = await Savepoint.open(url(), { readOnly: true });
    expect(await latest(sp)).toBe(4);
    const [copy = ""] = copiesIn(tmpdir()).filter((name) => !copies.includes(name));
    expect(lstatSync(join(tmpdir(), copy)).mode & 0o777).toBe(0o700);
    await sp.close();
    expect(existsSync(join(tmpdir(), copy))).toBe(false);
    await readAll(url(), 4);
    expect(contentsOf(folder)).toEqual(before);
    // The next writer is noticed.
    const reader = await Savepoint.open(url(), { readOnly: true });
    writer = new Writer(url());
    await writer.save(5);
    expect(await latest(reader)).toBe(5);
    await reader.close();
  });

  it("can have an empty -wal", async () => {
    await fill(url(), { killed: false });
    execFileSync("touch", [`${file()}-wal`]);
    const before = contentsOf(folder);
    await readAll(url(), 4);
    expect(contentsOf(folder)).toEqual(before);
  });

  it("does not flush the write buffer of another process, and shows its commits", async () => {
    writer = new Writer(url());
    for (let n = 0; n < 5; n++) await writer.save(n);
    const countBuffered = async (): Promise<unknown> => {
      const database = await openDatabase(file());
      const row = database.prepare("SELECT count(*) AS count FROM savepoint_buffer").get() as { count: number };
      database.close();
      return row.count;
    };
    const before = await countBuffered();
    expect(before).toBeGreaterThan(0);
    await readAll(url(), 4);
    expect(await countBuffered()).toBe(before);
  });

  it("can be a handle of the caller, which is not written through", async () => {
    await fill(url(), { killed: false });
    const database = await openDatabase(file());
    await readAll(database, 4);
    expect(database.prepare("SELECT count(*) AS count FROM sqlite_schema WHERE name LIKE '%text%'").get()).toEqual(
      expect.objectContaining({ count: 0 }),
    );
    database.close();
  });

  itAsRoot("can belong to another user who left it with a WAL", async () => {
    await fill(url(), { killed: true });
    const unprivileged = 65_534;
    chmodSync(folder, 0o755);
    execFileSync("chmod", ["-R", "a+r", folder]);
    const before = contentsOf(folder);
    const uid = process.geteuid?.() ?? 0;
    process.seteuid?.(unprivileged);
    try {
      await readAll(url(), 4);
    } finally {
      process.seteuid?.(uid);
    }
    expect(contentsOf(folder)).toEqual(before);
  });
});

describe("a file store that is opened read-only", () => {
  it("can lack the empty folders that version control does not store", async () => {
    const path = join(folder, "store");
    await fill(`file:${path}`, { killed: false });
    for (const name of ["lock", "blobs"]) rmSync(join(path, name), { recursive: true });
    const before = contentsOf(folder);
    await readAll(`file:${path}`, 4);
    expect(contentsOf(folder)).toEqual(before);
  });
});

describe("every write to a store that was opened read-only", () => {
  it("is rejected with READ_ONLY, also on a store of the caller, which stays open", async () => {
    const target = openMemoryStore();
    const sp = await Savepoint.open(target);
    await sp.session("s").save({ n: 1 });
    const reader = await Savepoint.open(target, { readOnly: true });
    const first = await reader.session("s").latest();
    const writes: (() => Promise<unknown>)[] = [
      () => reader.session("s").save({ n: 2 }),
      () => reader.session("s").fork(first?.id ?? "", { branch: "b" }),
      () => reader.sessions.delete("s"),
      () => reader.agents.save({ id: "a", name: "A", state: {} }),
      () => reader.conversations.create({ id: "c", messages: [] }),
      () => reader.compact(),
      () => reader.retention.set({}, { keepLast: 1 }),
    ];
    for (const write of writes) await expect(write()).rejects.toMatchObject({ code: "READ_ONLY" });
    await expect(reader.session("s").save({ n: 2 })).rejects.toThrow("Open it without `readOnly` to write.");
    await reader.close();
    expect(await latest(sp)).toBe(1);
    await sp.close();
    await target.close();
  });

  it("is rejected by the store itself for every method that writes", async () => {
    const store = await openStore("memory:", { readOnly: true });
    const writes = [
      store.commit({ puts: [{ key: "a", value: "1" }] }),
      store.retain("t", [], { below: 1 }),
      store.dropBlobs([], { unusedSince: 0 }),
      store.compact(),
      store.heal("t", new Map()),
    ];
    for (const write of writes) await expect(write).rejects.toMatchObject({ code: "READ_ONLY" });
    expect(store).toMatchObject({ texts: undefined, reserve: undefined, listen: undefined });
    expect(await store.get(["a"])).toEqual([undefined]);
    await store.close();
  });
});
