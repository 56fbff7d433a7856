import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { sanitize } from "../terminal-text.js";
import { usageError } from "../errors.js";
import { defineVerb } from "../verb.js";

export const label = defineVerb<{ readonly remove?: boolean }>({
  name: "label",
  group: "Travel in time",
  summary: "give a checkpoint a label, or take it away",
  examples: [
    ['savepoint label order-88#14 "before the refund"', "so that it is found again"],
    ["savepoint label order-88#14 --remove", "take it away"],
  ],
  declare(command) {
    command.argument("<checkpoint>").argument("[label]").option("--remove", "take the label away");
  },
  async run(cli, [name = "", text], { remove }) {
    if ((text === undefined) !== Boolean(remove)) throw usageError("Give a label, or --remove to take it away.");
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    await sp.session(info.sessionId, { branch: info.branch }).label(info.id, text);
    await cli.output.result({ checkpoint: info.id, session: info.sessionId, seq: info.seq, label: text ?? null }, () =>
      text === undefined
        ? `${describeCheckpoint(info)} has no label now.`
        : `${describeCheckpoint(info)} is labelled "${sanitize(text)}".`,
    );
  },
});
