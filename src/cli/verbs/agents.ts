import type { SavedAgent, SavedAgentInfo } from "../../index.js";
import { parseCount } from "../arguments.js";
import { notFoundError } from "../errors.js";
import { formatAge, quote } from "../format.js";
import { toPrintableJson } from "../json.js";
import { formatValue } from "../outline.js";
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
      const isComplete = output.columns === Number.POSITIVE_INFINITY;
      await output.result(agent, () => describeAgent(agent, isComplete));
      return;
    }
    const now = Date.now();
    await output.list<SavedAgentInfo>(sp.agents.list(options), {
      columns: [
        { title: "AGENT", cell: ({ id: agent }) => agent },
        { title: "NAME", cell: ({ name }) => name },
        { title: "TYPE", cell: ({ type = "" }) => type },
        { title: "VERSION", align: "right", cell: ({ version }) => String(version) },
        { title: "CHANGED", cell: ({ modifiedAt }) => formatAge(modifiedAt, now) },
      ],
      empty: "No agents.",
    });
  },
});

function describeAgent(agent: SavedAgent, isComplete: boolean): string[] {
  const { id, name, type, version, systemPrompt, capabilities, config, activeConversations, state } = agent;
  return [
    `agent         ${id}`,
    `name          ${name}`,
    ...(type === undefined ? [] : [`type          ${type}`]),
    `version       ${version}`,
    ...(capabilities.length === 0 ? [] : [`capabilities  ${capabilities.join(", ")}`]),
    `conversations ${activeConversations.length} active`,
    ...(Object.keys(config).length === 0 ? [] : [`config        ${JSON.stringify(toPrintableJson(config))}`]),
    ...(systemPrompt === undefined ? [] : [`prompt        ${systemPrompt}`]),
    "",
    ...formatValue(toPrintableJson(state), isComplete).lines,
  ];
}
