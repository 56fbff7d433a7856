import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const rewind = defineVerb<{ readonly branch?: string }>({
  name: "rewind",
  group: "Travel in time",
  summary: "go back to a checkpoint of a session; the way back is kept",
  examples: [
    ["savepoint rewind order-88#14", "its branch goes on from step 14"],
    ["savepoint rewind order-88#14 --branch what-if", "another branch does"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "where to go back to")
      .option("-b, --branch <name>", "the branch that goes back; its own, if it is not said");
  },
  async run(cli, [name = ""], { branch }) {
    const sp = await cli.open();
    const { info, headOfBranch } = await findSessionCheckpoint(sp, name);
    const session = sp.session(info.sessionId, { branch: branch ?? headOfBranch ?? info.branch });
    const before = await session.head();
    const made = await session.rewind(info.id);
    await cli.output.result(
      { checkpoint: made, before, to: info },
      () =>
        `${sanitize(info.sessionId)} is at step ${made.step} again: ${describeCheckpoint(made)} is like ${describeCheckpoint(info)}.`,
    );
    if (before) cli.output.note(`To undo it: savepoint rewind ${sanitize(info.sessionId)}#${before.seq}`);
  },
});
