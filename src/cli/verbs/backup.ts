import { basename, join } from "node:path";
import { parseCount } from "../arguments.js";
import { EXIT } from "../exit-codes.js";
import { usageError } from "../errors.js";
import { formatBytes, sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly to?: string;
  readonly keep?: number;
}

export const backup = defineVerb<Options>({
  name: "backup",
  group: "Keep safe",
  summary: "write everything to a file in a folder, verified, and remove the oldest ones",
  examples: [
    ["savepoint backup --to ./backups", "a backup, of which the newest three are kept"],
    ["savepoint backup --to /mnt/backups --keep 14 --json", "for a nightly job"],
  ],
  declare(command) {
    command
      .option("--to <folder>", "where backups are kept")
      .option("--keep <count>", "how many are kept", parseCount, 3);
  },
  async run(cli, _, { to, keep = 3 }) {
    if (to === undefined) throw usageError("Say where: --to ./backups.");
    const sp = await cli.open();
    const { checkpoints } = await sp.stats();
    const bar = cli.progress({ label: "Backing up", unit: "checkpoints", total: checkpoints });
    try {
      const made = await sp.backup({
        to: cli.resolvePath(to),
        keep,
        onProgress: (progress) => bar.update(progress.checkpoints),
      });
      // Paths are printed relative to the same folder as the path that was given.
      const named = (path: string): string => join(to, basename(path));
      const done = { ...made, path: named(made.path), removed: made.removed.map(named) };
      bar.stop();
      await cli.output.result(
        done,
        () =>
          `${sanitize(done.path)}  ${formatCount(done.checkpoints, "checkpoint")}, ${formatBytes(done.bytes)}, read back and whole`,
      );
      for (const path of done.removed) cli.output.note(`removed ${sanitize(path)}`);
      for (const hole of done.holes) cli.output.warn(`not in it: ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
