/** Opening an existing store with create: false: nothing is created, and no report is lost for later processes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(() => removeFolder(folder));

const KINDS = [
  { scheme: "sqlite", path: "sub/store.db" },
  { scheme: "file", path: "sub/store" },
];

describe.each(KINDS)("a $scheme: store that is opened as it is", ({ scheme, path }) => {
  const url = (): string => `${scheme}:${join(folder, path)}`;

  it("must exist: none is created", async () => {
    await expect(Savepoint.open(url(), { create: false })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
    expect(existsSync(join(folder, "sub"))).toBe(false);
  });

  it("is neither an empty file nor an empty folder", async () => {
    mkdirSync(join(folder, "sub"));
    if (scheme === "sqlite") writeFileSync(join(folder, path), "");
    else mkdirSync(join(folder, path));
    await expect(Savepoint.open(url(), { create: false })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
    if (scheme === "file") expect(readdirSync(join(folder, path))).toEqual([]);
  });

  it("can be read and written like any other", async () => {
    const made = await Savepoint.open(url());
    await made.session("s").save({ n: 1 });
    await made.close();
    const sp = await Savepoint.open(url(), { create: false });
    await sp.session("s").save({ n: 2 });
    expect((await sp.session("s").latest())?.state).toEqual({ n: 2 });
    await sp.close();
  });

  it("reports a crash, and leaves the report for the next process", async () => {
    const program = `
      const { Savepoint } = await import("savepoint");
      const sp = await Savepoint.open(${JSON.stringify(url())});
      await sp.session("s").save({ n: 1 });
      process.kill(process.pid, "SIGKILL");`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "inherit" });
    await once(child, "close");
    for (const [create, clean] of [
      [false, false],
      [false, false],
      [true, false],
      [true, true],
    ] as const) {
      const sp = await Savepoint.open(url(), { create });
      expect(sp.lastShutdown.clean).toBe(clean);
      await sp.close();
    }
  });
});
