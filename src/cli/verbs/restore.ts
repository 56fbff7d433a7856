import type { RestorePlan, RestoreReport } from "../../index.js";
import { describeCheckpoint, findCheckpoint, checkpointName } from "../checkpoint-lookup.js";
import { sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const restore = defineVerb<{ readonly dryRun?: boolean }>({
  name: "restore",
  group: "Travel in time",
  summary: "go back to a checkpoint of a whole agent, or of a session; can be undone",
  examples: [
    ["savepoint restore 5e6f7a8b --dry-run", "what would change"],
    ["savepoint restore 5e6f7a8b", "the agent and its conversations are as they were"],
  ],
  declare(command) {
    command.argument("<checkpoint>", "where to go back to").option("--dry-run", "only say what would change");
  },
  async run(cli, [name = ""], { dryRun }) {
    const sp = await cli.open();
    const { info } = await findCheckpoint(sp, name);
    const plan = await sp.checkpoints.restore(info.id, { dryRun: true });
    if (dryRun) return cli.output.result(plan, () => words(plan, "would change"));
    cli.output.note(words(plan, "will change"));
    if (!(await cli.confirm(`Go back to ${describeCheckpoint(info)}?`))) return;
    const done: RestoreReport = await sp.checkpoints.restore(info.id);
    await cli.output.result(done, () => `It is as it was at ${describeCheckpoint(info)}.`);
    cli.output.note(`To undo it: savepoint restore ${sanitize(checkpointName(done.before))}`);
  },
});

function words({ agent, sessionId, changes, restored, recreated, removed }: RestorePlan, verb: string): string {
  const whose = agent === undefined ? `session ${sanitize(sessionId ?? "")}` : `agent ${sanitize(agent)}`;
  const parts = [
    changes.length > 0 ? `${formatCount(changes.length, "value")} of its state` : "",
    restored.length > 0 ? formatCount(restored.length, "conversation") : "",
    recreated.length > 0 ? `${formatCount(recreated.length, "conversation")} that come back` : "",
    removed.length > 0 ? `${formatCount(removed.length, "conversation")} that are newer, and go` : "",
  ].filter(Boolean);
  return parts.length === 0 ? `Nothing of ${whose} ${verb}.` : `Of ${whose} ${verb}: ${parts.join(", ")}.`;
}
