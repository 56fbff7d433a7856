import type { SessionInfo, SessionListOptions } from "../../index.js";
import { parseCount, parseTime } from "../arguments.js";
import { colorStatus } from "../checkpoint-line.js";
import { formatAge } from "../format.js";
import { describeSession, STATUSES } from "../session-status.js";
import { defineVerb } from "../verb.js";

export const sessions = defineVerb<SessionListOptions>({
  name: "sessions",
  alias: "ls",
  group: "Inspect",
  summary: "list sessions with their status, most recently created first",
  examples: [
    ["savepoint sessions --status waiting", "sessions that wait for an answer or a time"],
    ["savepoint sessions --agent shop --limit 20", "the most recent sessions of one agent"],
    ["savepoint sessions --since 2h", "sessions that were updated in the last two hours"],
    ["savepoint sessions --jsonl | jq -r .id", "all ids"],
  ],
  declare(command) {
    command
      .option("-a, --agent <id>", "only sessions of this agent")
      .addOption(command.createOption("--status <status>", "only sessions with this status").choices(STATUSES))
      .option("--since <time>", "only sessions updated since a date, or an age such as 3d", parseTime)
      .option("--until <time>", "only sessions last updated before a date, or an age such as 3d", parseTime)
      .option("-n, --limit <count>", "list at most this many", parseCount);
  },
  async run(cli, _, options) {
    const sp = await cli.read();
    const { output } = cli;
    const now = Date.now();
    await output.list<SessionInfo>(sp.sessions.list(options), {
      columns: [
        { title: "SESSION", cell: ({ id }) => id },
        { title: "AGENT", cell: ({ agent = "" }) => agent },
        { title: "STATUS", cell: ({ status }) => colorStatus(status, output.colors) },
        { title: "STEP", align: "right", cell: ({ head }) => String(head?.step ?? "") },
        { title: "UPDATED", cell: ({ updatedAt }) => formatAge(updatedAt, now) },
        { title: "", flexible: true, cell: (info) => describeSession(info, now) },
      ],
      empty: "No sessions.",
    });
  },
});
