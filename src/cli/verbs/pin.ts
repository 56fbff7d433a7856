import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { defineVerb } from "../verb.js";

export const pin = defineVerb<{ readonly remove?: boolean }>({
  name: "pin",
  group: "Travel in time",
  summary: "pin a checkpoint, so that nothing ever prunes it",
  examples: [
    ["savepoint pin order-88#14", "it stays"],
    ["savepoint pin order-88#14 --remove", "it may go again"],
  ],
  declare(command) {
    command.argument("<checkpoint>").option("--remove", "take the pin away");
  },
  async run(cli, [name = ""], { remove = false }) {
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    await sp.session(info.sessionId, { branch: info.branch }).pin(info.id, !remove);
    await cli.output.result(
      { checkpoint: info.id, session: info.sessionId, seq: info.seq, pinned: !remove },
      () => `${describeCheckpoint(info)} is ${remove ? "no longer pinned" : "pinned"}.`,
    );
  },
});
