import type { SavedAgent, SavedAgentInfo } from "../../index.js";
import { parseCount } from "../arguments.js";
import { notFoundError } from "../errors.js";
import { formatAge, quote } from "../format.js";
import { toPrintableJson } from "../json.js";
import { sanitize, sanitizeLines } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const agents = defineVerb<{ readonly limit?: number }>({
  name: "agents",
  group: "Inspect",
  summary: "list agents, or print one with its state",
  examples: [
    ["savepoint agents", "list all agents"],
    ["savepoint agents support", "print one agent with its state"],
  ],
  declare(command) {
    command
      .argument("[agent]", "the id of an agent")
      .option("-n, --limit <count>", "list at most this many", parseCount);
  },
  async run(cli, [id], options) {
    const sp = await cli.read();
    const { output } = cli;
    if (id !== undefined) {
      const agent = await sp.agents.load(id);
      if (!agent) throw notFoundError(`There is no agent ${quote(id)}. "savepoint agents" lists them.`);
      return output.result(agent, () => describeAgent(agent));
    }
    const now = Date.now();
    await output.list<SavedAgentInfo>(sp.agents.list(options), {
      columns: [
        { title: "AGENT", cell: ({ id: agent }) => sanitize(agent) },
        { title: "NAME", cell: ({ name }) => sanitize(name) },
        { title: "TYPE", cell: ({ type = "" }) => sanitize(type) },
        { title: "VERSION", align: "right", cell: ({ version }) => String(version) },
        { title: "CHANGED", cell: ({ modifiedAt }) => formatAge(modifiedAt, now) },
      ],
      empty: "No agents.",
    });
  },
});

function describeAgent(agent: SavedAgent): string {
  const { id, name, type, version, systemPrompt, capabilities, config, activeConversations, state } = agent;
  const lines = [
    `agent         ${sanitize(id)}`,
    `name          ${sanitize(name)}`,
    ...(type === undefined ? [] : [`type          ${sanitize(type)}`]),
    `version       ${version}`,
    ...(capabilities.length === 0 ? [] : [`capabilities  ${capabilities.map(sanitize).join(", ")}`]),
    `conversations ${activeConversations.length} active`,
    ...(Object.keys(config).length === 0 ? [] : [`config        ${sanitize(JSON.stringify(toPrintableJson(config)))}`]),
    ...(systemPrompt === undefined ? [] : [`prompt        ${sanitize(systemPrompt)}`]),
  ];
  return `${lines.join("\n")}\n\n${sanitizeLines(JSON.stringify(toPrintableJson(state), undefined, 2))}`;
}
