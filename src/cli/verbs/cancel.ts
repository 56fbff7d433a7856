import { EXIT } from "../exit-codes.js";
import { requireSession } from "../checkpoint-lookup.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly reason?: string;
  readonly branch?: string;
}

export const cancel = defineVerb<Options>({
  name: "cancel",
  group: "Run",
  summary: "stop the work on a session, whoever does it",
  examples: [['savepoint cancel order-88 --reason "wrong order"', "it is halted, with this reason"]],
  declare(command) {
    command
      .argument("<session>")
      .option("--reason <text>", "why")
      .option("-b, --branch <name>", "another branch than main");
  },
  async run(cli, [id = ""], { reason, branch }) {
    const sp = await cli.open();
    await requireSession(sp, id);
    const cancelled = await sp.cancel(id, reason, branch === undefined ? {} : { branch });
    await cli.output.result({ session: id, cancelled }, () =>
      cancelled ? `${sanitize(id)} is told to stop.` : `${sanitize(id)} was not at work: there was nothing to stop.`,
    );
    return EXIT.ok;
  },
});
