import type { RestorePlan, RestoreReport } from "../../index.js";
import { checkpointName, describeCheckpoint, findCheckpoint } from "../checkpoint-lookup.js";
import { listRepeats } from "../effects-after.js";
import { formatCount } from "../format.js";
import { defineVerb } from "../verb.js";

export const restore = defineVerb<{ readonly dryRun?: boolean }>({
  name: "restore",
  group: "Time travel",
  summary: "restore an agent or a session to a checkpoint; can be undone",
  examples: [
    ["savepoint restore 5e6f7a8b --dry-run", "list what would change"],
    ["savepoint restore 5e6f7a8b", "restore the agent and its conversations"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "the checkpoint to restore")
      .option("--dry-run", "list what would change, and change nothing");
  },
  async run(cli, [name = ""], { dryRun }) {
    const sp = await cli.open();
    const { info } = await findCheckpoint(sp, name);
    const plan = await sp.checkpoints.restore(info.id, { dryRun: true });
    if (dryRun) return cli.output.result(plan, () => describePlan(plan, "would"));
    cli.output.note(describePlan(plan, "will"));
    if (info.sessionId !== undefined) {
      listRepeats(cli, await sp.session(info.sessionId, { branch: info.branch }).effectsAfter(info.id));
    }
    if (!(await cli.confirm(`Restore ${describeCheckpoint(info)}?`))) return;
    const report: RestoreReport = await sp.checkpoints.restore(info.id);
    await cli.output.result(report, () => `Restored ${describeCheckpoint(info)}.`);
    cli.output.note(`To undo: ${cli.suggest("restore", [checkpointName(report.before)])}`);
  },
});

function describePlan(plan: RestorePlan, verb: "would" | "will"): string {
  const { agent, sessionId, changes, restored, recreated, removed, erased } = plan;
  const target = agent === undefined ? `Session ${sessionId ?? ""}` : `Agent ${agent}`;
  const parts = [
    changes.length > 0 ? `${formatCount(changes.length, "value")} of the state` : "",
    restored.length > 0 ? `${formatCount(restored.length, "conversation")} restored` : "",
    recreated.length > 0 ? `${formatCount(recreated.length, "deleted conversation")} recreated` : "",
    removed.length > 0 ? `${formatCount(removed.length, "newer conversation")} removed` : "",
  ].filter(Boolean);
  const lost =
    erased.length > 0
      ? ` ${formatCount(erased.length, "conversation")} of the checkpoint ${erased.length === 1 ? "was" : "were"} erased and cannot be restored.`
      : "";
  return `${parts.length === 0 ? `${target} ${verb} not change.` : `${target} ${verb} change: ${parts.join(", ")}.`}${lost}`;
}
