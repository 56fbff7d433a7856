/** The tool that keeps what was said. */
import { z } from "zod";
import { type ConversationChange, type ConversationInfo, isSavepointError, SavepointError } from "../../index.js";
import { conversationNotFound } from "../not-found.js";
import type { AgentScope } from "../scope.js";
import { CONVERSATION_INFO, toConversationInfo } from "../result-schemas.js";
import { AGENT, defineTool, JSON_OBJECT } from "../tool.js";

const INPUT = z.strictObject({
  id: z.string().min(1).optional().describe("Default: a new conversation, whose id comes back."),
  agent: AGENT.describe("The agent whose conversation it is. Cannot be changed later."),
  messages: z
    .array(JSON_OBJECT)
    .optional()
    .describe('Messages such as { "role": "user", "content": "…" }, or of any SDK: they are kept as they are.'),
  mode: z
    .enum(["append", "replace"])
    .default("append")
    .describe("append: add the messages at the end. replace: put them in the place of all that are there."),
  expectedMessages: z
    .int()
    .min(0)
    .optional()
    .describe("With replace: fail with CONFLICT unless there are this many now, as you loaded it."),
  title: z.string().optional().describe("Default: the beginning of the first message of a user."),
  tags: z.array(z.string()).optional(),
  archived: z.boolean().optional(),
  metadata: JSON_OBJECT.optional().describe("Listed with it, so keep it small."),
});

type Input = z.output<typeof INPUT>;
type Named = Input & { readonly id: string };

export const conversationSave = defineTool({
  name: "conversation_save",
  title: "Save a conversation",
  description:
    "Makes a conversation, adds messages to the end of one, or changes its title, tags, metadata or archive flag. By default messages are APPENDED: send only the new ones. Others may append at the same time; nothing is lost. What is not given stays as it is. Returns the conversation without its messages. Calling it twice appends twice.",
  input: INPUT,
  output: z.object({ conversation: CONVERSATION_INFO, created: z.boolean() }),
  writes: true,
  destructive: true,
  async run(input, scope) {
    if (input.mode === "replace" && input.messages === undefined) throw nothingToReplace();
    const agent = scope.resolveAgent(input.agent);
    const { id } = input;
    if (id === undefined) return created(await scope.sp.conversations.create(fieldsOf(input, agent)));
    const named: Named = { ...input, id };
    for (;;) {
      const found = await scope.sp.conversations.load(id, { limit: 0 });
      if (found && !scope.owns(found.agent)) throw conversationNotFound(id);
      if (found && agent !== undefined && found.agent !== agent) throw otherAgent(id, found.agent);
      if (input.mode === "replace") return replace(scope, named, agent, found);
      if (found) return { conversation: toConversationInfo(await append(scope, named)), created: false };
      try {
        return created(await scope.sp.conversations.create({ ...fieldsOf(input, agent), id }));
      } catch (error) {
        // Somebody has made it meanwhile: then it is appended to.
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  },
});

async function append(scope: AgentScope, { id, messages = [], ...input }: Named): Promise<ConversationInfo> {
  const { conversations } = scope.sp;
  if (messages.length > 0) await conversations.append(id, messages);
  const change = changeOf(input);
  // Most often only messages come, and to write that nothing else has changed would cost as much again.
  return Object.keys(change).length > 0 ? conversations.update(id, change) : scope.loadConversation(id, { limit: 0 });
}

/** Its agent is named where it has one, so that the store itself refuses what became another's meanwhile. */
async function replace(
  { sp }: AgentScope,
  input: Named,
  agent: string | undefined,
  found: ConversationInfo | undefined,
): Promise<{ conversation: ReturnType<typeof toConversationInfo>; created: boolean }> {
  const { id, messages = [], expectedMessages } = input;
  const kept = found && { title: found.title, tags: found.tags, archived: found.archived, metadata: found.metadata };
  const owner = agent ?? found?.agent;
  const whole = { ...kept, ...changeOf(input), ...(owner !== undefined && { agent: owner }), id, messages };
  const info = await sp.conversations.save(whole, expectedMessages === undefined ? {} : { expectedMessages });
  return { conversation: toConversationInfo(info), created: !found };
}

function created(info: ConversationInfo): { conversation: ReturnType<typeof toConversationInfo>; created: boolean } {
  return { conversation: toConversationInfo(info), created: true };
}

function fieldsOf(
  input: Input,
  agent: string | undefined,
): ConversationChange & { messages: object[]; agent?: string } {
  return { ...changeOf(input), messages: input.messages ?? [], ...(agent !== undefined && { agent }) };
}

/** What was said about it. */
function changeOf({ title, tags, archived, metadata }: Partial<Input>): ConversationChange {
  return {
    ...(title !== undefined && { title }),
    ...(tags !== undefined && { tags }),
    ...(archived !== undefined && { archived }),
    ...(metadata !== undefined && { metadata }),
  };
}

function nothingToReplace(): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    '`messages` is missing, and mode "replace" would remove all that are there. Give an empty array if that is meant.',
  );
}

function otherAgent(id: string, agent: string | undefined): SavepointError {
  const owner = agent === undefined ? "no agent" : `agent ${JSON.stringify(agent)}`;
  return new SavepointError("AGENT_MISMATCH", `Conversation ${JSON.stringify(id)} belongs to ${owner}.`);
}
