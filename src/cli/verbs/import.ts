import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { isSavepointError, type Savepoint } from "../../index.js";
import type { Cli } from "../cli.js";
import { notFoundError } from "../errors.js";
import { formatCount, quote } from "../format.js";
import { warnHoles } from "../holes.js";
import { defineVerb } from "../verb.js";

/** How many halted sessions are listed. */
const MAX_LISTED = 5;

interface Options {
  readonly as?: string;
  readonly skipExisting?: boolean;
  readonly liveRuns?: boolean;
  readonly keyFile?: string;
}

export const importVerb = defineVerb<Options>({
  name: "import",
  group: "Maintain",
  summary: "import a bundle or a backup of any store",
  examples: [
    ["savepoint import order-88.savepoint", "ids, parents and branches are preserved"],
    ["savepoint import order-88.savepoint --as order-88-copy", "under another session id"],
    ["savepoint import all.savepoint --key-file ./other.keys", "of an encrypted store that has another key"],
    ["savepoint import - < all.savepoint", "from stdin; after an interruption, repeat it to continue"],
  ],
  declare(command) {
    command
      .argument("<file>", "a bundle or a backup; - for stdin")
      .option("--as <id>", "the new id of the session, for a bundle of one session")
      .option("--skip-existing", "skip sessions and conversations whose ids exist already")
      .option("--live-runs", "queue unfinished runs, so that workers resume them; only for your own bundles")
      .option("--key-file <path>", "the keys of an encrypted bundle (default: those of SAVEPOINT_KEY_FILE)");
  },
  async run(cli, [file = ""], { skipExisting, liveRuns, keyFile, ...renamed }) {
    if (file !== "-" && !existsSync(cli.resolvePath(file))) throw notFoundError(`There is no file ${quote(file)}.`);
    const keys = await cli.readKeyFile(keyFile);
    const { sp, created } = await openOrCreate(cli);
    if (created) cli.output.note(`Created the store ${sp.url}`);
    const source = file === "-" ? (cli.io.stdin as AsyncIterable<Uint8Array>) : cli.resolvePath(file);
    const total = typeof source === "string" ? (await stat(source).catch(() => undefined))?.size : undefined;
    const options = {
      ...renamed,
      ...keys,
      ...(skipExisting && { existing: "skip" as const }),
      ...(liveRuns && { runs: "live" as const }),
    };
    const result = await cli.withProgress({ label: "Importing", unit: "bytes", total }, (onProgress) =>
      sp.import(source, { ...options, onProgress }),
    );
    await cli.output.result(
      { ...result, store: sp.url, created },
      () =>
        `Imported ${formatCount(result.sessions, "session")}, ${formatCount(result.conversations, "conversation")}, ${formatCount(result.checkpoints, "checkpoint")} into ${sp.url}`,
    );
    if (result.halted.length > 0) {
      const halted = result.halted.slice(0, MAX_LISTED).join(", ");
      const more = result.halted.length > MAX_LISTED ? ` and ${result.halted.length - MAX_LISTED} more` : "";
      cli.output.note(`Halted, because their runs were unfinished: ${halted}${more}`);
      cli.output.note("To resume one, run your program on it with { resume: true }. No worker resumes it before that.");
      cli.output.note("To let workers resume them: delete them, and import them again with --live-runs");
    }
    for (const id of result.skipped) cli.output.note(`exists already: ${id}`);
    return warnHoles(cli.output, "not in the bundle", result.holes);
  },
});

/**
 * Opens the store. A store that `--store` or SAVEPOINT_URL names is created if it does not exist, because importing a bundle is
 * often the first use of a store.
 */
async function openOrCreate(cli: Cli): Promise<{ readonly sp: Savepoint; readonly created: boolean }> {
  try {
    return { sp: await cli.open(), created: false };
  } catch (error) {
    const isNamed = cli.storeUrl !== undefined || Boolean(cli.io.env["SAVEPOINT_URL"]);
    if (!isNamed || !isSavepointError(error, "STORE_NOT_FOUND")) throw error;
    return { sp: await cli.open({}), created: true };
  }
}
