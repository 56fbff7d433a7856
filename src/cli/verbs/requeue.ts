import { requireSession } from "../checkpoint-lookup.js";
import { suggestWorker } from "../resume-hint.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly branch?: string;
}

export const requeue = defineVerb<Options>({
  name: "requeue",
  group: "Run",
  summary: "schedule an interrupted, failed, halted or quarantined run for a worker",
  examples: [
    ["savepoint requeue order-88", "a worker resumes it from its last recorded effect"],
    ["savepoint requeue order-88 --branch what-if", "the run of another branch"],
  ],
  declare(command) {
    command.argument("<session>").option("-b, --branch <name>", "the branch (default: main)");
  },
  async run(cli, [id = ""], { branch }) {
    const sp = await cli.open();
    const { agent } = await requireSession(sp, id, branch);
    const requeued = await sp.requeue(id, branch === undefined ? {} : { branch });
    await cli.output.result({ session: id, requeued }, () =>
      requeued
        ? `Scheduled ${id}: the next worker resumes it.`
        : `Nothing was scheduled: ${id} runs, waits, has completed, is scheduled already, or has no run.`,
    );
    if (requeued && agent !== undefined) cli.output.note(`To resume it, ${suggestWorker(cli, agent)}`);
  },
});
