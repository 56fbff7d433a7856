import { InvalidArgumentError } from "commander";
import type {
  CheckpointKind,
  KeptCheckpoint,
  NeededBy,
  PrunedCheckpoint,
  PruneOptions,
  PruneResult,
} from "../../index.js";
import { collectValues, parseCount } from "../arguments.js";
import { requireScope } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { formatBytes, formatCount, shortId } from "../format.js";
import { defineVerb } from "../verb.js";

interface Options extends Omit<PruneOptions, "kinds" | "onProgress"> {
  readonly session?: string;
  readonly agent?: string;
  readonly kind?: CheckpointKind[];
}

export const prune = defineVerb<Options>({
  name: "prune",
  group: "Maintain",
  summary: "remove checkpoints that no option keeps",
  examples: [
    [
      "savepoint prune --session order-88 --keep-last 20 --dry-run",
      "list what would be removed, and why the rest is kept",
    ],
    ["savepoint prune --keep-last 10 --keep-daily 30 --yes", "in the whole store, without confirmation"],
    ["savepoint prune --expired --yes", "remove only expired checkpoints"],
  ],
  declare(command) {
    command
      .option("--session <id>", "only this session")
      .option("-a, --agent <id>", "only this agent and its sessions")
      .option("--keep-last <count>", "keep this many of the newest checkpoints of each branch", parseCount)
      .option("--keep-hourly <count>", "keep the newest checkpoint of each hour, for this many hours", parseCount)
      .option("--keep-daily <count>", "keep the newest checkpoint of each day, for this many days", parseCount)
      .option("--keep-weekly <count>", "keep the newest checkpoint of each week, for this many weeks", parseCount)
      .option("--keep-within <time>", 'keep all checkpoints that are younger than this, such as "7d"')
      .option("--no-keep-labelled", "remove labelled checkpoints too")
      .option(
        "--kind <kind>",
        "remove only automatic, manual, preOperation or recovery checkpoints; repeatable",
        parseKinds,
      )
      .option("--ttl <time>", "expire checkpoints without a lifetime of their own at this age")
      .option("--expired", "remove only expired checkpoints")
      .option("--dry-run", "list what would be removed, and remove nothing");
  },
  async run(cli, _, { dryRun = false, kind, keepLabelled, ...target }) {
    const { session, agent, ...rules } = target;
    if (Object.keys(rules).length === 0) {
      throw usageError(
        "Pass at least one of --keep-last, --keep-hourly, --keep-daily, --keep-weekly, --keep-within, --ttl and --expired.",
      );
    }
    const options = {
      ...target,
      ...(keepLabelled === false && { keepLabelled }),
      ...(kind && { kinds: kind }),
    };
    if (session !== undefined && agent !== undefined) throw usageError("--session cannot be combined with --agent.");
    const sp = await cli.open();
    await requireScope(sp, target);
    const total = session === undefined ? (await sp.stats(agent === undefined ? {} : { agent })).sessions : 1;
    const runPrune = (dry: boolean, label: string): Promise<PruneResult> =>
      cli.withProgress({ label, unit: "sessions", total }, (onProgress) =>
        sp.prune({ ...options, dryRun: dry, onProgress }),
      );
    const plan = await runPrune(true, "Planning");
    // Without a --keep option, only expired checkpoints are removed.
    const hasKeepRule = KEEP_RULES.some((option) => rules[option] !== undefined);
    const removalReason = hasKeepRule ? "no option keeps it" : "expired";
    if (dryRun || plan.removed === 0) return printResult(cli, { ...plan, dryRun }, removalReason);
    const question = `Remove ${formatCount(plan.removed, "checkpoint")} and keep ${plan.kept.length.toLocaleString("en-US")}?`;
    if (!(await cli.confirm(question))) return;
    await printResult(cli, await runPrune(false, "Pruning"), removalReason);
  },
});

const KEEP_RULES = ["keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepWithin"] as const;

async function printResult({ output }: Cli, result: PruneResult, removalReason: string): Promise<void> {
  const { dryRun, removed, gone, kept, rowsOnly } = result;
  if (output.format !== "text") return output.result(result, () => []);
  const remove = output.colors.red(dryRun ? "remove" : "removed");
  const keep = output.colors.green(dryRun ? "keep" : "kept");
  const rows = [
    ...gone.map((each) => ({ ...each, action: remove, reason: removalReason })),
    ...kept.map((each) => ({ ...each, action: keep, reason: describeReasons(each) })),
  ];
  await output.list(rows, {
    columns: [
      { title: "CHECKPOINT", cell: ({ id }) => shortId(id) },
      { title: "OF", cell: (each) => describeOwner(each) },
      { title: "ACTION", cell: ({ action }) => action },
      { title: "REASON", flexible: true, cell: ({ reason }) => reason },
    ],
    empty: "No checkpoints.",
  });
  const counts = `${formatCount(removed, "checkpoint")}${dryRun ? " would be" : ""} removed, ${kept.length.toLocaleString("en-US")} kept`;
  const freed = dryRun
    ? ""
    : rowsOnly
      ? ". Their data is still needed by the others"
      : `, ${formatBytes(result.bytes)} freed`;
  output.note(`${counts}${freed}.`);
  if (!dryRun && removed > 0) output.note('"savepoint compact" returns the space to the disk.');
}

function describeOwner({ sessionId, agent = "", seq }: PrunedCheckpoint): string {
  return sessionId === undefined ? `agent ${agent}` : `${sessionId}#${seq}`;
}

function describeReasons({ reasons, neededBy = [] }: KeptCheckpoint): string {
  return reasons.map((reason) => (reason === "needed" ? describeNeeds(neededBy) : reason)).join(", ");
}

function describeNeeds([first, ...others]: readonly NeededBy[]): string {
  if (!first) return "needed";
  const more = others.length > 0 ? ` (and ${others.length} more)` : "";
  return `needed by ${describeNeed(first)}${more}`;
}

function describeNeed(need: NeededBy): string {
  switch (need.kind) {
    case "checkpoint":
      return `checkpoint #${need.seq}, whose step begins with it`;
    case "branch":
      return `branch ${need.branch}, which starts from it`;
    case "run":
      return `the run on branch ${need.branch}: its current step or its next turn begins with it`;
    case "rewind":
      return `branch ${need.branch}, as the state before its last rewind`;
    case "damage":
      return `a damaged record: ${need.detail}`;
  }
}

const KINDS = ["automatic", "manual", "preOperation", "recovery"];

function parseKinds(text: string, previous?: readonly string[]): string[] {
  if (!KINDS.includes(text)) throw new InvalidArgumentError(`Expected one of ${KINDS.join(", ")}.`);
  return collectValues(text, previous);
}
