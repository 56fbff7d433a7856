import { collectValues } from "../arguments.js";
import { EXIT } from "../exit-codes.js";
import { formatCount } from "../format.js";
import { colored } from "../text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly from?: string[];
  readonly dryRun?: boolean;
}

export const repair = defineVerb<Options>({
  name: "repair",
  group: "Maintain",
  summary: "repair damage from backups and from redundant data in the store",
  examples: [
    ["savepoint repair --from ./backups --dry-run", "list what can be repaired"],
    ["savepoint repair --from ./backups", "repair it; intact data is never changed"],
  ],
  declare(command) {
    command
      .option("--from <path>", "a backup, a bundle or a folder of backups; repeatable", collectValues)
      .option("--dry-run", "list what can be repaired, and change nothing");
  },
  async run(cli, _, { from, dryRun = false }) {
    const sp = await cli.open();
    const { checkpoints } = await sp.stats();
    const progress = { label: "Checking for damage", unit: "checkpoints", total: checkpoints } as const;
    const sources = from && { from: from.map((path) => cli.resolvePath(path)) };
    const report = await cli.withProgress(progress, (onProgress) => sp.repair({ ...sources, dryRun, onProgress }));
    const { healed, holes } = report;
    const { colors } = cli.output;
    await cli.output.result(report, () => {
      const lines = [
        ...healed.map(({ place }) => colored`${colors.green(dryRun ? "repairable" : "repaired")}  ${place}`),
        ...holes.map(({ place, reason }) => colored`${colors.red("lost")}  ${place}: ${reason}`),
      ];
      if (lines.length === 0) return "No damage found.";
      const done = dryRun ? "can be repaired" : "repaired";
      return [...lines, `${formatCount(healed.length, "problem")} ${done}, ${holes.length} lost.`];
    });
    if (holes.length === 0) return EXIT.ok;
    return healed.length > 0 ? EXIT.partial : EXIT.damage;
  },
});
