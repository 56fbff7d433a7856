/**
 * The built package on Bun and Deno: small programs, and the conformance kit for stores. `npm run test:runtimes` runs this file; it is
 * not part of `npm test`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const programs = fileURLToPath(new URL("./programs/", import.meta.url));
const crashModules = fileURLToPath(new URL("../store/", import.meta.url));

const { platform, arch } = process;
/** The binaries for this platform. They are called directly, because the install scripts of `bun` and `deno` are disabled. */
const RUNTIMES = [
  { name: "Bun", path: `@oven/bun-${platform}-${arch === "arm64" ? "aarch64" : arch}/bin/bun`, args: [] },
  { name: "Deno", path: `@deno/${platform}-${arch}${platform === "linux" ? "-glibc" : ""}/deno`, args: ["run", "-A"] },
];

let folder: string;
beforeAll(async () => {
  folder = await makeFolder();
  const modules = join(folder, "node_modules");
  mkdirSync(modules);
  symlinkSync(root, join(modules, "savepoint"));
  for (const name of ["@langchain", "@photostructure"])
    symlinkSync(join(root, "node_modules", name), join(modules, name));
  cpSync(programs, folder, { recursive: true });
  // Deno uses the installed packages of a project, which has a package.json.
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  await build({
    entryPoints: [fileURLToPath(new URL("./store-kit.ts", import.meta.url))],
    outfile: join(folder, "store-kit.mjs"),
    bundle: true,
    platform: "node",
    format: "esm",
    tsconfigRaw: {},
    plugins: [
      {
        name: "the built package",
        setup(plugin) {
          plugin.onResolve({ filter: /^savepoint\/testing$/ }, () => ({ path: "savepoint/testing", external: true }));
          plugin.onResolve({ filter: /\/src\/store\.js$/ }, () => ({ path: "savepoint/store", external: true }));
        },
      },
    ],
  });
});
afterAll(() => removeFolder(folder));

describe.each(RUNTIMES)("$name", ({ path, args }) => {
  const binary = join(root, "node_modules", path);

  async function run(program: string, ...more: string[]): Promise<string> {
    expect(existsSync(binary), `${binary} exists`).toBe(true);
    const cwd = mkdtempSync(join(folder, "work-"));
    const child = spawn(binary, [...args, join(folder, program), ...more], {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DENO_DIR: join(folder, "deno") },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += String(data)));
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    const lines = output.trim().split("\n");
    return code === 0 ? (lines.at(-1) as string) : `${code ?? signal}: ${output}`;
  }

  describe.each(["sqlite:./store.db", "file:./store"])("on %s", (url) => {
    it.each([
      ["saves states that another process reads", "save.mjs"],
      ["opens, compares, forks and restores earlier checkpoints", "branches.mjs"],
      ["resumes after kill -9 without repeating recorded effects", "crash.mjs"],
      ["asks about an unknown outcome, and renews the lease of a run", "ask.mjs"],
      ["stores transcripts, threads and memories of other SDKs", "integrations.mjs"],
    ])("%s", async (_title, program) => {
      expect(await run(program, url)).toBe("ok");
    });
  });

  it("loads every entry point with require()", async () => {
    expect(await run("require.cjs")).toBe("ok");
  });

  it.each(["memory", "sqlite", "file"])("passes the conformance kit on the store %s", async (kind) => {
    expect(await run("store-kit.mjs", kind, crashModules)).toMatch(/^[1-9]\d+ passed, 0 failed$/);
  });
});
