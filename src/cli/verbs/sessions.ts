import type { SessionInfo, SessionListOptions, Status } from "../../index.js";
import { parseCount } from "../arguments.js";
import { colorStatus } from "../checkpoint-line.js";
import { formatAge } from "../format.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

const STATUSES = ["queued", "running", "waiting", "completed", "failed", "halted", "interrupted"];

interface Options {
  readonly agent?: string;
  readonly status?: Status;
  readonly limit?: number;
}

export const sessions = defineVerb<Options>({
  name: "sessions",
  group: "Inspect",
  summary: "list sessions with their status, newest first",
  examples: [
    ["savepoint sessions --status waiting", "sessions that wait for an answer or a time"],
    ["savepoint sessions --agent shop --limit 20", "the newest sessions of one agent"],
    ["savepoint sessions --jsonl | jq -r .id", "all ids"],
  ],
  declare(command) {
    command
      .option("-a, --agent <id>", "only sessions of this agent")
      .addOption(command.createOption("--status <status>", "only sessions with this status").choices(STATUSES))
      .option("-n, --limit <count>", "list at most this many", parseCount);
  },
  async run(cli, _, { agent, status, limit }) {
    const sp = await cli.open();
    const options: SessionListOptions = {
      ...(agent !== undefined && { agent }),
      ...(status !== undefined && { status }),
      ...(limit !== undefined && { limit }),
    };
    const { output } = cli;
    const now = Date.now();
    await output.list<SessionInfo>(sp.sessions.list(options), {
      columns: [
        { title: "SESSION" },
        { title: "AGENT" },
        { title: "STATUS" },
        { title: "STEP", align: "right" },
        { title: "UPDATED" },
        { title: "", flexible: true },
      ],
      row: (info) => [
        sanitize(info.id),
        sanitize(info.agent ?? ""),
        colorStatus(info.status, output.colors),
        String(info.head?.step ?? ""),
        formatAge(info.updatedAt, now),
        sanitize(describeSession(info, now)),
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
