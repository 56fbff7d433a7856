import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { esbuildModule, program, type Report, runBundle } from "./bundles.js";

it("bundled into one file by esbuild, a thread renews the lease while a step blocks the event loop, and another one checkpoints the WAL", async () => {
  const report = await runBundle(esbuildModule, (folder) => `sqlite:${join(folder, "store.db")}`);
  expect(report).toMatchObject({ status: "completed", failures: [] });
  expect(report.checkpoints).toBeGreaterThan(0);
});

it("no file that the library loads refers to another one in the way that makes webpack look for it", () => {
  const dist = new URL("../../dist/", import.meta.url);
  const files = new Set(["index", "integrations/ai/index", "integrations/langgraph/index"].map((name) => `${name}.js`));
  for (const file of files) {
    const code = readFileSync(new URL(file, dist), "utf8");
    expect([file, code.match(/new URL\([^()]*import\.meta\.url\)/)]).toEqual([file, null]);
    for (const [, path = ""] of code.matchAll(/(?:from |import\(|import )"(\.[^"]+)"/g)) {
      files.add(new URL(path, new URL(file, dist)).href.slice(dist.href.length));
    }
  }
  expect(files.size).toBeGreaterThan(5);
});

it("a runtime that starts no threads is reported, and the event loop does their work", async () => {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  const withoutThreads = `import threads from "node:worker_threads";
    import { syncBuiltinESMExports } from "node:module";
    threads.Worker = class { constructor() { throw new Error("no threads here"); } };
    syncBuiltinESMExports();`;
  const enough = join(folder, "enough");
  writeFileSync(enough, "");
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      "--import",
      `data:text/javascript,${encodeURIComponent(withoutThreads)}`,
      program,
      `sqlite:${join(folder, "store.db")}`,
      enough,
      "400",
    ],
    { encoding: "utf8" },
  );
  expect(stderr).toBe("");
  const { status, failures, checkpoints } = JSON.parse(stdout.split("\n")[1] ?? "") as Report;
  expect({ status, checkpoints }).toEqual({ status: "completed", checkpoints: 0 });
  expect(failures).toEqual([
    "no thread can renew the lease, so the event loop does; other processes take over the runs of this process if a step blocks it for longer than 1000 ms: Error: no threads here",
    "the WAL cannot be checkpointed in the background, so some saves will wait for it: Error: no threads here",
  ]);
});

it("a program that does not close its Savepoint ends when its work is done", async () => {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  const library = new URL("../../dist/index.js", import.meta.url).href;
  const source = `
    import { defineAgent, Savepoint } from ${JSON.stringify(library)};
    const agent = defineAgent({ name: "a", initial: () => ({}), step: async (run) => run.complete(await run.effect("x", () => 1)) });
    const sp = await Savepoint.open(${JSON.stringify(`sqlite:${join(folder, "store.db")}`)});
    console.log((await sp.run(agent, { session: "s", input: 1 })).status);`;
  const program = join(folder, "program.mjs");
  writeFileSync(program, source);
  const { stdout, signal } = spawnSync(process.execPath, [program], { encoding: "utf8", timeout: 30_000 });
  expect({ stdout, signal }).toEqual({ stdout: "completed\n", signal: null });
});
