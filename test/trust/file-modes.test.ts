/** Who may read what a store writes: by default only the user, and with `mode` also other users, whatever the umask is. */
import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import type { DiskOptions } from "../../src/store.js";
import { codeOf } from "../run/lab.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(() => removeFolder(folder));

const STORES = { file: "file:sub/folder/store", sqlite: "sqlite:sub/folder/store.db" };

async function open(url: string, options: DiskOptions = {}): Promise<Savepoint> {
  return Savepoint.open(url.replace(":", `:${folder}/`), options);
}

/** Saves, so that a store has all kinds of files. */
async function use(sp: Savepoint, n: number): Promise<void> {
  await sp.session("s").save({ n, bytes: new Uint8Array(3_000).fill(n), text: "long".repeat(5_000) });
}

/** The modes of everything in the folder, except `.` itself: of files and of folders. */
function modes(): { files: Set<string>; folders: Set<string> } {
  const found = { files: new Set<string>(), folders: new Set<string>() };
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const stats = lstatSync(join(folder, name));
    (stats.isDirectory() ? found.folders : found.files).add((stats.mode & 0o777).toString(8));
  }
  return found;
}

for (const [name, url] of Object.entries(STORES)) {
  describe(`the ${name} store`, () => {
    it("creates files and folders that only the user can read", async () => {
      const sp = await open(url);
      await use(sp, 1);
      expect(modes()).toEqual({ files: new Set(["600"]), folders: new Set(["700"]) });
      await use(sp, 2);
      await sp.session("s").prune({ keepLast: 1 });
      await sp.compact();
      await sp.backup({ to: join(folder, "backups", "daily") });
      await sp.export().save(join(folder, "all.savepoint"));
      await sp.close();
      expect(modes()).toEqual({ files: new Set(["600"]), folders: new Set(["700"]) });
    });

    it("creates files and folders for a group if `mode` says so, whatever the umask is", async () => {
      const sp = await open(url, { mode: 0o666 });
      await use(sp, 1);
      expect(modes()).toEqual({ files: new Set(["666"]), folders: new Set(["777"]) });
      await use(sp, 2);
      await sp.session("s").prune({ keepLast: 1 });
      await sp.compact();
      await sp.close();
      expect(modes()).toEqual({ files: new Set(["666"]), folders: new Set(["777"]) });
    });

    it("keeps the modes of files that exist", async () => {
      let sp = await open(url);
      await use(sp, 1);
      await sp.close();
      const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
        .map((file) => join(folder, file))
        .filter((file) => statSync(file).isFile());
      for (const file of files) chmodSync(file, 0o640);
      sp = await open(url);
      for (let n = 2; n < 5; n++) await use(sp, n);
      await sp.session("s").prune({ keepLast: 1 });
      await sp.compact();
      await sp.close();
      for (const file of files) if (existsSync(file)) expect(statSync(file).mode & 0o777).toBe(0o640);
    });

    it("rejects a mode that is not one of a file", async () => {
      for (const mode of [-1, 0o1000, 1.5, 0o066, "600" as unknown as number]) {
        expect(await codeOf(open(url, { mode }))).toBe("INVALID_ARGUMENT");
      }
      expect(readdirSync(folder)).toEqual([]);
    });
  });
}

it("a new .savepoint folder is ignored by git", async () => {
  for (const url of ["sqlite:a/.savepoint/store.db", "file:b/.savepoint/store", "file:c/.savepoint"]) {
    const sp = await open(url);
    await use(sp, 1);
    await sp.close();
  }
  for (const name of ["a", "b", "c"]) {
    expect(readFileSync(join(folder, name, ".savepoint", ".gitignore"), "utf8")).toBe("*\n");
  }
});
