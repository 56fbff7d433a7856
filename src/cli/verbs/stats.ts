import { formatBytes, formatCount } from "../format.js";
import { countStatuses, formatStatusCounts } from "../session-status.js";
import { defineVerb } from "../verb.js";

export const stats = defineVerb<{ readonly agent?: string }>({
  name: "stats",
  group: "Inspect",
  summary: "count the contents of the store",
  examples: [
    ["savepoint stats", "the whole store"],
    ["savepoint stats --agent support --json", "one agent, for programs"],
  ],
  declare(command) {
    command.option("-a, --agent <id>", "only what belongs to this agent");
  },
  async run(cli, _, options) {
    const sp = await cli.read();
    const counts = await sp.stats(options);
    // Damaged sessions are not listed, so the sessions are counted as "savepoint sessions" lists them.
    const { total: sessions, byStatus } = await countStatuses(sp.sessions.list(options));
    await cli.output.result({ store: sp.url, ...counts, sessions, byStatus }, () => [
      `store          ${sp.url}`,
      `agents         ${formatCount(counts.agents, "agent")}`,
      `conversations  ${formatCount(counts.conversations, "conversation")}, ${formatCount(counts.messages, "message")}`,
      `sessions       ${formatCount(sessions, "session")}${sessions > 0 ? `: ${formatStatusCounts(byStatus)}` : ""}`,
      `checkpoints    ${formatCount(counts.checkpoints, "checkpoint")}`,
      `size           ${formatBytes(counts.bytes)}`,
    ]);
  },
});
