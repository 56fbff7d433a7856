import { basename, join } from "node:path";
import { parseCount } from "../arguments.js";
import { usageError } from "../errors.js";
import { formatBytes, formatCount } from "../format.js";
import { warnHoles } from "../holes.js";
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
    // A backup is recorded in the store, but a store on a read-only medium can be backed up too. If the store cannot be read
    // either, this throws.
    const sp = await cli.open().catch(() => cli.read());
    const { checkpoints } = await sp.stats();
    const progress = { label: "Backing up", unit: "checkpoints", total: checkpoints } as const;
    const result = await cli.withProgress(progress, (onProgress) =>
      sp.backup({ to: cli.resolvePath(to), keep, onProgress }),
    );
    // Paths are printed relative to the same folder as the path in --to.
    const toPrinted = (path: string): string => join(to, basename(path));
    const printed = { ...result, path: toPrinted(result.path), removed: result.removed.map(toPrinted) };
    await cli.output.result(
      printed,
      () =>
        `${printed.path}  ${formatCount(printed.checkpoints, "checkpoint")}, ${formatBytes(printed.bytes)}, verified`,
    );
    for (const path of printed.removed) cli.output.note(`removed ${path}`);
    return warnHoles(cli.output, "not in the backup", printed.holes);
  },
});
