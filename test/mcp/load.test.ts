/** The MCP server needs optional packages. */
import { cp } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  // The package as after an install without optional dependencies.
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  await cp(join(root, "package.json"), join(folder, "package.json"));
});
afterEach(() => removeFolder(folder));

it("savepoint mcp names missing packages, and other commands work without them", () => {
  const command = join(folder, "dist", "bin", "savepoint.js");
  const run = (...args: string[]): { status: number | null; output: string } => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], {
      cwd: folder,
      encoding: "utf8",
    });
    return { status, output: stdout + stderr };
  };
  expect(run("init", "--store", "file:./store").status).toBe(0);
  const { status, output } = run("mcp", "--store", "file:./store");
  expect(status).not.toBe(0);
  expect(output).toContain("npm install @modelcontextprotocol/server zod");
  expect(run("sessions", "--store", "file:./store").status).toBe(0);
});
