/** Which folders become stores, what the files contain, and failing disks. */
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { fdatasync, mkdtempSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { appendFile, chmod, cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSavepointError, type SavepointError } from "../../src/errors.js";
import { encodeLine } from "../../src/store/file/lines.js";
import { tapeFileName } from "../../src/store/file/folder.js";
import { openFileStore, openStore, type Store } from "../../src/store.js";
import type { DiskOptions } from "../../src/store/contract/options.js";
import { type SyncFile, withTestHooks } from "../../src/store/shared/index.js";
import { blobOf, type StoreContent, contentOf, frame, sha256, listAll } from "../../src/testing/samples.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { requireOrSkip } from "../support/requires.js";

/** Bytes that cannot be packed. */
const NOISE = randomBytes(50_000);

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
});
afterEach(() => removeFolder(folder));

async function withStore<T>(work: (store: Store) => Promise<T>, options: DiskOptions = {}): Promise<T> {
  const store = await openFileStore(path, options);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

describe("a folder that is not a store is rejected and not changed:", () => {
  beforeEach(() => mkdir(path));

  it("a folder with other files", async () => {
    await writeFile(join(path, "invoice.txt"), "1");
    await expectRefused("NOT_A_STORE");
  });

  it("a folder with other folders", async () => {
    await mkdir(join(path, "src"));
    await expectRefused("NOT_A_STORE");
  });

  it("a folder with a commits.jsonl of another program", async () => {
    await writeFile(join(path, "commits.jsonl"), '{"sha":"1234","message":"fix"}\n{"sha":"5678","message":"more"}\n');
    await writeFile(join(path, "package.json"), "{}");
    await expectRefused("NOT_A_STORE");
  });

  it("a folder with a records.jsonl of another program", async () => {
    await writeFile(join(path, "records.jsonl"), '{"name":"a"}\n{"name":"b"}');
    await expectRefused("NOT_A_STORE");
  });

  it("a folder with a subfolder that has the name of one of a store", async () => {
    await mkdir(join(path, "blobs"));
    await writeFile(join(path, "blobs", "picture.png"), "1");
    await writeFile(join(path, "index.html"), "1");
    await expectRefused("NOT_A_STORE");
  });
});

describe("a path", () => {
  it("of a file is rejected, and the file is not changed", async () => {
    await writeFile(path, "hello");
    const error = await openingError();
    expect(error.code).toBe("NOT_A_STORE");
    expect(await readFile(path, "utf8")).toBe("hello");
  });

  it("inside a file fails with an error that names it", async () => {
    await writeFile(join(folder, "file"), "");
    path = join(folder, "file", "store");
    expect((await openingError()).code).toBe("IO_FAILED");
  });

  it("that does not exist becomes a store, with its parent folders", async () => {
    path = join(folder, "a", "b", "c d", "é\u{1f600}");
    await expectToWork();
  });

  it("of an empty folder, or one with hidden files, becomes a store", async () => {
    await mkdir(path);
    await writeFile(join(path, ".gitignore"), "*");
    await expectToWork();
    expect(await readFile(join(path, ".gitignore"), "utf8")).toBe("*");
  });

  it("is used literally in a URL", async () => {
    for (const url of [`file:${path}`, `file:${folder}/50%25`, `file:${folder}/what?a=b#c`]) {
      const store = await openStore(url);
      await store.commit({ puts: [{ key: "k", value: "1" }] });
      await store.close();
    }
    expect((await readdir(folder)).sort()).toEqual(["50%25", "store", "what?a=b#c"]);
  });

  it("of a store can be moved and copied", async () => {
    await expectToWork();
    await cp(path, join(folder, "copy"), { recursive: true });
    path = join(folder, "copy");
    await withStore(async (store) => expect(await store.get(["k"])).toMatchObject([{ value: "1" }]));
  });

  it("of a store may contain files of users, which are kept", async () => {
    await expectToWork();
    for (const name of ["README.md", "notes.tmp", join("tapes", "old.tmp")]) await writeFile(join(path, name), "note");
    await expectToWork();
    for (const name of ["README.md", "notes.tmp", join("tapes", "old.tmp")]) {
      expect(await readFile(join(path, name), "utf8")).toBe("note");
    }
  });
});

describe("a store of a newer version is rejected and not changed", () => {
  beforeEach(() =>
    withStore(async (store) => {
      await store.commit({ puts: [{ key: "k", value: "1" }], items: [{ tape: "a", first: 0, items: [frame(0)] }] });
      await store.commit({ puts: [{ key: "k", value: "2" }], items: [{ tape: "b", first: 0, items: [frame(0)] }] });
    }),
  );

  it("if its commit log has a newer format", async () => {
    await setFormat("commits.jsonl", "commits");
    expect((await expectRefused("STORE_TOO_NEW")).details).toMatchObject({ found: 999 });
  });

  it("if a tape has a newer format", async () => {
    await setFormat(join("tapes", "t-b.jsonl"), "t-b");
    await expectRefused("STORE_TOO_NEW");
  });

  it("if a tape has a newer format, and another one has an unfinished commit", async () => {
    await setFormat(join("tapes", "t-b.jsonl"), "t-b");
    await appendFile(join(path, "tapes", "t-a.jsonl"), '{"put":"k"');
    await expectRefused("STORE_TOO_NEW");
  });

  it("if a tape has a newer format, and there is a temporary file", async () => {
    await setFormat(join("tapes", "t-b.jsonl"), "t-b");
    await writeFile(join(path, "tapes", "t-a.jsonl.tmp"), "x");
    await expectRefused("STORE_TOO_NEW");
  });

  /** Changes the first line of a file, and keeps the rest. */
  async function setFormat(file: string, name: string): Promise<void> {
    const text = await readFile(join(path, file), "utf8");
    const rest = text.slice(text.indexOf("\n") + 1);
    const { generation } = JSON.parse(text.slice(0, text.indexOf("\n"))) as { generation: number };
    await writeFile(join(path, file), encodeLine({ savepoint: 999, file: name, generation }) + rest);
  }
});

describe("the files", () => {
  const values = {
    json: '{"a":[1,2,{"b":null}],"text":"é\u{1f600} needle"}',
    lines: '{"a":1}\n[2]\n"three"\n4',
    spaced: ' {"a" : 1 } \n  [ 2 ]',
    pretty: JSON.stringify({ a: { b: [1, 2] } }, undefined, 2),
    text: "no JSON: needle\nin two lines",
    number: "1.0e2",
    large: "123456789012345678901234567890",
    empty: "",
    newline: "\n",
    "trailing newline": "1\n",
    "carriage return": "1\r\n2\r",
    tab: "1,\t2",
    "tab in lines": "[1,\t2]\n3",
    "like a line": '{"put":"x","at":1,"value":1,"sum":2}',
    "like the end": '1,"sum":4294967295}',
    separators: "\u2028\u2029\u0085\u{feff}",
    bom: "\u{feff}{}",
    backslash: "\\n\\u0000\\",
  };

  it("preserve every string exactly", async () => {
    const puts = Object.entries(values).map(([key, value]) => ({ key, value, refs: `${key}+1` }));
    // Keys and what is pointed at may be anything too.
    const odd = Object.values(values).map((text, n) => ({ key: `odd ${text}`, value: String(n), refs: text }));
    const items = [
      "[1,2]",
      '{"value":1,"sum":2}',
      "1 ",
      JSON.stringify({ a: 1 }, undefined, 2),
      '"\\u0000"',
      "[1,\t2]",
    ];
    const frames = items.map((json) => ({ json, refs: json }));
    await withStore((store) =>
      store.commit({ puts: [...puts, ...odd], items: [{ tape: "t", first: 0, items: frames }] }),
    );
    const expectAll = (): Promise<void> =>
      withStore(async (store) => {
        const all = [...puts, ...odd];
        expect(await store.get(all.map(({ key }) => key))).toEqual(all);
        expect(await store.items([{ tape: "t", start: 0, count: items.length }])).toEqual(frames);
        expect(await store.check?.()).toEqual([]);
      });
    await expectAll();
    expectJsonLines();
    await withStore((store) => store.compact());
    await expectAll();
    expectJsonLines();
  });

  it("are lines of JSON that can be searched", async () => {
    await withStore(async (store) => {
      await store.commit({
        puts: [
          { key: "k", value: values.json },
          { key: "l", value: values.lines },
        ],
        items: [{ tape: "chat/1", first: 0, items: [frame({ role: "user", text: "Where is the needle? 漢字" })] }],
        blobs: [blobOf("bytes as they are")],
      });
      await store.commit({ deletes: ["l", { from: "x", to: "y" }], puts: [{ key: "x", value: "1" }] });
      await store.retain("chat/1", [], { below: 0 });
    });
    expectJsonLines();
    const text = readFileSync(join(path, "tapes", `${tapeFileName("chat/1")}.jsonl`), "utf8");
    expect(text).toContain(`"value":${values.json}`);
    expect(text).toContain('{"role":"user","text":"Where is the needle? 漢字"}');
    const { hash } = blobOf("bytes as they are");
    expect(await readFile(join(path, "blobs", hash.slice(0, 2), hash), "utf8")).toBe("bytes as they are");
  });

  it("can be copied while other processes write, and the copy is a store", async () => {
    const store = await openFileStore(path);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    await cp(path, join(folder, "copy"), { recursive: true });
    await store.close();
    path = join(folder, "copy");
    await withStore(async (copy) => {
      expect(await copy.get(["k"])).toMatchObject([{ value: "1" }]);
    });
  });
});

describe("names", () => {
  const names = [
    "",
    ..."a A t T é É . .. * ? / \\ : | < > % ~ $ ' \" ` ../x ../../../../etc/passwd /etc/passwd ..\\x C:\\x".split(" "),
    ..."a/b a%2fb %25 con CON nul com1 aux.txt a. a.. records commits lock blobs tapes .jsonl".split(" "),
    // What a file system may take for the same: accents, ligatures, letters without the other case.
    ..."\u{1f600} e\u0301 ﬁ fi ß ss İ i̇ ſ s \u212a K k".split(" "),
    ..."\u0001,\n,a\nb,\t,\u007f,\u{10ffff}, ,a , a".split(","),
    ...["x", "X", "/"].map((character) => character.repeat(4_096)),
    `${"x".repeat(4_095)}y`,
    "\u{1f600}".repeat(1_024),
    ...Array.from({ length: 220 }, (_, n) => "é".repeat(n)),
  ];
  const unique = [...new Set(names)];

  it("of files differ even if a file system ignores case, dots or accents", () => {
    const seen = new Map<string, string>();
    for (const name of unique) {
      const file = tapeFileName(name);
      expect(file).toMatch(/^[a-z]-[a-z0-9%-]*$/);
      expect(Buffer.byteLength(`${file}.jsonl.tmp`)).toBeLessThanOrEqual(255);
      const folded = file.normalize("NFC").toLowerCase();
      expect([name, seen.get(folded) ?? name]).toEqual([name, name]);
      seen.set(folded, name);
    }
  });

  it("of tapes and keys never collide, and never leave the folder", async () => {
    const before = await listFolder(folder);
    const some = unique.filter((_, n) => n < 90 || n % 20 === 0);
    await withStore(
      async (store) => {
        for (const [n, name] of some.entries()) {
          const items = [frame(n)];
          await store.commit({
            puts: [{ key: `k${name}`, value: String(n) }],
            items: [{ tape: name, first: 0, items }],
          });
        }
        for (const name of some.slice(0, 10)) await store.retain(name, [], { below: 1 });
        await store.compact();
      },
      { durability: "process" },
    );
    await withStore(async (store) => {
      for (const [n, name] of some.entries()) {
        const expected = n < 10 ? [{ unreadable: expect.any(String) as string }] : [frame(n)];
        expect(await store.items([{ tape: name, start: 0, count: 1 }]), name).toEqual(expected);
      }
      expect(
        (await store.get(some.map((name) => `k${name}`))).map((record) => record && "value" in record && record.value),
      ).toEqual(some.map((_, n) => String(n)));
      expect(await listAll(store, { from: "", to: "\u{10ffff}" })).toHaveLength(some.length);
    });
    const added = (await listFolder(folder)).filter((name) => !before.includes(name));
    expect(added.filter((name) => !name.startsWith(basename(path)))).toEqual([]);
  });
});

describe("permissions", () => {
  it("that are missing fail with an error that names the store, and nothing is lost", async () => {
    await expectToWork();
    await chmod(join(path, "lock"), 0o555);
    await chmod(path, 0o555);
    // Who may read it can open it; at the latest writing fails.
    const error = await withoutPrivileges(() =>
      errorOf(async () => {
        const store = await openFileStore(path);
        try {
          await store.commit({ puts: [{ key: "k", value: "1" }] });
        } finally {
          await store.close();
        }
      }),
    );
    await chmod(path, 0o755);
    await chmod(join(path, "lock"), 0o755);
    expect(error.code).toBe("IO_FAILED");
    await expectToWork();
  });

  it("that are missing for the parent folder fail with an error that names the store", async () => {
    await chmod(folder, 0o555);
    const error = await withoutPrivileges(openingError);
    await chmod(folder, 0o755);
    expect(error.code).toBe("IO_FAILED");
  });

  it("that are removed while the store is open fail with a SavepointError", async () => {
    await mkdir(path);
    await chmod(path, 0o777);
    await chmod(folder, 0o777);
    const error = await withoutPrivileges(async () => {
      const store = await openFileStore(path, { onBackgroundFailure: () => {} });
      try {
        await store.commit({ puts: [{ key: "k", value: "1" }] });
        await chmod(join(path, "lock"), 0o555);
        return await errorOf(() => store.commit({ puts: [{ key: "k", value: "2" }] }));
      } finally {
        await store.close();
      }
    });
    expect(error.code).toBe("IO_FAILED");
  });
});

const canMount = process.platform === "linux" && process.geteuid?.() === 0 && tryMount();

const itOnDisk = requireOrSkip(canMount, "needs root to mount a small disk");

describe("a full disk", () => {
  let disk: string;
  beforeEach(async () => {
    if (!canMount) return;
    disk = join(folder, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]);
    path = join(disk, "store");
  });
  afterEach(() => {
    if (canMount) execFileSync("umount", ["-l", disk]);
  });
  const large = (text: string): string => JSON.stringify(text.repeat(30_000));
  /** Leaves so many bytes. */
  const fill = async (left: number): Promise<void> => {
    const ballast = join(disk, "ballast");
    await writeFile(ballast, "");
    for (const size of [16_384, 4_096, 1_024, 64]) {
      for (;;) {
        try {
          await appendFile(ballast, Buffer.alloc(size));
        } catch {
          // That much does not fit any more.
          break;
        }
      }
    }
    if (left > 0) execFileSync("truncate", ["-s", `-${left}`, ballast]);
  };
  const free = (): Promise<void> => rm(join(disk, "ballast"));

  itOnDisk("fails commits with IO_FAILED and loses nothing, and commits succeed once there is space", async () => {
    const store = await openFileStore(path, { durability: "process", onBackgroundFailure: () => {} });
    await store.commit({ puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] });
    const before = await contentOf(store);
    await fill(8_192);
    const commits = [
      { puts: [{ key: "k", value: large("x") }] },
      { puts: [{ key: "k", value: "2" }], items: [{ tape: "t", first: 1, items: [{ json: large("y"), refs: "" }] }] },
      { items: [{ tape: "new", first: 0, items: [{ json: large("z"), refs: "" }] }] },
    ];
    for (const error of await Promise.all(commits.map((commit) => errorOf(() => store.commit(commit))))) {
      expect(error.code).toBe("IO_FAILED");
    }
    expect(await contentOf(store)).toEqual(before);
    await free();
    await store.commit({ puts: [{ key: "k", value: "3" }], items: [{ tape: "new", first: 0, items: [frame(0)] }] });
    const after = await contentOf(store);
    expect(await store.check?.()).toEqual([]);
    await store.close();
    await withStore(async (again) => {
      expect(await contentOf(again)).toEqual(after);
      expect(await again.check?.()).toEqual([]);
    });
  });

  /** Many commits at once, of which only some fit. Gives what must be there then. */
  const writeMany = async (store: Store, before: StoreContent, left: number, value: string): Promise<StoreContent> => {
    await fill(4_096 * left);
    const keys = before.records.map(({ key }) => key);
    const results = await Promise.allSettled(keys.map((key) => store.commit({ puts: [{ key, value }] })));
    await free();
    const isGood = new Map(keys.map((key, n) => [key, results[n]?.status === "fulfilled"]));
    expect([...isGood.values()]).toContain(false);
    return { ...before, records: before.records.map((each) => (isGood.get(each.key) ? { ...each, value } : each)) };
  };
  const KEYS = [...Array(200).keys()].map((n) => `key/${n}/${"long".repeat(20)}`);
  const ROUNDS = 6;

  for (const left of [1, 2]) {
    itOnDisk(`with ${left} free pages leaves good records readable through the same handle`, async () => {
      const store = await openFileStore(path, { onBackgroundFailure: () => {} });
      await store.commit({ puts: KEYS.map((key) => ({ key, value: "1" })) });
      let expected = await contentOf(store);
      for (let round = 0; round < ROUNDS; round++) {
        expected = await writeMany(store, expected, left, "x".repeat(round));
        const found = await contentOf(store);
        if (JSON.stringify(found) !== JSON.stringify(expected)) await store.close();
        expect(found).toEqual(expected);
      }
      await store.close();
    });

    itOnDisk(`with ${left} free pages does not lose what was there before`, async () => {
      let expected: StoreContent | undefined;
      for (let round = 0; round < ROUNDS; round++) {
        const store = await openFileStore(path, { onBackgroundFailure: () => {} });
        if (!expected) await store.commit({ puts: KEYS.map((key) => ({ key, value: "1" })) });
        expected = await writeMany(store, expected ?? (await contentOf(store)), left, "x".repeat(round));
        await store.close();
        await withStore(async (again) => {
          expect(await contentOf(again)).toEqual(expected);
          expect(await again.check?.()).toEqual([]);
        });
      }
    });

    itOnDisk(`with ${left} free pages does not mislead others`, async () => {
      const store = await openFileStore(path, { onBackgroundFailure: () => {} });
      const other = await openFileStore(path, { onBackgroundFailure: () => {} });
      await store.commit({ puts: KEYS.map((key) => ({ key, value: "1" })) });
      let expected = await contentOf(other);
      let found = expected;
      for (let round = 0; round < ROUNDS && found === expected; round++) {
        expected = await writeMany(store, expected, left, "x".repeat(round));
        const now = await contentOf(other);
        found = JSON.stringify(now) === JSON.stringify(expected) ? expected : now;
      }
      await store.close();
      await other.close();
      expect(found).toEqual(expected);
    });
  }

  itOnDisk("fails a commit with a blob with IO_FAILED", async () => {
    const store = await openFileStore(path, { durability: "process", onBackgroundFailure: () => {} });
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    await fill(4_096);
    const error = await errorOf(() => store.commit({ blobs: [{ hash: sha256(NOISE), bytes: NOISE }] }));
    await store.close();
    expect(error.code).toBe("IO_FAILED");
  });

  itOnDisk("during a compaction loses nothing", async () => {
    const store = await openFileStore(path, { durability: "process", onBackgroundFailure: () => {} });
    for (let n = 0; n < 3; n++) await store.commit({ puts: [{ key: "k", value: large(String(n)) }] });
    const before = await contentOf(store);
    await fill(4_096);
    expect((await errorOf(() => store.compact())).code).toBe("IO_FAILED");
    expect(await contentOf(store)).toEqual(before);
    await free();
    await store.compact();
    expect(await contentOf(store)).toEqual(before);
    await store.close();
    await withStore(async (again) => expect(await contentOf(again)).toEqual(before));
  });

  itOnDisk("fails the creation of a store with IO_FAILED, and the next attempt with space succeeds", async () => {
    await fill(0);
    await withStoreOrFail();
    await free();
    await expectToWork();
  });

  /** A disk without space may still have names for files. */
  async function withStoreOrFail(): Promise<void> {
    const error = await errorOf(() => withStore((store) => store.commit({ puts: [{ key: "k", value: "1" }] })));
    expect(error.code).toBe("IO_FAILED");
  }
});

describe("a disk that fails to sync", () => {
  const failing = (): { options: DiskOptions; fail: (yes: boolean) => void } => {
    let fails = false;
    const syncFile: SyncFile = (file, done) => {
      if (fails) done(Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO", syscall: "fdatasync" }));
      else fdatasync(file, done);
    };
    return { options: withTestHooks({ syncFile }, { onBackgroundFailure: () => {} }), fail: (yes) => (fails = yes) };
  };

  it("fails the entire group, and all later commits, until the store is opened again", async () => {
    const { options, fail } = failing();
    const store = await openFileStore(path, options);
    await store.commit({ puts: [{ key: "k", value: "1" }], items: [{ tape: "t", first: 0, items: [frame(0)] }] });
    const before = await contentOf(store);
    fail(true);
    const group = [
      store.commit({ puts: [{ key: "k", value: "2" }] }),
      store.commit({ puts: [{ key: "l", value: "2" }], items: [{ tape: "t", first: 1, items: [frame(1)] }] }),
      store.commit({ items: [{ tape: "new", first: 0, items: [frame(1)] }] }),
    ];
    for (const one of group) await expect(one).rejects.toMatchObject({ code: "IO_FAILED" });
    fail(false);
    await expect(store.commit({ puts: [{ key: "m", value: "1" }] })).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(store.compact()).rejects.toMatchObject({ code: "IO_FAILED" });
    await store.close();
    await withStore(async (again) => {
      expect(await contentOf(again)).toEqual(before);
      expect(await again.check?.()).toEqual([]);
      await again.commit({ puts: [{ key: "k", value: "3" }] });
      expect(await again.get(["k"])).toMatchObject([{ value: "3" }]);
    });
  });

  it("leaves acknowledged data readable through the same handle", async () => {
    const { options, fail } = failing();
    const store = await openFileStore(path, options);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    const before = await contentOf(store);
    fail(true);
    await expect(store.commit({ puts: [{ key: "k", value: "2" }] })).rejects.toMatchObject({ code: "IO_FAILED" });
    const after = await contentOf(store);
    await store.close();
    expect(after).toEqual(before);
  });

  it("does not affect other handles", async () => {
    const { options, fail } = failing();
    const store = await openFileStore(path, options);
    const other = await openFileStore(path);
    await store.commit({ puts: [{ key: "k", value: "1" }] });
    fail(true);
    await expect(store.commit({ puts: [{ key: "k", value: "2" }] })).rejects.toMatchObject({ code: "IO_FAILED" });
    expect(await other.get(["k"])).toMatchObject([{ value: "1" }]);
    await other.commit({ puts: [{ key: "l", value: "1" }] });
    await store.close();
    expect(await other.get(["k", "l"])).toMatchObject([{ value: "1" }, { value: "1" }]);
    await other.close();
  });

  it("is not used with durability: process", async () => {
    const { options, fail } = failing();
    fail(true);
    await withStore((store) => store.commit({ puts: [{ key: "k", value: "1" }] }), {
      ...options,
      durability: "process",
    });
    await withStore(async (store) => expect(await store.get(["k"])).toMatchObject([{ value: "1" }]));
  });
});

async function expectToWork(): Promise<void> {
  await withStore((store) => store.commit({ puts: [{ key: "k", value: "1" }] }));
  await withStore(async (store) => {
    expect(await store.get(["k"])).toEqual([{ key: "k", value: "1", refs: "" }]);
    expect(await store.bytes()).toBeGreaterThan(0);
  });
}

async function expectRefused(code: "NOT_A_STORE" | "STORE_TOO_NEW"): Promise<SavepointError> {
  const before = fingerprint();
  const error = await openingError();
  expect(error.code).toBe(code);
  expect(fingerprint()).toEqual(before);
  return error;
}

async function openingError(): Promise<SavepointError> {
  return errorOf(async () => (await openFileStore(path)).close());
}

/** What it fails with: an error of ours that names the store. */
async function errorOf(work: () => Promise<unknown>): Promise<SavepointError> {
  let found: unknown;
  try {
    await work();
  } catch (error) {
    found = error;
  }
  if (!isSavepointError(found)) throw new Error(`It should have failed, and gave: ${String(found)}`, { cause: found });
  expect(found.message).toContain(path);
  return found;
}

/** Every file with what is in it. */
function fingerprint(): string[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const file = join(entry.parentPath, entry.name);
      return entry.isFile() ? `${file} ${createHash("sha256").update(readFileSync(file)).digest("hex")}` : file;
    })
    .sort();
}

function listFolder(of: string): Promise<string[]> {
  return readdir(of, { recursive: true });
}

function expectJsonLines(): void {
  for (const name of readdirSync(path, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".jsonl")) continue;
    const lines = readFileSync(join(path, name), "utf8").split("\n");
    expect(lines.pop(), `${name} ends with a whole line`).toBe("");
    for (const line of lines) expect(() => JSON.parse(line) as unknown, `${name}: ${line}`).not.toThrow();
  }
}

function tryMount(): boolean {
  const at = mkdtempSync(join(tmpdir(), "savepoint-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", at], { stdio: "ignore" });
    execFileSync("umount", ["-l", at]);
    return true;
  } catch {
    // Root in a container may not mount.
    return false;
  } finally {
    rmdirSync(at);
  }
}

/** Permissions mean nothing to root, which is who runs the tests in many containers. */
async function withoutPrivileges<T>(work: () => Promise<T>): Promise<T> {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

it("a file with more lines than a call can have arguments can be opened", async () => {
  const [commits, items] = [3, 50_000];
  await withStore(
    async (store) => {
      for (let n = 0; n < commits; n++) {
        const frames = Array.from({ length: items }, () => ({ json: "1", refs: "" }));
        await store.commit({ items: [{ tape: "t", first: n * items, items: frames }] });
      }
    },
    { durability: "process" },
  );
  const last = { tape: "t", start: commits * items - 1, count: 1 };
  await withStore(async (store) => expect(await store.items([last])).toEqual([{ json: "1", refs: "" }]));
});
