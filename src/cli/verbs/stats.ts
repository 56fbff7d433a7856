import { bytes, clean, count } from "../text.js";
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
        `store          ${clean(sp.url)}`,
        `agents         ${count(found.agents, "agent")}`,
        `conversations  ${count(found.conversations, "conversation")}, ${count(found.messages, "message")}`,
        `sessions       ${count(found.sessions, "session")}`,
        `checkpoints    ${count(found.checkpoints, "checkpoint")}`,
        `size           ${bytes(found.bytes)}`,
      ].join("\n"),
    );
  },
});
