import { basename, join } from "node:path";
import { toCount } from "../arguments.js";
import { EXIT } from "../exit-codes.js";
import { usage } from "../failure.js";
import { bytes, clean, count } from "../text.js";
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
    command.option("--to <folder>", "where backups are kept").option("--keep <count>", "how many are kept", toCount, 3);
  },
  async run(cli, _, { to, keep = 3 }) {
    if (to === undefined) throw usage("Say where: --to ./backups.");
    const sp = await cli.open();
    const { checkpoints } = await sp.stats();
    const bar = cli.progress({ doing: "Backing up", unit: "checkpoints", total: checkpoints });
    try {
      const made = await sp.backup({
        to: cli.path(to),
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
          `${clean(done.path)}  ${count(done.checkpoints, "checkpoint")}, ${bytes(done.bytes)}, read back and whole`,
      );
      for (const path of done.removed) cli.output.note(`removed ${clean(path)}`);
      for (const hole of done.holes) cli.output.warn(`not in it: ${clean(hole.place)}: ${clean(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
