/** Programs that a bundler has made one file of, and that run where the package is not installed. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { rolldown } from "rolldown";
import { expect, onTestFinished } from "vitest";
import { ALL_OWNERS, decodeOwner } from "../../src/records/index.js";
import { openStore, type Store } from "../../src/store.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { until } from "../support/until.mjs";

const root = fileURLToPath(new URL("../../", import.meta.url));
export const program = fileURLToPath(new URL("./program.mjs", import.meta.url));
/** The packages that are loaded at run time, and so must be installed beside a bundle. */
const DRIVERS = ["pg", "@photostructure/sqlite"];
/** Enough to pass the size at which the WAL is checkpointed many times. */
const SAVES = 5000;

/** Makes one file of the program. @param out the file */
export type Bundle = (out: string) => Promise<void>;

export const esbuildModule: Bundle = (out) => runEsbuild(out, "esm");
export const esbuildCommonJs: Bundle = (out) => runEsbuild(out, "cjs");

async function runEsbuild(outfile: string, format: "esm" | "cjs"): Promise<void> {
  const { warnings } = await build({
    entryPoints: [program],
    bundle: true,
    platform: "node",
    format,
    outfile,
    minify: true,
    absWorkingDir: root,
    // The paths of this repository's own configuration lead to the sources.
    tsconfigRaw: {},
    logOverride: { "empty-import-meta": "silent" },
  });
  expect(warnings).toEqual([]);
}

export const rolldownModule: Bundle = async (out) => {
  const bundle = await rolldown({ input: program, platform: "node", cwd: root, tsconfig: false });
  await bundle.write({ file: out, format: "esm", codeSplitting: false });
  await bundle.close();
};

export interface Report {
  readonly status: string;
  /** What `backgroundFailure` has reported. */
  readonly failures: string[];
  /** How many checkpoints the thread for the WAL has done. */
  readonly checkpoints: number;
}

/**
 * Runs the program as a bundle, in a folder that has only the drivers. While its step blocks the event loop, waits until
 * its lease was renewed twice.
 *
 * @param urlIn the URL of the store, which may be in the folder
 */
export async function runBundle(
  bundle: Bundle,
  urlIn: (folder: string) => string,
  args: { name?: string; execArgv?: string[] } = {},
): Promise<Report> {
  const folder = await makeFolder();
  let child: ChildProcess | undefined;
  let store: Store | undefined;
  onTestFinished(async () => {
    child?.kill("SIGKILL");
    await store?.close();
    await removeFolder(folder);
  });
  const out = join(folder, args.name ?? "program.mjs");
  await bundle(out);
  for (const name of DRIVERS) {
    const link = join(folder, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, "node_modules", name), link);
  }
  const url = urlIn(folder);
  const enough = join(folder, "enough");
  let printed = "";
  let errors = "";
  child = spawn(
    process.execPath,
    [...(args.execArgv ?? []), out, url, enough, url.startsWith("sqlite:") ? String(SAVES) : "0"],
    {
      // Not where the bundle is: packages must be found from there.
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  child.stdout?.on("data", (data: Buffer) => (printed += data.toString()));
  child.stderr?.on("data", (data: Buffer) => (errors += data.toString()));
  const ended = new Promise<number | null>((resolve) => child?.once("close", resolve));
  await until(
    () => printed.startsWith("blocked\n") || child?.exitCode !== null,
    () => `the step to block: ${errors}`,
  );
  store = await openStore(url, { create: false, durability: "process" });
  const times = new Set<number>();
  await until(
    async () => {
      for (const record of (await store?.list(ALL_OWNERS, { limit: 10 })) ?? []) {
        if ("value" in record) times.add(decodeOwner(record.value).until);
      }
      return times.size > 2;
    },
    () => `the lease of the blocked process to be renewed: ${errors}`,
  );
  writeFileSync(enough, "");
  expect(await ended, errors).toBe(0);
  expect(errors).toBe("");
  return JSON.parse(printed.split("\n")[1] ?? "") as Report;
}
