import { fromJson } from "../../index.js";
import { describeCheckpoint, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { confirmRepeats } from "../effects-after.js";
import { usageError } from "../errors.js";
import { readJson } from "../json.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly state?: string;
  readonly results?: string;
  readonly label?: string;
}

export const fork = defineVerb<Options>({
  name: "fork",
  group: "Time travel",
  summary: "start a branch at a checkpoint",
  examples: [
    ["savepoint fork order-88#14 what-if", "a branch that continues from there"],
    ["savepoint fork order-88#14 what-if --state edited.json", "with another state"],
    ["savepoint fork order-88#14 --results results.json", "with other results of tools"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "where the branch starts")
      .argument("[branch]", "the name of the branch (default: a generated name)")
      .option("--state <file>", "a JSON file with the first state of the branch; - for stdin")
      .option("--results <file>", "a JSON file with results of tools by the ids of their calls; - for stdin")
      .option("--label <text>", "with --state: the label of the first checkpoint of the branch");
  },
  async run(cli, [name = "", branch], { state, results, label }) {
    if (label !== undefined && state === undefined) throw usageError("--label needs --state.");
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    const effectsAfter = await sp.session(info.sessionId, { branch: info.branch }).effectsAfter(info.id);
    if (!(await confirmRepeats(cli, effectsAfter, `Fork at ${describeCheckpoint(info)}?`))) return;
    const forked = await sp.session(info.sessionId).fork(info.id, {
      ...(branch !== undefined && { branch }),
      ...(label !== undefined && { label }),
      ...(state !== undefined && { state: fromJson(await readJson(cli.io, state)) }),
      ...(results !== undefined && { results: parseResults(await readJson(cli.io, results)) }),
    });
    const head = await forked.head();
    await cli.output.result(
      { session: info.sessionId, branch: forked.branch, from: info.id, head, effectsAfter },
      () => `Branch ${forked.branch} starts at ${info.sessionId}#${head?.seq ?? info.seq}.`,
    );
    cli.output.note(`To inspect it: ${cli.suggest("log", [info.sessionId], "--graph")}`);
  },
});

function parseResults(json: unknown): Record<string, unknown> {
  if (typeof json === "object" && json !== null && !Array.isArray(json)) {
    return fromJson(json) as Record<string, unknown>;
  }
  throw usageError("--results must be a JSON object with the ids of tool calls as keys.");
}
