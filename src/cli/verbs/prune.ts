import type { CheckpointKind, KeptCheckpoint, NeededBy, PruneOptions, PruneResult } from "../../index.js";
import { InvalidArgumentError } from "commander";
import { collectValues, parseCount } from "../arguments.js";
import { requireAgent, requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { formatBytes, sanitize, formatCount, shortId } from "../terminal-text.js";
import { usageError } from "../errors.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly agent?: string;
  readonly keepLast?: number;
  readonly keepHourly?: number;
  readonly keepDaily?: number;
  readonly keepWeekly?: number;
  readonly keepWithin?: string;
  readonly keepLabelled?: boolean;
  readonly kind?: CheckpointKind[];
  readonly ttl?: string;
  readonly expired?: boolean;
  readonly dryRun?: boolean;
}

export const prune = defineVerb<Options>({
  name: "prune",
  group: "Keep safe",
  summary: "remove checkpoints that nobody wants to keep",
  examples: [
    ["savepoint prune --session order-88 --keep-last 20 --dry-run", "what would go, and why the rest stays"],
    ["savepoint prune --keep-last 10 --keep-daily 30 --yes", "of the whole store, without being asked"],
    ["savepoint prune --expired --yes", "only what has expired"],
  ],
  declare(command) {
    command
      .option("--session <id>", "only this session")
      .option("-a, --agent <id>", "only this agent and its sessions")
      .option("--keep-last <count>", "keep the newest so many of each branch", parseCount)
      .option("--keep-hourly <count>", "keep the newest of each of so many hours", parseCount)
      .option("--keep-daily <count>", "keep the newest of each of so many days", parseCount)
      .option("--keep-weekly <count>", "keep the newest of each of so many weeks", parseCount)
      .option("--keep-within <time>", 'keep all that are younger, such as "7d"')
      .option("--no-keep-labelled", "labelled ones may go too")
      .option("--kind <kind>", "only automatic, manual, preOperation or recovery ones may go; several times", toKinds)
      .option("--ttl <time>", "those that were saved without a lifetime have this one")
      .option("--expired", "remove only what has expired")
      .option("--dry-run", "only say what would go");
  },
  async run(cli, _, { session, agent, dryRun = false, kind, ...kept }) {
    const target = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    const { keepLabelled, ...wishes } = kept;
    if (Object.keys(wishes).length === 0) {
      throw usageError(
        "Say what is kept: --keep-last, --keep-hourly, --keep-daily, --keep-weekly, --keep-within, --ttl or --expired.",
      );
    }
    const options = {
      ...target,
      ...wishes,
      ...(keepLabelled === false && { keepLabelled }),
      ...(kind && { kinds: kind }),
    } as PruneOptions;
    if (session !== undefined && agent !== undefined)
      throw usageError("Prune one of: --session, --agent; or everything.");
    const sp = await cli.open();
    if (session !== undefined) await requireSession(sp, session);
    if (agent !== undefined) await requireAgent(sp, agent);
    const total = session === undefined ? (await sp.stats(agent === undefined ? {} : { agent })).sessions : 1;
    const work = async (dry: boolean, doing: string): Promise<PruneResult> => {
      const bar = cli.progress({ label: doing, unit: "sessions", total });
      try {
        return await sp.prune({ ...options, dryRun: dry, onProgress: (progress) => bar.update(progress.sessions) });
      } finally {
        bar.stop();
      }
    };
    const plan = await work(true, "Looking");
    // Without any of these all stays that has not expired.
    const isWanted = WANTED.some((option) => kept[option] !== undefined);
    const whyGone = isWanted ? "no option keeps it" : "it has expired";
    if (dryRun || plan.removed === 0) return print(cli, { ...plan, dryRun }, whyGone);
    if (
      !(await cli.confirm(
        `Remove ${formatCount(plan.removed, "checkpoint")}? ${formatCount(plan.kept.length, "stays", "stay")}.`,
      ))
    )
      return;
    await print(cli, await work(false, "Pruning"), whyGone);
  },
});

const WANTED = ["keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepWithin"] as const;

async function print({ output }: Cli, result: PruneResult, whyGone: string): Promise<void> {
  const { dryRun, removed, gone, kept, rowsOnly } = result;
  if (output.format !== "text") return output.result(result, () => "");
  const said = dryRun ? "would go" : "removed";
  const rows = [
    ...gone.map((each) => ({
      ...each,
      fate: output.colors.red(dryRun ? "goes" : "gone"),
      reason: whyGone,
    })),
    ...kept.map((each) => ({ ...each, fate: output.colors.green("stays"), reason: describeReasons(each) })),
  ];
  await output.list(rows, {
    columns: [{ title: "CHECKPOINT" }, { title: "OF" }, { title: "" }, { title: "REASON", flexible: true }],
    row: ({ id, sessionId, agent, seq, fate, reason }) => [
      shortId(id),
      sanitize(sessionId === undefined ? `agent ${agent ?? ""}` : `${sessionId}#${seq}`),
      fate,
      reason,
    ],
    empty: "There are no checkpoints.",
  });
  const freed = dryRun
    ? ""
    : rowsOnly
      ? "; their items are needed by those that stay"
      : `, ${formatBytes(result.bytes)} freed`;
  output.note(`${formatCount(removed, "checkpoint")} ${said}, ${formatCount(kept.length, "stays", "stay")}${freed}.`);
  if (!dryRun && removed > 0) output.note("savepoint compact gives the space back.");
}

function describeReasons({ reasons, neededBy = [] }: KeptCheckpoint): string {
  return reasons.map((reason) => (reason === "needed" ? describeNeeds(neededBy) : reason)).join(", ");
}

function describeNeeds([first, ...others]: readonly NeededBy[]): string {
  if (!first) return "needed";
  const more = others.length > 0 ? ` and ${others.length} more` : "";
  return `needed by ${describeNeed(first)}${more}`;
}

function describeNeed(need: NeededBy): string {
  switch (need.kind) {
    case "checkpoint":
      return `checkpoint #${need.seq}, whose step begins with it`;
    case "branch":
      return `branch ${sanitize(need.branch)}, which starts from it`;
    case "run":
      return `the run on branch ${sanitize(need.branch)}, which resumes from it`;
    case "rewind":
      return `branch ${sanitize(need.branch)}, as the state before its last rewind`;
    case "damage":
      return `a damaged record: ${sanitize(need.detail)}`;
  }
}

const KINDS = ["automatic", "manual", "preOperation", "recovery"];

function toKinds(text: string, before?: readonly string[]): string[] {
  if (!KINDS.includes(text)) throw new InvalidArgumentError(`Give one of ${KINDS.join(", ")}.`);
  return collectValues(text, before);
}
