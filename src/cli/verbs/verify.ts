import type { VerifyReport } from "../../index.js";
import { parseFraction } from "../arguments.js";
import { EXIT } from "../exit-codes.js";
import { findCheckpoint, requireAgent, requireSession } from "../checkpoint-lookup.js";
import { sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly deep?: boolean;
  readonly sample?: number;
  readonly session?: string;
  readonly agent?: string;
  readonly checkpoint?: string;
  readonly bundle?: string;
}

export const verify = defineVerb<Options>({
  name: "verify",
  group: "Keep safe",
  summary: "look whether everything that was saved is there, and whole",
  examples: [
    ["savepoint verify", "records, and what they point at"],
    ["savepoint verify --deep", "every byte"],
    ["savepoint verify --bundle ./backups/….savepoint", "a backup"],
  ],
  declare(command) {
    command
      .option("--deep", "read every item as well; takes as long as reading the store")
      .option("--sample <share>", "look at a share of the checkpoints, such as 0.1", parseFraction)
      .option("--session <id>", "only this session")
      .option("-a, --agent <id>", "only this agent with its conversations and sessions")
      .option("--checkpoint <name>", "only this checkpoint")
      .option("--bundle <file>", "a bundle or a backup, instead of the store");
  },
  async run(cli, _, { checkpoint, bundle, ...options }) {
    // A bundle needs no store, and must not make one.
    const sp = bundle === undefined ? await cli.open() : await cli.open({}, "memory:");
    const named = checkpoint === undefined ? undefined : await findCheckpoint(sp, checkpoint);
    if (options.session !== undefined) await requireSession(sp, options.session);
    if (options.agent !== undefined) await requireAgent(sp, options.agent);
    const whole = options.session === undefined && named === undefined && bundle === undefined;
    const total = whole ? (await sp.stats()).checkpoints : undefined;
    const bar = cli.progress({ label: "Verifying", unit: "checkpoints", total });
    let report: VerifyReport;
    try {
      report = await sp.verify({
        ...options,
        ...(named && { checkpoint: named.info.id }),
        ...(bundle !== undefined && { bundle: cli.resolvePath(bundle) }),
        onProgress: (progress) => bar.update(progress.checkpoints),
      });
    } finally {
      bar.stop();
    }
    const { ok, problems } = report;
    await cli.output.result(report, () =>
      [
        ...problems.map(
          ({ place, reason }) => `${cli.output.colors.red("damaged")}  ${sanitize(place)}: ${sanitize(reason)}`,
        ),
        `${ok ? "All is well" : formatCount(problems.length, "problem")}: ${looked(report)}.`,
      ].join("\n"),
    );
    if (!ok && bundle === undefined) {
      cli.output.note("Bring back what is lost with: savepoint repair --from ./backups");
    }
    return ok ? EXIT.ok : EXIT.damage;
  },
});

function looked({ records, sessions, checkpoints, conversations, items, deep }: VerifyReport): string {
  const parts = [
    formatCount(sessions, "session"),
    formatCount(checkpoints, "checkpoint"),
    formatCount(conversations, "conversation"),
    formatCount(records, "record"),
    ...(deep ? [formatCount(items, "item")] : []),
  ];
  return parts.join(", ");
}
