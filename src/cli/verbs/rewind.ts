import { checkpointName, describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { confirmRepeats } from "../effects-after.js";
import { defineVerb } from "../verb.js";

export const rewind = defineVerb<{ readonly branch?: string }>({
  name: "rewind",
  group: "Time travel",
  summary: "return a session to an earlier checkpoint; the previous head stays reachable",
  examples: [
    ["savepoint rewind order-88#14", "its branch continues from checkpoint 14"],
    ["savepoint rewind order-88#14 --branch what-if", "another branch continues from it"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "the checkpoint to return to")
      .option("-b, --branch <name>", "the branch to rewind (default: the branch of the checkpoint)");
  },
  async run(cli, [name = ""], { branch }) {
    const sp = await cli.open();
    const { info, headOfBranch } = await findSessionCheckpoint(sp, name);
    const session = sp.session(info.sessionId, { branch: branch ?? headOfBranch ?? info.branch });
    const before = await session.head();
    const effects = await session.effectsAfter(info.id);
    if (!(await confirmRepeats(cli, effects, `Rewind to ${describeCheckpoint(info)}?`))) return;
    const { effectsAfter, ...checkpoint } = await session.rewind(info.id);
    await cli.output.result(
      { checkpoint, before, to: info, effectsAfter },
      () =>
        `Rewound ${info.sessionId} to step ${checkpoint.step}: ${describeCheckpoint(checkpoint)} has the state of ${describeCheckpoint(info)}.`,
    );
    if (before) cli.output.note(`To undo: ${cli.suggest("rewind", [checkpointName(before)])}`);
  },
});
