import { requireSession } from "../checkpoint-lookup.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly reason?: string;
  readonly branch?: string;
}

export const cancel = defineVerb<Options>({
  name: "cancel",
  group: "Run",
  summary: "stop the run of a session in any process",
  examples: [['savepoint cancel order-88 --reason "wrong order"', "halt the run with this reason"]],
  declare(command) {
    command
      .argument("<session>")
      .option("--reason <text>", "the reason")
      .option("-b, --branch <name>", "the branch (default: main)");
  },
  async run(cli, [id = ""], { reason, ...options }) {
    const sp = await cli.open();
    await requireSession(sp, id);
    const cancelled = await sp.cancel(id, reason, options);
    await cli.output.result({ session: id, cancelled }, () =>
      cancelled ? `Asked ${id} to stop.` : `${id} is not running: nothing to stop.`,
    );
  },
});
