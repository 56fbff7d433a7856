import type { KeyUse, VerifyOptions, VerifyReport } from "../../index.js";
import { parseFraction } from "../arguments.js";
import { findCheckpoint, requireScope } from "../checkpoint-lookup.js";
import { EXIT } from "../exit-codes.js";
import { formatCount } from "../format.js";
import { colored } from "../text.js";
import { defineVerb } from "../verb.js";

interface Options extends Omit<VerifyOptions, "onProgress"> {
  readonly bundle?: string;
}

export const verify = defineVerb<Options>({
  name: "verify",
  group: "Maintain",
  summary: "check that everything in the store is present and intact",
  examples: [
    ["savepoint verify", "check records and their references"],
    ["savepoint verify --deep", "check every byte"],
    ["savepoint verify --bundle ./backups/….savepoint", "check a backup"],
  ],
  declare(command) {
    command
      .option("--deep", "read every item too; takes as long as reading the store")
      .option("--sample <fraction>", "check a fraction of the checkpoints, such as 0.1", parseFraction)
      .option("--session <id>", "only this session")
      .option("-a, --agent <id>", "only this agent with its conversations and sessions")
      .option("--checkpoint <name>", "only this checkpoint")
      .option("--bundle <file>", "check a bundle or a backup and not the store");
  },
  async run(cli, _, { checkpoint, bundle, ...options }) {
    // A bundle needs no store, and checking one must not create one.
    const sp = bundle === undefined ? await cli.read() : await cli.open({}, "memory:");
    const match = checkpoint === undefined ? undefined : await findCheckpoint(sp, checkpoint);
    await requireScope(sp, options);
    const hasTotal = options.session === undefined && match === undefined && bundle === undefined;
    const total = hasTotal ? (await sp.stats()).checkpoints : undefined;
    const report = await cli.withProgress({ label: "Verifying", unit: "checkpoints", total }, (onProgress) =>
      sp.verify({
        ...options,
        ...(match && { checkpoint: match.info.id }),
        ...(bundle !== undefined && { bundle: cli.resolvePath(bundle) }),
        onProgress,
      }),
    );
    const { ok, problems, keys = [] } = report;
    await cli.output.result(report, () => [
      ...problems.map(({ place, reason }) => colored`${cli.output.colors.red("damaged")}  ${place}: ${reason}`),
      `${ok ? "No damage" : formatCount(problems.length, "problem")} found in ${describeScope(report)}.`,
      ...keys.map(describeKey),
    ]);
    if (!ok && bundle === undefined) cli.output.note("To repair: savepoint repair --from ./backups");
    return ok ? EXIT.ok : EXIT.damage;
  },
});

function describeKey({ name = "without a name", fingerprint, current, dataKeys }: KeyUse): string {
  const use = current
    ? "the current key"
    : dataKeys > 0
      ? 'still needed: run "savepoint rekey"'
      : "not needed any more";
  return `Key ${name} (${fingerprint}): ${formatCount(dataKeys, "data key")}, ${use}.`;
}

/** What was checked. */
function describeScope({ records, sessions, checkpoints, conversations, items, deep }: VerifyReport): string {
  const parts = [
    formatCount(sessions, "session"),
    formatCount(checkpoints, "checkpoint"),
    formatCount(conversations, "conversation"),
    formatCount(records, "record"),
    ...(deep ? [formatCount(items, "item")] : []),
  ];
  return parts.join(", ");
}
