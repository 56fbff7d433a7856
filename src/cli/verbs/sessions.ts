import type { SessionInfo, SessionListOptions } from "../../index.js";
import { parseCount } from "../arguments.js";
import { colorStatus } from "../checkpoint-line.js";
import { formatAge } from "../format.js";
import { defineVerb } from "../verb.js";

const STATUSES = ["open", "queued", "running", "waiting", "completed", "failed", "halted", "interrupted"];

export const sessions = defineVerb<SessionListOptions>({
  name: "sessions",
  group: "Inspect",
  summary: "list sessions with their status, most recently created first",
  examples: [
    ["savepoint sessions --status waiting", "sessions that wait for an answer or a time"],
    ["savepoint sessions --agent shop --limit 20", "the most recent sessions of one agent"],
    ["savepoint sessions --jsonl | jq -r .id", "all ids"],
  ],
  declare(command) {
    command
      .option("-a, --agent <id>", "only sessions of this agent")
      .addOption(command.createOption("--status <status>", "only sessions with this status").choices(STATUSES))
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

/** What a session waits for, why it ended, or the label of its newest checkpoint. */
function describeSession({ questions, wakeAt, reason, head }: SessionInfo, now: number): string {
  if (questions[0]) return `asks: ${questions[0].text}`;
  if (wakeAt !== undefined) return `wakes ${formatAge(wakeAt, now)}`;
  return reason ?? head?.label ?? "";
}
