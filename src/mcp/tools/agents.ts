/** Tools for agents: who acts, and their own durable states. */
import { z } from "zod";
import {
  type AgentFields,
  isSavepointError,
  type SaveAgentOptions,
  type SavedAgentInfo,
  type Savepoint,
} from "../../index.js";
import { OMITTED, outline } from "../outline.js";
import { NEXT_CURSOR, PAGE_ARGUMENTS, readPage } from "../paging.js";
import { AGENT_INFO, SKIPPED, toAgentInfo, toSkipped } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { agentNotFound } from "../not-found.js";
import { defineTool, FROM, JSON_OBJECT, JSON_VALUE, POINTER, type Tool } from "../tool.js";

const agentSave = defineTool({
  name: "agent_save",
  title: "Save an agent",
  description:
    "Saves who acts: name, instructions, settings and a durable state of its own. Makes the agent if there is none with that id; otherwise changes the fields that are given and keeps the others. `state` and `config` are replaced as a whole. Returns the agent with its new version.",
  input: z.strictObject({
    id: z.string().min(1),
    name: z.string().optional().describe("Default for a new agent: its id."),
    type: z.string().nullable().optional().describe("What sort of agent, such as a model's name. null takes it away."),
    systemPrompt: z.string().nullable().optional().describe("Its instructions. null takes them away."),
    capabilities: z.array(z.string()).optional(),
    config: JSON_OBJECT.optional(),
    state: JSON_VALUE.optional().describe("Its durable state: any JSON."),
    metadata: JSON_OBJECT.optional().describe("Listed with it, so keep it small."),
    expectedVersion: z
      .int()
      .min(0)
      .optional()
      .describe("Fail with CONFLICT unless it has this version; 0: must be new."),
  }),
  output: z.object({ agent: AGENT_INFO }),
  writes: true,
  destructive: true,
  async run({ id, type, systemPrompt, expectedVersion, ...rest }, scope) {
    if (!scope.owns(id)) throw agentNotFound(id);
    const fields = {
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
      ...(type !== undefined && { type: type ?? undefined }),
      ...(systemPrompt !== undefined && { systemPrompt: systemPrompt ?? undefined }),
    };
    const saved = await saveAgent(scope.sp, id, fields, expectedVersion === undefined ? {} : { expectedVersion });
    return { agent: toAgentInfo(saved) };
  },
});

const agentLoad = defineTool({
  name: "agent_load",
  title: "Load an agent",
  description:
    "Loads an agent with its instructions, settings, state and the ids of its active conversations. A state that is too large comes in parts: `omitted` says what is missing; ask for it with `pointer` and `from`.",
  input: z.strictObject({
    id: z.string().min(1),
    pointer: POINTER.describe('JSON pointer into { systemPrompt, config, state }, such as "/state/notes".'),
    from: FROM,
  }),
  output: z.object({
    agent: AGENT_INFO,
    content: z.unknown().describe("{ systemPrompt, config, state }, or the part of it that `pointer` leads to."),
    omitted: OMITTED,
    activeConversations: z.array(z.string()).describe("At most 200 of them; conversation_list has all."),
    skipped: SKIPPED,
  }),
  writes: false,
  async run({ id, pointer, from }, scope) {
    const found = await scope.loadAgent(id);
    const { systemPrompt, config, state, activeConversations, skipped } = found;
    const content = { ...(systemPrompt !== undefined && { systemPrompt }), config, state };
    const { value, omitted } = outline(content, { pointer, from });
    return {
      agent: toAgentInfo(found),
      content: value,
      omitted,
      activeConversations: activeConversations.slice(-200),
      skipped: toSkipped(skipped),
    };
  },
});

const agentDelete = defineTool({
  name: "agent_delete",
  title: "Delete an agent",
  description:
    "Deletes an agent with ALL its conversations, sessions and checkpoints. This cannot be undone. Returns whether there was anything to delete.",
  input: z.strictObject({ id: z.string().min(1) }),
  output: z.object({ deleted: z.boolean() }),
  writes: true,
  destructive: true,
  idempotent: true,
  async run({ id }, scope) {
    return { deleted: scope.owns(id) && (await scope.sp.agents.delete(id)) };
  },
});

const agentList = defineTool({
  name: "agent_list",
  title: "List agents",
  description: "Lists the agents in the order of their ids, without their states. agent_load has those.",
  input: z.strictObject({ ...PAGE_ARGUMENTS }),
  output: z.object({ agents: z.array(AGENT_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run(page, scope) {
    const { entries, nextCursor } = await readPage(
      {
        name: "agent_list",
        walk: () => listAgents(scope),
        show: toAgentInfo,
        idOf: ({ id }) => id,
        rankOf: ({ id }) => id,
        // The order of stores is that of UTF-8 bytes.
        isBehind: (id, other) => Buffer.compare(Buffer.from(String(id)), Buffer.from(String(other))) >= 0,
      },
      page,
    );
    return { agents: entries, nextCursor };
  },
});

export const AGENT_TOOLS: readonly Tool[] = [agentSave, agentLoad, agentDelete, agentList];

/** The agents that may be seen. */
export async function* listAgents({ sp, agent }: AgentScope): AsyncGenerator<SavedAgentInfo> {
  if (agent === undefined) yield* sp.agents.list();
  else {
    const own = await sp.agents.load(agent);
    if (own) yield own;
  }
}

/** Changes the agent, or makes it; whoever is faster meanwhile is not overwritten with empty fields. */
async function saveAgent(
  { agents }: Savepoint,
  id: string,
  fields: Partial<AgentFields>,
  options: SaveAgentOptions,
): Promise<SavedAgentInfo> {
  for (;;) {
    try {
      if (options.expectedVersion !== 0) return await agents.update(id, fields, options);
    } catch (error) {
      if (!isSavepointError(error, "AGENT_NOT_FOUND") || options.expectedVersion !== undefined) throw error;
    }
    try {
      return await agents.save({ name: id, ...fields, id }, { expectedVersion: 0 });
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT") || options.expectedVersion === 0) throw error;
    }
  }
}
