import { stat } from "node:fs/promises";
import { EXIT } from "../exit-codes.js";
import { sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly as?: string;
  readonly skipExisting?: boolean;
}

export const importVerb = defineVerb<Options>({
  name: "import",
  group: "Keep safe",
  summary: "take in what was exported or backed up, from any store",
  examples: [
    ["savepoint import order-88.savepoint", "ids, parents and branches stay what they are"],
    ["savepoint import order-88.savepoint --as order-88-copy", "under another name"],
    ["savepoint import - < all.savepoint", "from stdin; once more goes on where it was interrupted"],
  ],
  declare(command) {
    command
      .argument("<file>", "a bundle or a backup; - for stdin")
      .option("--as <id>", "the id that the session gets, where there is only one")
      .option("--skip-existing", "leave out what is there already under the same id");
  },
  async run(cli, [file = ""], { as, skipExisting }) {
    const sp = await cli.open();
    const source = file === "-" ? (cli.io.stdin as AsyncIterable<Uint8Array>) : cli.resolvePath(file);
    const total = typeof source === "string" ? (await stat(source).catch(() => undefined))?.size : undefined;
    const bar = cli.progress({ label: "Importing", unit: "bytes", total });
    try {
      const done = await sp.import(source, {
        ...(as !== undefined && { as }),
        ...(skipExisting && { existing: "skip" as const }),
        onProgress: (progress) => bar.update(progress.bytes),
      });
      bar.stop();
      await cli.output.result(
        done,
        () =>
          `Imported ${formatCount(done.sessions, "session")}, ${formatCount(done.conversations, "conversation")}, ${formatCount(done.checkpoints, "checkpoint")}.`,
      );
      for (const id of done.skipped) cli.output.note(`was there already: ${sanitize(id)}`);
      for (const hole of done.holes)
        cli.output.warn(`the bundle lacks ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
