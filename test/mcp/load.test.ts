/** The server is loaded only where it is wanted, and says what is missing where it cannot be. */
import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
  // The package as it is where its optional dependencies were left out.
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  await cp(join(root, "package.json"), join(folder, "package.json"));
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules", "fzstd"), join(folder, "node_modules", "fzstd"));
});
afterEach(() => removeFolder(folder));

async function run(program: string): Promise<string> {
  await writeFile(join(folder, "program.mjs"), program);
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "program.mjs")], { encoding: "utf8" });
  return stdout + stderr;
}

it("without its packages it is an error that names them, and the rest of Savepoint works", async () => {
  const said = await run(`
    import { Savepoint } from "./dist/index.js";
    import { loadMcp } from "./dist/mcp/load.js";
    const sp = await Savepoint.open("memory:");
    const error = await loadMcp().catch((error) => error);
    console.log(error.code, error.message, error.cause?.code);
    await sp.close();
  `);
  expect(said).toContain("MISSING_DEPENDENCY");
  expect(said).toContain("npm install @modelcontextprotocol/server zod");
  expect(said).toContain("ERR_MODULE_NOT_FOUND");
});
