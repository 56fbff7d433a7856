import { mkdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseCount } from "../arguments.js";
import type { Cli } from "../cli.js";
import { EXIT } from "../exit-codes.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly kills?: number;
  readonly seed?: number;
}

const DEMO = new URL("../../../examples/demo/demo.mjs", import.meta.url);

export const demo = defineVerb<Options>({
  name: "demo",
  group: "Set up",
  summary: "kill an agent a dozen times, and see that nothing is lost or done twice",
  examples: [
    ["savepoint demo", "in a folder of its own, which stays"],
    ["savepoint demo --kills 3 --seed 42", "a short one, with the same moments each time"],
  ],
  declare(command) {
    command
      .option("--kills <count>", "how often it is killed", parseCount, 12)
      .option("--seed <number>", "decides when", parseCount);
  },
  async run(cli, _, { kills = 12, seed }) {
    // Loading it takes a tenth of the time in which help is printed.
    const { spawn } = await import("node:child_process");
    const folder = await newFolder(cli);
    const wanted = ["--kills", String(kills), ...(seed === undefined ? [] : ["--seed", String(seed)])];
    const how = ["--folder", folder, "--command", "npx savepoint demo"];
    const { io, output } = cli;
    // Data goes to stdout: for programs that is the result, and for people it is what happens.
    const stdout = output.format === "text" ? io.stdout : io.stderr;
    const child = spawn(io.node.path, [fileURLToPath(DEMO), ...how, ...wanted], {
      cwd: io.cwd,
      env: io.env,
      stdio: ["ignore", stdout, io.stderr],
    });
    cli.signal.addEventListener("abort", () => child.kill());
    const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
    const store = `sqlite:${relative(io.cwd, join(folder, "demo.db"))}`;
    const ok = code === 0;
    await output.result({ ok, folder, store, session: "orders" }, () => "");
    output.note(`\nWhat it has left: npx savepoint log orders --graph --store ${sanitize(store)}`);
    return ok ? EXIT.ok : EXIT.failed;
  },
});

/** A folder that was not there before, in this one. */
async function newFolder(cli: Cli): Promise<string> {
  for (let n = 1; ; n++) {
    const folder = cli.resolvePath(n === 1 ? "savepoint-demo" : `savepoint-demo-${n}`);
    try {
      await mkdir(folder);
      return folder;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
