/**
 * Stores of plain files that an attacker made, with fitting checksums: nothing outside of their folder is read, written or
 * removed, and nothing in them makes a reader hang.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { encodeLine, encodeValueLine, type LineHead } from "../../src/store/file/lines.js";
import { openStore, type Store } from "../../src/store.js";
import { codeOf } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

let folder: string;
let path: string;
let outside: string;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  outside = join(folder, "outside");
  mkdirSync(outside);
});
afterEach(() => removeFolder(folder));

const SECRET = "a file of the user\n";
const HOUR = 3_600_000;
const header = (file: string): string => encodeLine({ savepoint: 2, file, generation: 1 });
const hash = `00${createHash("sha256").update("x").digest("hex").slice(2)}`;

/** Writes a file outside of the store that is old enough to be removed as unused. */
function writeVictim(name: string): string {
  const victim = join(outside, name);
  writeFileSync(victim, SECRET);
  utimesSync(victim, new Date(Date.now() - 24 * HOUR), new Date(Date.now() - 24 * HOUR));
  return victim;
}

/** A file of records with one commit of these lines, and no commit log. */
function forgeRecords(
  lines: readonly { head: LineHead; text?: string }[],
  holds = lines.map(({ head }) => head),
): void {
  mkdirSync(join(path, "tapes"), { recursive: true });
  const texts = lines.map(({ head, text }) => text ?? encodeLine(head));
  writeFileSync(join(path, "records.jsonl"), header("records") + texts.join("") + encodeLine({ commit: 1, holds }));
}

/** Everything that a user does with a store; errors are expected. */
async function useAll(): Promise<void> {
  const sp = await Savepoint.open(`file:${path}`, { on: { damage: () => {}, backgroundFailure: () => {} } });
  await sp.session("s").save({ n: 1, bytes: new Uint8Array(2_000).map((_, n) => n * n) });
  await sp.verify({ deep: true });
  await sp.compact();
  await sp.session("s").save({ n: 2 });
  await sp.close();
}

async function makeStore(): Promise<void> {
  const sp = await Savepoint.open(`file:${path}`);
  await sp.session("s").save({ n: 0, bytes: new Uint8Array(3_000).fill(7), picture: new Uint8Array(3_000).fill(8) });
  await sp.close();
}

const blobFiles = (): string[] =>
  readdirSync(join(path, "blobs"), { recursive: true, encoding: "utf8" })
    .map((name) => join(path, "blobs", name))
    .filter((name) => /[0-9a-f]{64}/.test(name));

describe("a name in a line", () => {
  it("of a blob cannot make the store remove a file outside of its folder", async () => {
    const victim = writeVictim("victim");
    forgeRecords([{ head: { blob: "../outside/victim", used: 1, bytes: 1, at: 1 } }]);
    await useAll();
    expect(readFileSync(victim, "utf8")).toBe(SECRET);
  });

  it("of a blob cannot make the store read a file outside of its folder", async () => {
    writeVictim("victim");
    forgeRecords([{ head: { blob: "../outside/victim", used: 1, bytes: 1, at: 1 } }]);
    const store = await openStore(`file:${path}`);
    expect(await store.blobs({ after: "", limit: 10 })).toEqual([]);
    expect(await store.check?.()).not.toEqual([]);
    await store.close();
  });

  it("of a file cannot make the store change a file outside of its folder", async () => {
    await makeStore();
    const victim = writeVictim("victim.jsonl");
    const entry = { file: "../../outside/victim", generation: 1, size: 3, commit: 1, holds: [] };
    const log = join(path, "commits.jsonl");
    writeFileSync(log, readFileSync(log, "utf8") + encodeLine(entry));
    await useAll();
    expect(readFileSync(victim, "utf8")).toBe(SECRET);
    expect(readdirSync(outside)).toEqual(["victim.jsonl"]);
  });
});

describe("a link in the folder", () => {
  for (const name of ["commits.jsonl", "records.jsonl", "tapes/t-1010.jsonl"]) {
    it(`in the place of a data file is damage, and its target is not changed: ${name}`, async () => {
      await makeStore();
      const target = join(outside, basename(name));
      if (existsSync(join(path, name))) renameSync(join(path, name), target);
      else writeFileSync(target, header("x"));
      const before = readFileSync(target, "utf8");
      symlinkSync(target, join(path, name));
      expect(await codeOf(useAll())).toBe("DAMAGED");
      expect(readFileSync(target, "utf8")).toBe(before);
    });
  }

  for (const name of ["blobs", "tapes", "lock"]) {
    it(`in the place of a folder is damage, and nothing in its target is changed: ${name}`, async () => {
      await makeStore();
      rmSync(join(path, name), { recursive: true });
      symlinkSync(outside, join(path, name));
      writeVictim("t-victim.jsonl");
      expect(await codeOf(useAll())).toBe("DAMAGED");
      expect(readdirSync(outside)).toEqual(["t-victim.jsonl"]);
    });
  }

  it("in the place of a folder of blobs does not let compaction remove the files of its target", async () => {
    await makeStore();
    for (const name of ["victim", hash, `${hash}.gz`]) writeVictim(name);
    symlinkSync(outside, join(path, "blobs", "zz"));
    symlinkSync(outside, join(path, "blobs", "00"));
    expect(await codeOf(useAll())).toBe("DAMAGED");
    expect(readdirSync(outside).sort()).toEqual([hash, `${hash}.gz`, "victim"].sort());
  });

  it("in the place of a blob is damage, even if its target has the right content", async () => {
    await makeStore();
    const [blob = ""] = blobFiles();
    const target = join(outside, "blob");
    renameSync(blob, target);
    symlinkSync(target, blob);
    const store = await openStore(`file:${path}`);
    expect(await store.blob(basename(blob).replace(".gz", ""))).toHaveProperty("unreadable");
    await store.close();
  });

  it("to the folder itself is followed", async () => {
    symlinkSync(outside, path);
    await makeStore();
    await useAll();
  });
});

it("files that do not belong to the store stay in the folders of blobs", async () => {
  await makeStore();
  const own = join(dirname(blobFiles()[0] as string), "notes.txt");
  renameSync(writeVictim("notes.txt"), own);
  await useAll();
  expect(readFileSync(own, "utf8")).toBe(SECRET);
});

describe("a pipe in the place of a file", () => {
  for (const name of ["commits.jsonl", "records.jsonl", "tapes/t-1010.jsonl"]) {
    it(`is damage and does not make its reader hang: ${name}`, async () => {
      await makeStore();
      rmSync(join(path, name), { force: true });
      spawnSync("mkfifo", [join(path, name)]);
      expect(await codeOf(useAll())).toBe("DAMAGED");
    });
  }

  it("is damage and does not make its reader hang: a blob", async () => {
    await makeStore();
    const [blob = ""] = blobFiles();
    rmSync(blob);
    spawnSync("mkfifo", [blob]);
    const store = await openStore(`file:${path}`);
    expect(await store.blob(basename(blob).replace(".gz", ""))).toHaveProperty("unreadable");
    await store.close();
  });
});

describe("a line with a fitting checksum", () => {
  it("that lists more lost items than a store can have is damage and does not make its reader hang", async () => {
    forgeRecords([], [{ item: 0, tape: "t", at: 1, count: 2 ** 52 }]);
    expect(await codeOf(openStore(`file:${path}`))).toBe("DAMAGED");
    const many = Array.from({ length: 40 }, (_, n) => ({ item: 0, tape: `t${n}`, at: 1, count: 200_000 }));
    forgeRecords([], many);
    expect(await codeOf(openStore(`file:${path}`))).toBe("DAMAGED");
  });

  const lines: Record<string, { head: LineHead; text: string }> = {
    "a value that is not a string": {
      head: { put: "k", at: 1 },
      text: withSum(`{"put":"k","at":1,"as":"text","value":[1]`),
    },
    "a value that is not JSON": {
      head: { put: "k", at: 1 },
      text: withSum(`{"put":"k","at":1,"as":"text","value":{{`),
    },
    "no value": { head: { put: "k", at: 1 }, text: encodeLine({ put: "k", at: 1 }) },
    "refs that are not a string": {
      head: { put: "k", at: 1 },
      text: withSum(`{"put":"k","at":1,"refs":[1],"value":1`),
    },
    "two subjects": {
      head: { put: "k", at: 1 },
      text: withSum(`{"put":"k","item":0,"tape":"t","at":1,"value":1`),
    },
  };
  for (const [what, line] of Object.entries(lines)) {
    it(`is read as damage if it has ${what}`, async () => {
      forgeRecords([line]);
      const store = await openStore(`file:${path}`);
      expect(await store.get(["k"])).toEqual([{ key: "k", unreadable: expect.any(String) as string }]);
      await store.close();
    });
  }

  it("and a number beyond those that can be counted is damage, and a later save is not lost", async () => {
    for (const at of [2 ** 53 - 1, 1e300, -1, 1.5]) {
      forgeRecords([{ head: { put: "k", at }, text: encodeValueLine({ put: "k", at }, "1") }]);
      const records = readFileSync(join(path, "records.jsonl"), "utf8").split("\n");
      records.splice(2, 2, encodeLine({ commit: at, holds: [{ put: "k", at }] }));
      writeFileSync(join(path, "records.jsonl"), records.join("\n"));
      let store: Store = await openStore(`file:${path}`);
      await store.commit({ puts: [{ key: "new", value: "1" }] });
      await store.close();
      store = await openStore(`file:${path}`);
      expect(await store.get(["new"])).toMatchObject([{ value: "1" }]);
      await store.close();
      rmSync(path, { recursive: true });
    }
  });
});

/** A line with any content and a fitting checksum. */
function withSum(body: string): string {
  return `${body},"sum":${crc32(body)}}\n`;
}
