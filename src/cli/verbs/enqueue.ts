import { InvalidArgumentError } from "commander";
import { parseCount, parseJson } from "../arguments.js";
import { usageError } from "../errors.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly input?: unknown;
  readonly runAt?: Date | `${number}s`;
  readonly priority?: number;
}

export const enqueue = defineVerb<Options>({
  name: "enqueue",
  group: "Run",
  summary: "leave a session for a worker to run",
  examples: [
    [`savepoint enqueue shop --session order-88 --input '{"order":"88"}'`, "whenever a worker has time"],
    [`savepoint enqueue shop --session order-88 --input '{"order":"88"}' --priority 9`, "before all others"],
    [`savepoint enqueue report --session monday --input null --run-at 2026-02-02T06:00Z`, "not before then"],
    [`savepoint enqueue report --session later --input null --run-at 90m`, "so long from now"],
  ],
  declare(command) {
    command
      .argument("<agent>", "the name of the agent")
      .option("--session <id>", "the session; it is left once, however often this is said")
      .option("-i, --input <json>", "what to work on", parseJson)
      .option("--run-at <time>", 'not before: a date, or a length of time such as "90m"', toRunAt)
      .option("--priority <number>", "from 0 to 9; the highest goes first", parseCount);
  },
  async run(cli, [agent = ""], options) {
    const { session, input, runAt, priority } = options;
    if (session === undefined) throw usageError("Say which session: --session order-88.");
    if (!("input" in options)) throw usageError('Say what to work on: --input \'{"order":"88"}\', or --input null.');
    const sp = await cli.open({});
    const left = await sp.enqueue(agent, {
      session,
      input,
      ...(runAt !== undefined && { runAt }),
      ...(priority !== undefined && { priority }),
    });
    await cli.output.result({ session, agent, enqueued: left }, () =>
      left
        ? `${sanitize(session)} is queued for ${sanitize(agent)}.`
        : `${sanitize(session)} is there already; nothing was done.`,
    );
  },
});

function toRunAt(text: string): Date | `${number}s` {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text)) return text as `${number}s`;
  const time = /^\d+$/.test(text) ? Number.NaN : Date.parse(text);
  if (Number.isNaN(time)) {
    throw new InvalidArgumentError('Give a date such as "2026-01-31T06:00Z", or a length of time such as "90m".');
  }
  return new Date(time);
}
