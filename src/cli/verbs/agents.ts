import type { SavedAgent, SavedAgentInfo } from "../../index.js";
import { toCount } from "../arguments.js";
import { notFound } from "../failure.js";
import { quote } from "../names.js";
import { toPlain } from "../plain.js";
import { age, clean, cleanLines } from "../text.js";
import { defineVerb } from "../verb.js";

export const agents = defineVerb<{ readonly limit?: number }>({
  name: "agents",
  group: "Look",
  summary: "list agents, or print one with its state",
  examples: [
    ["savepoint agents", "who there is"],
    ["savepoint agents support", "one of them, with its state"],
  ],
  declare(command) {
    command.argument("[agent]", "the id of one").option("-n, --limit <count>", "at most so many", toCount);
  },
  async run(cli, [id], { limit }) {
    const sp = await cli.open();
    const { output } = cli;
    if (id !== undefined) {
      const agent = await sp.agents.load(id);
      if (!agent) throw notFound(`There is no agent ${quote(id)}. "savepoint agents" lists them.`);
      return output.result(agent, () => describeAgent(agent));
    }
    const now = Date.now();
    await output.list<SavedAgentInfo>(sp.agents.list(limit === undefined ? {} : { limit }), {
      columns: [
        { title: "AGENT" },
        { title: "NAME" },
        { title: "TYPE" },
        { title: "VERSION", align: "right" },
        { title: "CHANGED" },
      ],
      row: (info) => [
        clean(info.id),
        clean(info.name),
        clean(info.type ?? ""),
        String(info.version),
        age(info.modifiedAt, now),
      ],
      empty: "No agents.",
    });
  },
});

function describeAgent(agent: SavedAgent): string {
  const { id, name, type, version, systemPrompt, capabilities, config, activeConversations, state } = agent;
  const lines = [
    `agent         ${clean(id)}`,
    `name          ${clean(name)}`,
    ...(type === undefined ? [] : [`type          ${clean(type)}`]),
    `version       ${version}`,
    ...(capabilities.length === 0 ? [] : [`capabilities  ${capabilities.map(clean).join(", ")}`]),
    `conversations ${activeConversations.length} active`,
    ...(Object.keys(config).length === 0 ? [] : [`config        ${clean(JSON.stringify(toPlain(config)))}`]),
    ...(systemPrompt === undefined ? [] : [`prompt        ${clean(systemPrompt)}`]),
  ];
  return `${lines.join("\n")}\n\n${cleanLines(JSON.stringify(toPlain(state), undefined, 2))}`;
}
