import { fromJson } from "../../index.js";
import { usageError } from "../errors.js";
import { findSessionCheckpoint } from "../checkpoint-lookup.js";
import { readJson } from "../read-json.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly state?: string;
  readonly results?: string;
  readonly label?: string;
}

export const fork = defineVerb<Options>({
  name: "fork",
  group: "Travel in time",
  summary: "open a branch at a checkpoint, to try it differently",
  examples: [
    ["savepoint fork order-88#14 what-if", "a branch that goes on from there"],
    ["savepoint fork order-88#14 what-if --state edited.json", "with another state"],
    ["savepoint fork order-88#14 --results results.json", "as if tools had answered something else"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "where it starts")
      .argument("[branch]", "its name; one is made up, if it is not said")
      .option("--state <file>", "a JSON file with the state to start with; - for stdin")
      .option("--results <file>", "a JSON file with results of tools, by the ids of their calls; - for stdin")
      .option("--label <text>", "a label for the first checkpoint of the branch; needs --state");
  },
  async run(cli, [name = "", branch], { state, results, label }) {
    if (label !== undefined && state === undefined)
      throw usageError("--label is for the first checkpoint: give --state too.");
    const sp = await cli.open();
    const { info } = await findSessionCheckpoint(sp, name);
    const given = {
      ...(state !== undefined && { state: fromJson(await readJson(cli, state)) }),
      ...(results !== undefined && { results: toResults(await readJson(cli, results)) }),
    };
    const made = await sp.session(info.sessionId).fork(info.id, {
      ...(branch !== undefined && { branch }),
      ...(label !== undefined && { label }),
      ...given,
    });
    const head = await made.head();
    await cli.output.result(
      { session: info.sessionId, branch: made.branch, from: info.id, head },
      () => `Branch ${sanitize(made.branch)} starts at ${sanitize(info.sessionId)}#${head?.seq ?? info.seq}.`,
    );
    cli.output.note(`Look at it with: savepoint log ${sanitize(info.sessionId)} --graph`);
  },
});

function toResults(given: unknown): Record<string, unknown> {
  if (typeof given === "object" && given !== null && !Array.isArray(given)) {
    return fromJson(given) as Record<string, unknown>;
  }
  throw usageError("Results are an object: the id of each call, and what it returned.");
}
