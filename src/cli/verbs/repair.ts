import type { RepairReport } from "../../index.js";
import { collectValues } from "../arguments.js";
import { EXIT, type ExitCode } from "../exit-codes.js";
import { sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly from?: string[];
  readonly dryRun?: boolean;
}

export const repair = defineVerb<Options>({
  name: "repair",
  group: "Keep safe",
  summary: "bring back what is damaged, from backups and from what follows from the rest",
  examples: [
    ["savepoint repair --from ./backups --dry-run", "what could be brought back"],
    ["savepoint repair --from ./backups", "bring it back; what can be read is never touched"],
  ],
  declare(command) {
    command
      .option("--from <path>", "a backup, a bundle, or a folder of backups; may be given several times", collectValues)
      .option("--dry-run", "only say what could be brought back");
  },
  async run(cli, _, { from, dryRun = false }) {
    const sp = await cli.open();
    const { checkpoints } = await sp.stats();
    const bar = cli.progress({ label: "Looking for damage", unit: "checkpoints", total: checkpoints });
    let report: RepairReport;
    try {
      const onProgress = (progress: { checkpoints: number }): void => bar.update(progress.checkpoints);
      const sources = from && { from: from.map((path) => cli.resolvePath(path)) };
      report = await sp.repair({ ...sources, dryRun, onProgress });
    } finally {
      bar.stop();
    }
    const { healed, holes } = report;
    const { colors } = cli.output;
    await cli.output.result(report, () => {
      const lines = [
        ...healed.map(({ place }) => `${colors.green(dryRun ? "can be healed" : "healed")}  ${sanitize(place)}`),
        ...holes.map(({ place, reason }) => `${colors.red("lost")}  ${sanitize(place)}: ${sanitize(reason)}`),
      ];
      if (lines.length === 0) return "Nothing is damaged.";
      const done = `${dryRun ? "could be brought back" : "brought back"}`;
      return [
        ...lines,
        `${formatCount(healed.length, "problem")} ${done}, ${formatCount(holes.length, "hole")} left.`,
      ].join("\n");
    });
    return exitCode(report);
  },
});

function exitCode({ healed, holes }: RepairReport): ExitCode {
  if (holes.length === 0) return EXIT.ok;
  return healed.length > 0 ? EXIT.partly : EXIT.damage;
}
