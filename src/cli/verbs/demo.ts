import { mkdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseCount } from "../arguments.js";
import type { Cli } from "../cli.js";
import { EXIT } from "../exit-codes.js";
import { quoteForShell } from "../shell.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly kills?: number;
  readonly seed?: number;
}

const DEMO = new URL("../../../examples/demo/demo.mjs", import.meta.url);

export const demo = defineVerb<Options>({
  name: "demo",
  group: "Set up",
  summary: "kill an agent a dozen times, and show that nothing is lost or done twice",
  examples: [
    ["savepoint demo", "in a new folder, which is kept"],
    ["savepoint demo --kills 3 --seed 42", "a short demo, killed at the same moments each time"],
  ],
  declare(command) {
    command
      .option("--kills <count>", "how often the agent is killed", parseCount, 12)
      .option("--seed <number>", "the seed for the moments of the kills", parseCount);
  },
  async run(cli, _, { kills = 12, seed }) {
    // Imported here, because loading it would make help slower by a tenth.
    const { spawn } = await import("node:child_process");
    const folder = await createFolder(cli);
    const args = ["--folder", folder, "--command", "npx savepoint demo", "--kills", String(kills)];
    if (seed !== undefined) args.push("--seed", String(seed));
    const { io, output } = cli;
    // With JSON output, stdout is reserved for the result.
    const stdout = output.format === "text" ? io.stdout : io.stderr;
    const child = spawn(io.node.path, [fileURLToPath(DEMO), ...args], {
      cwd: io.cwd,
      env: io.env,
      stdio: ["ignore", stdout, io.stderr],
    });
    cli.signal.addEventListener("abort", () => child.kill());
    const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
    const store = `sqlite:${relative(io.cwd, join(folder, "demo.db"))}`;
    const ok = code === 0;
    await output.result({ ok, folder, store, session: "orders" }, () => []);
    output.note("");
    output.note(`To inspect its store: npx savepoint log orders --graph --store ${quoteForShell(store)}`);
    return ok ? EXIT.ok : EXIT.failed;
  },
});

/** Creates a new folder in the current one. */
async function createFolder(cli: Cli): Promise<string> {
  for (let n = 1; ; n++) {
    const folder = cli.resolvePath(n === 1 ? "savepoint-demo" : `savepoint-demo-${n}`);
    try {
      await mkdir(folder, { mode: 0o700 });
      return folder;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
