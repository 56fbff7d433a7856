import { InvalidArgumentError } from "commander";
import type { EnqueueOptions } from "../../index.js";
import { parseCount, parseJson } from "../arguments.js";
import { usageError } from "../errors.js";
import { defineVerb } from "../verb.js";

export const enqueue = defineVerb<Partial<EnqueueOptions>>({
  name: "enqueue",
  group: "Run",
  summary: "queue a session for a worker",
  examples: [
    [`savepoint enqueue shop --session order-88 --input '{"order":"88"}'`, "run it as soon as a worker is free"],
    [`savepoint enqueue shop --session order-88 --input '{"order":"88"}' --priority 9`, "run it before all others"],
    [`savepoint enqueue report --session monday --input null --run-at 2026-02-02T06:00Z`, "run it at that time"],
    [`savepoint enqueue report --session later --input null --run-at 90m`, "run it in 90 minutes"],
  ],
  declare(command) {
    command
      .argument("<agent>", "the name of the agent")
      .option("--session <id>", "the session; one that exists already is not queued again")
      .option("-i, --input <json>", "the input of the run", parseJson)
      .option("--run-at <time>", 'the earliest start: a date, or a delay such as "90m"', parseRunAt)
      .option("--priority <number>", "from 0 to 9; higher priorities run first", parseCount);
  },
  async run(cli, [agent = ""], options) {
    const { session, input } = options;
    if (session === undefined) throw usageError("--session is missing. Name the session: --session order-88.");
    if (!("input" in options)) {
      throw usageError('--input is missing. Pass the input: --input \'{"order":"88"}\', or --input null.');
    }
    const sp = await cli.open({});
    const enqueued = await sp.enqueue(agent, { ...options, session, input });
    await cli.output.result({ session, agent, enqueued }, () =>
      enqueued ? `${session} is queued for ${agent}.` : `${session} exists already. Nothing was changed.`,
    );
  },
});

function parseRunAt(text: string): Date | `${number}s` {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text)) return text as `${number}s`;
  const time = /^\d+$/.test(text) ? Number.NaN : Date.parse(text);
  if (Number.isNaN(time)) {
    throw new InvalidArgumentError('Expected a date such as "2026-01-31T06:00Z", or a delay such as "90m".');
  }
  return new Date(time);
}
