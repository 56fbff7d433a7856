import { stat } from "node:fs/promises";
import { EXIT } from "../exit-codes.js";
import { formatCount } from "../format.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly as?: string;
  readonly skipExisting?: boolean;
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
      .option("--skip-existing", "skip sessions and conversations whose ids exist already");
  },
  async run(cli, [file = ""], { as, skipExisting }) {
    const sp = await cli.open();
    const source = file === "-" ? (cli.io.stdin as AsyncIterable<Uint8Array>) : cli.resolvePath(file);
    const total = typeof source === "string" ? (await stat(source).catch(() => undefined))?.size : undefined;
    const bar = cli.progress({ label: "Importing", unit: "bytes", total });
    try {
      const result = await sp.import(source, {
        ...(as !== undefined && { as }),
        ...(skipExisting && { existing: "skip" as const }),
        onProgress: (progress) => bar.update(progress.bytes),
      });
      bar.stop();
      await cli.output.result(
        result,
        () =>
          `Imported ${formatCount(result.sessions, "session")}, ${formatCount(result.conversations, "conversation")}, ${formatCount(result.checkpoints, "checkpoint")}.`,
      );
      for (const id of result.skipped) cli.output.note(`exists already: ${sanitize(id)}`);
      for (const hole of result.holes) {
        cli.output.warn(`not in the bundle: ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      }
      return result.holes.length > 0 ? EXIT.partial : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
