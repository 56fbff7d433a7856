import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { defineVerb } from "../verb.js";

export const pin = defineVerb<{ readonly remove?: boolean }>({
  name: "pin",
  group: "Time travel",
  summary: "pin a checkpoint, so that it is never pruned",
  examples: [
    ["savepoint pin order-88#14", "keep the checkpoint"],
    ["savepoint pin order-88#14 --remove", "allow prune to remove it again"],
  ],
  declare(command) {
    command.argument("<checkpoint>").option("--remove", "remove the pin");
  },
  async run(cli, [name = ""], { remove = false }) {
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    await sp.session(info.sessionId, { branch: info.branch }).pin(info.id, !remove);
    await cli.output.result(
      { checkpoint: info.id, session: info.sessionId, seq: info.seq, pinned: !remove },
      () => `${remove ? "Unpinned" : "Pinned"} ${describeCheckpoint(info)}.`,
    );
  },
});
