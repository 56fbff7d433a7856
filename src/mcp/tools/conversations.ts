/** Tools that list, search and delete conversations. Loading and saving them have their own files. */
import { z } from "zod";
import { isSavepointError } from "../../index.js";
import { omitUndefined } from "../omit-undefined.js";
import { NEXT_CURSOR, PAGE_ARGUMENTS, readPage } from "../paging.js";
import { CONVERSATION_INFO, toConversationInfo, toTime } from "../result-schemas.js";
import { AGENT, TIME_ARGUMENT, toDate } from "./arguments.js";
import { conversationLoad } from "./conversation-load.js";
import { conversationSave } from "./conversation-save.js";
import { defineTool, DELETION, type Tool } from "./tool.js";

const conversationDelete = defineTool({
  name: "conversation_delete",
  title: "Delete a conversation",
  description:
    "Deletes a conversation. Earlier checkpoints of its agent still contain it: checkpoint_restore recreates it. Returns whether it existed.",
  input: z.strictObject({ id: z.string().min(1) }),
  ...DELETION,
  async run({ id }, scope) {
    try {
      if (scope.agent !== undefined) await scope.loadConversation(id, { limit: 0 });
    } catch (error) {
      if (isSavepointError(error, "CONVERSATION_NOT_FOUND")) return { deleted: false };
      throw error;
    }
    return { deleted: await scope.sp.conversations.delete(id) };
  },
});

const conversationList = defineTool({
  name: "conversation_list",
  title: "List conversations",
  description:
    "Lists conversations, most recently created first, without their messages. Use conversation_search to find one by its contents.",
  input: z.strictObject({
    agent: AGENT,
    tag: z.string().optional(),
    archived: z.boolean().optional().describe("Default: both."),
    since: TIME_ARGUMENT.optional().describe("Only those with a message since then."),
    ...PAGE_ARGUMENTS,
  }),
  output: z.object({ conversations: z.array(CONVERSATION_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ agent, tag, archived, since, limit, cursor }, scope) {
    const filter = { ...scope.agentFilter(agent), ...omitUndefined({ tag, archived, since: toDate(since) }) };
    const { entries, nextCursor } = await readPage(
      {
        name: ["conversation_list", filter],
        walk: () => scope.sp.conversations.list(filter),
        show: toConversationInfo,
      },
      { limit, cursor },
    );
    return { conversations: entries.filter((info) => scope.owns(info.agent)), nextCursor };
  },
});

const conversationSearch = defineTool({
  name: "conversation_search",
  title: "Search conversations",
  description:
    "Finds conversations that contain the given text in a message or in the title, ignoring case. There are no wildcards or operators. Returns one hit per conversation: complete words before parts of words, then newer messages. Use conversation_load to read around a hit.",
  input: z.strictObject({
    text: z.string().min(1).describe("One word or phrase."),
    agent: AGENT,
    role: z.enum(["system", "user", "assistant", "tool"]).optional(),
    tags: z.array(z.string()).optional().describe("Only conversations with all of these."),
    archived: z.boolean().optional().describe("Default: both."),
    since: TIME_ARGUMENT.optional(),
    limit: PAGE_ARGUMENTS.limit,
  }),
  output: z.object({
    hits: z.array(
      z.object({
        conversation: z.string(),
        agent: z.string().optional(),
        title: z.string().optional(),
        messageId: z.string().optional(),
        role: z.string().optional(),
        timestamp: z.string(),
        snippet: z.string(),
      }),
    ),
    more: z.boolean().describe("More hits than `limit`."),
  }),
  writes: false,
  async run({ text, agent, role, tags, archived, since, limit }, scope) {
    const found = await scope.sp.conversations.search(text, {
      ...scope.agentFilter(agent),
      ...omitUndefined({ role, tags, archived, since: toDate(since) }),
      limit: limit + 1,
    });
    const own = found.filter((hit) => scope.owns(hit.agent));
    const hits = own.slice(0, limit).map(({ conversationId, timestamp, ...hit }) => ({
      conversation: conversationId,
      timestamp: toTime(timestamp),
      ...hit,
    }));
    return { hits, more: own.length > limit };
  },
});

export const CONVERSATION_TOOLS: readonly Tool[] = [
  conversationSave,
  conversationLoad,
  conversationDelete,
  conversationList,
  conversationSearch,
];
