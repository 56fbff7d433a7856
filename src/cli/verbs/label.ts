import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { usageError } from "../errors.js";
import { quote } from "../format.js";
import { defineVerb } from "../verb.js";

export const label = defineVerb<{ readonly remove?: boolean }>({
  name: "label",
  group: "Time travel",
  summary: "set or remove the label of a checkpoint",
  examples: [
    ['savepoint label order-88#14 "before the refund"', "set a label"],
    ["savepoint label order-88#14 --remove", "remove the label"],
  ],
  declare(command) {
    command.argument("<checkpoint>").argument("[label]").option("--remove", "remove the label");
  },
  async run(cli, [name = "", text], { remove }) {
    if ((text === undefined) !== Boolean(remove)) throw usageError("Pass either a label or --remove.");
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    await sp.session(info.sessionId, { branch: info.branch }).label(info.id, text);
    await cli.output.result({ checkpoint: info.id, session: info.sessionId, seq: info.seq, label: text ?? null }, () =>
      text === undefined
        ? `Removed the label of ${describeCheckpoint(info)}.`
        : `Labelled ${describeCheckpoint(info)} ${quote(text)}.`,
    );
  },
});
