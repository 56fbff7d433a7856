import { formatBytes, sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const stats = defineVerb<{ readonly agent?: string }>({
  name: "stats",
  group: "Look",
  summary: "say how much there is in the store",
  examples: [
    ["savepoint stats", "of everything"],
    ["savepoint stats --agent support --json", "of one agent, for programs"],
  ],
  declare(command) {
    command.option("-a, --agent <id>", "only what is this agent's");
  },
  async run(cli, _, { agent }) {
    const sp = await cli.open();
    const found = await sp.stats(agent === undefined ? {} : { agent });
    await cli.output.result({ store: sp.url, ...found }, () =>
      [
        `store          ${sanitize(sp.url)}`,
        `agents         ${formatCount(found.agents, "agent")}`,
        `conversations  ${formatCount(found.conversations, "conversation")}, ${formatCount(found.messages, "message")}`,
        `sessions       ${formatCount(found.sessions, "session")}`,
        `checkpoints    ${formatCount(found.checkpoints, "checkpoint")}`,
        `size           ${formatBytes(found.bytes)}`,
      ].join("\n"),
    );
  },
});
