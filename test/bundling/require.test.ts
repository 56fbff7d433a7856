/** `require()` of the package, which is an ES module, on the Node that runs the tests and on the current one. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: Record<string, unknown> };
const NODES = [process.execPath, join(root, "node_modules/node/bin/node")];

let folder: string;
beforeAll(async () => {
  folder = await makeFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules/savepoint"));
});
afterAll(() => removeFolder(folder));

function run(node: string, code: string, ...flags: string[]): string {
  const { stdout, stderr } = spawnSync(node, [...flags, "--input-type=commonjs", "-e", code], {
    cwd: folder,
    encoding: "utf8",
  });
  return (stdout + stderr).trim();
}

describe.each(NODES)("require() on %s", (node) => {
  it("loads every entry point, with the same objects as import", () => {
    const names = Object.keys(manifest.exports)
      .filter((name) => name !== "./package.json")
      .map((name) => name.replace(".", "savepoint"));
    expect(names.length).toBeGreaterThan(6);
    const code = `(async () => {
      for (const name of ${JSON.stringify(names)}) {
        const [required, imported] = [require(name), await import(name)];
        const keys = Object.keys(imported);
        if (keys.length === 0 || !keys.every((key) => required[key] === imported[key])) throw new Error(name);
      }
      const { Savepoint } = require("savepoint");
      const sp = await Savepoint.open("memory:");
      await sp.session("s").save({ n: 1 });
      console.log((await sp.session("s").latest()).state.n, require("savepoint/package.json").name);
      await sp.close();
    })();`;
    expect(run(node, code)).toBe("1 savepoint");
  });

  it("fails with what to write instead where Node cannot require ES modules", () => {
    const flag = "--no-experimental-require-module";
    expect(run(node, 'require("savepoint")', flag)).toMatch(
      /ERR_REQUIRE_ESM[^]*Instead change the require .* to a dynamic import\(\)/,
    );
    expect(run(node, 'import("savepoint").then(({ Savepoint }) => console.log(typeof Savepoint))', flag)).toBe(
      "function",
    );
  });
});
