import { basename, join } from "node:path";
import { parseCount } from "../arguments.js";
import { usageError } from "../errors.js";
import { EXIT } from "../exit-codes.js";
import { formatBytes, formatCount } from "../format.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly to?: string;
  readonly keep?: number;
}

export const backup = defineVerb<Options>({
  name: "backup",
  group: "Maintain",
  summary: "write a verified backup to a folder, and remove the oldest ones",
  examples: [
    ["savepoint backup --to ./backups", "keep the newest three backups"],
    ["savepoint backup --to /mnt/backups --keep 14 --json", "for a nightly job"],
  ],
  declare(command) {
    command
      .option("--to <folder>", "the folder of the backups")
      .option("--keep <count>", "how many backups to keep", parseCount, 3);
  },
  async run(cli, _, { to, keep = 3 }) {
    if (to === undefined) throw usageError("--to is missing. Name the folder: --to ./backups.");
    const sp = await cli.open();
    const { checkpoints } = await sp.stats();
    const bar = cli.progress({ label: "Backing up", unit: "checkpoints", total: checkpoints });
    try {
      const result = await sp.backup({
        to: cli.resolvePath(to),
        keep,
        onProgress: (progress) => bar.update(progress.checkpoints),
      });
      // Paths are printed relative to the same folder as the path in --to.
      const toPrinted = (path: string): string => join(to, basename(path));
      const printed = { ...result, path: toPrinted(result.path), removed: result.removed.map(toPrinted) };
      bar.stop();
      await cli.output.result(
        printed,
        () =>
          `${sanitize(printed.path)}  ${formatCount(printed.checkpoints, "checkpoint")}, ${formatBytes(printed.bytes)}, verified`,
      );
      for (const path of printed.removed) cli.output.note(`removed ${sanitize(path)}`);
      for (const hole of printed.holes) {
        cli.output.warn(`not in the backup: ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      }
      return printed.holes.length > 0 ? EXIT.partial : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
