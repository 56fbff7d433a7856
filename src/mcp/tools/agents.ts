/** Tools for agents and their durable states. */
import { z } from "zod";
import {
  type AgentFields,
  isSavepointError,
  type SaveAgentOptions,
  type SavedAgentInfo,
  type Savepoint,
} from "../../index.js";
import { agentNotFound } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { OMITTED, outline } from "../outline.js";
import { NEXT_CURSOR, PAGE_ARGUMENTS, readPage } from "../paging.js";
import { AGENT_INFO, SKIPPED, toAgentInfo, toSkipped } from "../result-schemas.js";
import { FROM, JSON_OBJECT, JSON_VALUE, POINTER } from "./arguments.js";
import { defineTool, DELETION, type Tool } from "./tool.js";

/** How many active conversations `agent_load` lists at most. */
const MAX_CONVERSATIONS = 200;

const agentSave = defineTool({
  name: "agent_save",
  title: "Save an agent",
  description:
    "Saves an agent: its name, instructions, settings and durable state. Creates the agent if the id is new; otherwise changes the given fields and keeps the others. `state` and `config` are replaced completely. Returns the agent with its new version.",
  input: z.strictObject({
    id: z.string().min(1),
    name: z.string().optional(),
    type: z.string().nullable().optional().describe("null removes it."),
    systemPrompt: z.string().nullable().optional().describe("null removes it."),
    capabilities: z.array(z.string()).optional(),
    config: JSON_OBJECT.optional(),
    state: JSON_VALUE.optional(),
    metadata: JSON_OBJECT.optional(),
    expectedVersion: z
      .int()
      .min(0)
      .optional()
      .describe("Fail with CONFLICT unless it has this version. 0: it must be new."),
  }),
  output: z.object({ agent: AGENT_INFO }),
  writes: true,
  destructive: true,
  async run({ id, type, systemPrompt, expectedVersion, ...rest }, scope) {
    if (!scope.owns(id)) throw agentNotFound(id);
    const fields = {
      ...omitUndefined(rest),
      ...(type !== undefined && { type: type ?? undefined }),
      ...(systemPrompt !== undefined && { systemPrompt: systemPrompt ?? undefined }),
    };
    const saved = await saveAgent(scope.sp, id, fields, omitUndefined({ expectedVersion }));
    return { agent: toAgentInfo(saved) };
  },
});

const agentLoad = defineTool({
  name: "agent_load",
  title: "Load an agent",
  description: "Loads an agent with its instructions, settings, state and the ids of its active conversations.",
  input: z.strictObject({
    id: z.string().min(1),
    pointer: POINTER.describe('JSON pointer into `content`, such as "/state/notes".'),
    from: FROM,
  }),
  output: z.object({
    agent: AGENT_INFO,
    content: z.unknown().describe("{ systemPrompt, config, state }, or a part."),
    omitted: OMITTED,
    activeConversations: z.array(z.string()),
    skipped: SKIPPED,
  }),
  writes: false,
  async run({ id, pointer, from }, scope) {
    const agent = await scope.loadAgent(id);
    const { systemPrompt, config, state, activeConversations, skipped } = agent;
    const content = { ...omitUndefined({ systemPrompt }), config, state };
    const { value, omitted } = outline(content, { pointer, from });
    return {
      agent: toAgentInfo(agent),
      content: value,
      omitted,
      activeConversations: activeConversations.slice(-MAX_CONVERSATIONS),
      skipped: toSkipped(skipped),
    };
  },
});

const agentDelete = defineTool({
  name: "agent_delete",
  title: "Delete an agent",
  description:
    "Deletes an agent with ALL its conversations, sessions and checkpoints. This cannot be undone. Returns whether anything was deleted.",
  input: z.strictObject({ id: z.string().min(1) }),
  ...DELETION,
  async run({ id }, scope) {
    return { deleted: scope.owns(id) && (await scope.sp.agents.delete(id)) };
  },
});

const agentList = defineTool({
  name: "agent_list",
  title: "List agents",
  description: "Lists agents ordered by id, without their states. Use agent_load to load a state.",
  input: z.strictObject({ ...PAGE_ARGUMENTS }),
  output: z.object({ agents: z.array(AGENT_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run(page, scope) {
    const { entries, nextCursor } = await readPage(
      {
        name: "agent_list",
        walk: () => scope.listAgents(),
        show: toAgentInfo,
        rankOf: ({ id }) => id,
        // Stores order ids by their UTF-8 bytes.
        isBehind: (id, other) => Buffer.compare(Buffer.from(String(id)), Buffer.from(String(other))) >= 0,
      },
      page,
    );
    return { agents: entries, nextCursor };
  },
});

export const AGENT_TOOLS: readonly Tool[] = [agentSave, agentLoad, agentDelete, agentList];

/** Updates the agent, or creates it. Retries if another process creates or deletes it in between. */
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
