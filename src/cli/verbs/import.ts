import { stat } from "node:fs/promises";
import { formatCount } from "../format.js";
import { warnHoles } from "../holes.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly as?: string;
  readonly skipExisting?: boolean;
  readonly liveRuns?: boolean;
}

export const importVerb = defineVerb<Options>({
  name: "import",
  group: "Maintain",
  summary: "import a bundle or a backup of any store",
  examples: [
    ["savepoint import order-88.savepoint", "ids, parents and branches are preserved"],
    ["savepoint import order-88.savepoint --as order-88-copy", "under another session id"],
    ["savepoint import - < all.savepoint", "from stdin; after an interruption, repeat it to continue"],
  ],
  declare(command) {
    command
      .argument("<file>", "a bundle or a backup; - for stdin")
      .option("--as <id>", "the new id of the session, for a bundle of one session")
      .option("--skip-existing", "skip sessions and conversations whose ids exist already")
      .option("--live-runs", "queue unfinished runs, so that workers resume them; only for your own bundles");
  },
  async run(cli, [file = ""], { skipExisting, liveRuns, ...renamed }) {
    const sp = await cli.open();
    const source = file === "-" ? (cli.io.stdin as AsyncIterable<Uint8Array>) : cli.resolvePath(file);
    const total = typeof source === "string" ? (await stat(source).catch(() => undefined))?.size : undefined;
    const options = {
      ...renamed,
      ...(skipExisting && { existing: "skip" as const }),
      ...(liveRuns && { runs: "live" as const }),
    };
    const result = await cli.withProgress({ label: "Importing", unit: "bytes", total }, (onProgress) =>
      sp.import(source, { ...options, onProgress }),
    );
    await cli.output.result(
      result,
      () =>
        `Imported ${formatCount(result.sessions, "session")}, ${formatCount(result.conversations, "conversation")}, ${formatCount(result.checkpoints, "checkpoint")}.`,
    );
    if (result.halted.length > 0) {
      const runs = formatCount(result.halted.length, "session");
      cli.output.note(
        `${runs} with unfinished runs: halted until you run them. To queue the runs instead, delete these sessions and import them again with --live-runs`,
      );
    }
    for (const id of result.skipped) cli.output.note(`exists already: ${id}`);
    return warnHoles(cli.output, "not in the bundle", result.holes);
  },
});
