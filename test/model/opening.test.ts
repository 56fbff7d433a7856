import { existsSync } from "node:fs";
import { mkdir, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type DamageEvent, Savepoint } from "../../src/index.js";
import { openMemoryStore, openSqliteStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("closing on $name", (kind) => {
  const data = useData(kind);

  it("waits for saves in progress, by handles that know the session and those that do not", async () => {
    const first = await data.open();
    const warm = first.session("warm");
    await warm.save(0);
    await first.session("cold").save({ list: messages(50) });
    const sp = await data.open();
    const saving = [warm.save(1), sp.session("cold").save(1), sp.session("new").save(1)];
    await Promise.all([first.close(), sp.close()]);
    await Promise.all(saving);
    const again = await data.open();
    for (const id of ["warm", "cold", "new"]) expect((await again.session(id).latest())?.state).toBe(1);
  });

  it("makes every call fail with CLOSED, and may be done twice", async () => {
    const sp = await data.open();
    const session = sp.session<{ list: number[] }>("s");
    const { id } = await session.save({ list: [1] });
    const history = session.history();
    await sp.close();
    await sp.close();
    const tries: (() => Promise<unknown>)[] = [
      () => session.save({ list: [] }),
      () => session.append("/list", [2]),
      () => session.update(() => ({ list: [] })),
      () => session.latest(),
      () => session.head(),
      () => session.load(id),
      () => session.fork(id),
      () => session.rewind(id),
      () => session.diff(id, id),
      () => session.label(id, "x"),
      () => session.pin(id),
      () => session.clear(),
      () => history.all(),
      () => session.branches().all(),
      () => sp.sessions.list().all(),
      () => sp.sessions.load("s"),
      () => sp.sessions.delete("s"),
      () => sp.compact(),
      () => sp.bytes(),
    ];
    for (const attempt of tries) await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "CLOSED" });
    expect(() => sp.session("t")).toThrow(expect.objectContaining({ code: "CLOSED" }) as Error);
    expect((await (await data.open()).session("s").latest())?.state).toEqual({ list: [1] });
  });

  it("happens at the end of an `await using` block", async () => {
    let outside: Savepoint;
    {
      await using sp = await data.open();
      outside = sp;
      await sp.session("s").save(1);
    }
    expect(() => outside.session("s")).toThrow(expect.objectContaining({ code: "CLOSED" }) as Error);
    expect((await (await data.open()).session("s").latest())?.state).toBe(1);
  });
});

describe("opening", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await realpath(await makeFolder());
    vi.spyOn(process, "cwd").mockImplementation(() => folder);
    vi.stubEnv("SAVEPOINT_URL", "");
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    await removeFolder(folder);
  });

  it("without a URL creates a store in the working folder", async () => {
    await using sp = await Savepoint.open();
    expect(sp.url).toBe(`sqlite:${join(folder, ".savepoint", "store.db")}`);
    await sp.session("s").save(1);
    expect(existsSync(join(folder, ".savepoint", "store.db"))).toBe(true);
  });

  it("without a URL finds the nearest store upwards, like a git repository", async () => {
    await mkdir(join(folder, ".savepoint"));
    const [deep, nearer] = [join(folder, "a", "b", "c"), join(folder, "a", "b")];
    await mkdir(deep, { recursive: true });
    vi.spyOn(process, "cwd").mockImplementation(() => deep);
    {
      await using sp = await Savepoint.open();
      expect(sp.url).toBe(`sqlite:${join(folder, ".savepoint", "store.db")}`);
    }
    await mkdir(join(nearer, ".savepoint"));
    await using sp = await Savepoint.open();
    expect(sp.url).toBe(`sqlite:${join(nearer, ".savepoint", "store.db")}`);
  });

  it("without a URL uses SAVEPOINT_URL first", async () => {
    await mkdir(join(folder, ".savepoint"));
    vi.stubEnv("SAVEPOINT_URL", "memory:");
    await using sp = await Savepoint.open();
    expect(sp.url).toBe("memory:");
  });

  it.each(["", "agents.db", "redis://localhost", "postgre:x", "sqlite:", "memory:x", "c:\\agents.db", "sqlite:a\0b"])(
    "rejects the URL %j and lists the supported ones",
    async (url) => {
      const error = await Savepoint.open(url).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "INVALID_URL" });
      for (const scheme of ["sqlite:", "sqlite::memory:", "memory:"])
        expect((error as Error).message).toContain(scheme);
    },
  );

  it("never shows the password of a URL that it rejects", async () => {
    const error = (await Savepoint.open("mysql://me:secret@host/db").catch((reason: unknown) => reason)) as Error;
    expect(error.message).not.toContain("secret");
  });

  it.each([{}, null, 5, []])("rejects %o, which is not a store", async (target) => {
    await expect(Savepoint.open(target as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("does not change a file that is not a store", async () => {
    const path = join(folder, "notes.txt");
    await writeFile(path, "my notes ".repeat(500));
    await expect(Savepoint.open(`sqlite:${path}`)).rejects.toMatchObject({ code: "NOT_A_STORE" });
  });

  it("accepts the caller's SQLite handle, beside the caller's own tables, and leaves it open", async () => {
    const database = await openDatabase(join(folder, "mine.db"));
    database.exec("CREATE TABLE mine (n INTEGER)");
    {
      await using sp = await Savepoint.open(database);
      await sp.session("s").save({ list: messages(30) });
      database.exec("INSERT INTO mine VALUES (1)");
    }
    expect(database.prepare("SELECT count(*) AS n FROM mine").get()).toMatchObject({ n: 1 });
    {
      await using sp = await Savepoint.open(database);
      expect((await sp.session("s").latest())?.state).toEqual({ list: messages(30) });
    }
    database.close();
  });

  it("accepts the caller's store and leaves it open", async () => {
    for (const store of [openMemoryStore(), await openSqliteStore(":memory:")]) {
      await (await Savepoint.open(store)).session("s").save(1);
      const sp = await Savepoint.open(store);
      const saving = sp.session("s").save(2);
      await sp.close();
      await saving; // it was waited for, so that the caller may close the store now
      expect((await (await Savepoint.open(store)).session("s").latest())?.state).toBe(2);
      await store.close();
    }
  });

  it("accepts a source of ids and a clock", async () => {
    let n = 0;
    await using sp = await Savepoint.open("memory:", { newId: () => `id-${n++}`, now: () => 1234 });
    expect(await sp.session("s").save(1)).toMatchObject({ id: "id-0", createdAt: 1234 });
    expect(await sp.session("s").save(2)).toMatchObject({ id: "id-1", createdAt: 1234 });
  });
});

describe("events", () => {
  const event: DamageEvent = { sessionId: "s", checkpointId: "c", seq: 1, reason: "a test" };

  /** A Savepoint whose session "s" is damaged: reading it emits an event. */
  async function openDamaged(on?: (event: DamageEvent) => void): Promise<Savepoint> {
    const store = openMemoryStore();
    await (await Savepoint.open(store)).session("s").save(1);
    const damaged = new Proxy(store, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown;
        if (name === "get")
          return async (keys: string[]) =>
            keys.map((key) => (key.startsWith("s\t") ? { key, unreadable: event.reason } : undefined));
        return typeof member === "function" ? (member.bind(target) as unknown) : member;
      },
    });
    return Savepoint.open(damaged, on ? { on: { damage: on } } : {});
  }
  const cause = (sp: Savepoint): Promise<unknown> =>
    expect(sp.session("s").head()).rejects.toMatchObject({ code: "DAMAGED" });

  afterEach(() => vi.restoreAllMocks());

  it("reach listeners from the options and later ones, until these are removed", async () => {
    const [early, late]: [DamageEvent[], DamageEvent[]] = [[], []];
    const sp = await openDamaged((each) => early.push(each));
    const off = sp.on("damage", (each) => late.push(each));
    await cause(sp);
    off();
    off();
    await cause(sp);
    expect([early.length, late.length]).toEqual([2, 1]);
    expect(early[0]).toMatchObject({ sessionId: "s", reason: "a test" });
  });

  it("go to the console if there is no listener, and only then", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const sp = await openDamaged();
    await cause(sp);
    expect(warn).toHaveBeenCalledTimes(1);
    const off = sp.on("damage", () => {});
    await cause(sp);
    expect(warn).toHaveBeenCalledTimes(1);
    off();
    await cause(sp);
    expect(warn).toHaveBeenCalledTimes(2);
  });

  it("reach the other listeners if one throws, and do not fail the operation", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    const heard: string[] = [];
    const sp = await openDamaged(() => {
      throw new Error("mine");
    });
    sp.on("damage", () => heard.push("second"));
    await cause(sp);
    expect(heard).toEqual(["second"]);
    expect(error).toHaveBeenCalledTimes(1);
  });
});
