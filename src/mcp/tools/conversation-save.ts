/** The tool that creates conversations, appends messages and changes their fields. */
import { z } from "zod";
import { type ConversationChange, type ConversationInfo, isSavepointError, SavepointError } from "../../index.js";
import { conversationNotFound, invalidArgument } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { CONVERSATION_INFO, toConversationInfo } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, JSON_OBJECT } from "./arguments.js";
import { defineTool } from "./tool.js";

const INPUT = z.strictObject({
  id: z.string().min(1).optional().describe("Default: a new one."),
  agent: AGENT.describe("The owner of a new conversation."),
  messages: z
    .array(JSON_OBJECT)
    .optional()
    .describe('Such as { "role": "user", "content": "…" }, or of any SDK. Stored unchanged.'),
  mode: z.enum(["append", "replace"]).default("append"),
  expectedMessages: z
    .int()
    .min(0)
    .optional()
    .describe("With replace: fail with CONFLICT unless it has this many messages."),
  title: z.string().optional(),
  tags: z.array(z.string()).optional(),
  archived: z.boolean().optional(),
  metadata: JSON_OBJECT.optional(),
});

type Input = z.output<typeof INPUT>;
type InputWithId = Input & { readonly id: string };
type Result = { conversation: ReturnType<typeof toConversationInfo>; created: boolean };

export const conversationSave = defineTool({
  name: "conversation_save",
  title: "Save a conversation",
  description:
    "Creates a conversation, appends messages to it, or changes its title, tags, metadata or archive flag. By default messages are APPENDED: send only the new ones. Fields that are not given do not change. Returns the conversation without its messages.",
  input: INPUT,
  output: z.object({ conversation: CONVERSATION_INFO, created: z.boolean() }),
  writes: true,
  destructive: true,
  async run(input, scope) {
    if (input.mode === "replace" && input.messages === undefined) {
      throw invalidArgument('`messages` is required with mode "replace". Pass an empty array to remove all messages.');
    }
    const agent = scope.resolveAgent(input.agent);
    const { id } = input;
    if (id === undefined) return created(await scope.sp.conversations.create(toNewConversation(input, agent)));
    const withId: InputWithId = { ...input, id };
    for (;;) {
      const found = await scope.sp.conversations.load(id, { limit: 0 });
      if (found && !scope.owns(found.agent)) throw conversationNotFound(id);
      if (found && agent !== undefined && found.agent !== agent) throw agentMismatch(id, found.agent);
      if (input.mode === "replace") return replace(scope, withId, agent, found);
      if (found) return { conversation: toConversationInfo(await append(scope, withId)), created: false };
      try {
        return created(await scope.sp.conversations.create({ ...toNewConversation(input, agent), id }));
      } catch (error) {
        // Another process has created it in the meantime: append to that one.
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  },
});

async function append(scope: AgentScope, { id, messages = [], ...input }: InputWithId): Promise<ConversationInfo> {
  const { conversations } = scope.sp;
  if (messages.length > 0) await conversations.append(id, messages);
  const change = toChange(input);
  // Usually only messages are sent. An empty update would double the cost.
  return Object.keys(change).length > 0 ? conversations.update(id, change) : scope.loadConversation(id, { limit: 0 });
}

/** Names the owner in the save, so that the store rejects it if another agent has become the owner in the meantime. */
async function replace(
  { sp }: AgentScope,
  input: InputWithId,
  agent: string | undefined,
  found: ConversationInfo | undefined,
): Promise<Result> {
  const { id, messages = [], expectedMessages } = input;
  const kept = found && { title: found.title, tags: found.tags, archived: found.archived, metadata: found.metadata };
  const owner = agent ?? found?.agent;
  const conversation = { ...kept, ...toChange(input), ...omitUndefined({ agent: owner }), id, messages };
  const info = await sp.conversations.save(conversation, omitUndefined({ expectedMessages }));
  return { conversation: toConversationInfo(info), created: !found };
}

function created(info: ConversationInfo): Result {
  return { conversation: toConversationInfo(info), created: true };
}

function toNewConversation(
  input: Input,
  agent: string | undefined,
): ConversationChange & { messages: object[]; agent?: string } {
  return { ...toChange(input), messages: input.messages ?? [], ...omitUndefined({ agent }) };
}

/** The fields of the conversation that the input sets. */
function toChange({ title, tags, archived, metadata }: Partial<Input>): ConversationChange {
  return omitUndefined({ title, tags, archived, metadata });
}

function agentMismatch(id: string, agent: string | undefined): SavepointError {
  const owner = agent === undefined ? "no agent" : `agent ${JSON.stringify(agent)}`;
  return new SavepointError("AGENT_MISMATCH", `Conversation ${JSON.stringify(id)} belongs to ${owner}.`);
}
