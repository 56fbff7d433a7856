/** The tool that reads a conversation in pages from the end, or one message in parts. */
import { z } from "zod";
import { type Conversation, type ConversationEntry, SavepointError } from "../../index.js";
import { invalidArgument } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { MAX_CHARACTERS, OMITTED, outline, type OutlineOptions } from "../outline.js";
import { decodeCursor, encodeCursor, NEXT_CURSOR, PAGE_ARGUMENTS } from "../paging.js";
import { CONVERSATION_INFO, toConversationInfo, toTime } from "../result-schemas.js";
import { FROM, POINTER } from "./arguments.js";
import { defineTool } from "./tool.js";

const ENTRY = z.object({
  index: z.number(),
  id: z.string(),
  timestamp: z.string(),
  role: z.string().optional(),
  message: z.unknown(),
  omitted: OMITTED,
});

/** The most characters of one message on a page. A larger one is read by its index. */
const MAX_MESSAGE_CHARACTERS = 20_000;

export const conversationLoad = defineTool({
  name: "conversation_load",
  title: "Load a conversation",
  description:
    "Loads a conversation with its newest messages in chronological order; `nextCursor` leads to the page of OLDER messages. A large message is shortened: call again with its `index`, and with `pointer` and `from` of the omitted part.",
  input: z.strictObject({
    id: z.string().min(1),
    limit: PAGE_ARGUMENTS.limit,
    cursor: PAGE_ARGUMENTS.cursor,
    at: z.string().optional().describe("Id of a checkpoint of its agent: the conversation as it was then."),
    index: z.int().min(0).optional().describe("Only the message at this position."),
    pointer: POINTER,
    from: FROM,
  }),
  output: z.object({
    conversation: CONVERSATION_INFO,
    first: z.number(),
    messages: z.array(ENTRY),
    nextCursor: NEXT_CURSOR,
    lost: z.array(z.object({ index: z.number(), reason: z.string() })).optional(),
  }),
  writes: false,
  async run({ id, limit, cursor, at, index, pointer, from }, scope) {
    const list = ["conversation_load", id, at];
    const options = { partial: true, ...omitUndefined({ at }) };
    if (index === undefined && (pointer !== undefined || from !== undefined)) {
      throw invalidArgument("`pointer` and `from` refer to one message: pass its `index` too.");
    }
    if (index !== undefined) {
      const found = await scope.loadConversation(id, { ...options, limit: 1, before: index + 1 });
      const entry = found.entries.find((_, offset) => found.first + offset === index);
      if (!entry) throw messageNotFound(found, index);
      const messages = [toEntry(entry, index, MAX_CHARACTERS, { pointer, from })];
      return { conversation: toConversationInfo(found), first: index, messages };
    }
    const [before] = cursor === undefined ? [] : decodeCursor(list, cursor, ["number"]);
    const range = before === undefined ? {} : { before: before as number };
    const found = await scope.loadConversation(id, { ...options, limit, ...range });
    const { first, messages } = fitFromEnd(found);
    return {
      conversation: toConversationInfo(found),
      first,
      messages,
      nextCursor: first > 0 ? encodeCursor(list, [first]) : undefined,
      lost: found.holes.length > 0 ? found.holes.filter((hole) => hole.index >= first) : undefined,
    };
  },
});

type Entry = z.output<typeof ENTRY>;

/** The last messages that fit, and at least one. */
function fitFromEnd(conversation: Conversation<unknown>): { first: number; messages: Entry[] } {
  const lost = new Set(conversation.holes.map(({ index }) => index));
  const end = conversation.first + conversation.entries.length + lost.size;
  const entries = [...conversation.entries];
  const messages: Entry[] = [];
  let left = MAX_CHARACTERS;
  let index = end - 1;
  for (; index >= conversation.first && (left > 0 || messages.length === 0); index--) {
    if (lost.has(index)) continue;
    const message = toEntry(entries.pop() as ConversationEntry<unknown>, index, MAX_MESSAGE_CHARACTERS);
    messages.unshift(message);
    left -= JSON.stringify(message).length;
  }
  return { first: index + 1, messages };
}

function toEntry(
  entry: ConversationEntry<unknown>,
  index: number,
  maxCharacters: number,
  part: Pick<OutlineOptions, "pointer" | "from"> = {},
): Entry {
  const { id, timestamp, role, message } = entry;
  const { value, omitted } = outline(message, { ...part, maxCharacters });
  return { index, id, timestamp: toTime(timestamp), role, message: value, omitted };
}

function messageNotFound({ id, messageCount, holes }: Conversation<unknown>, index: number): SavepointError {
  const [hole] = holes;
  if (hole) {
    return new SavepointError("DAMAGED", `Message ${index} of conversation ${JSON.stringify(id)}: ${hole.reason}.`);
  }
  return invalidArgument(
    `\`index\`: conversation ${JSON.stringify(id)} has ${messageCount} messages, starting with 0; there is none at ${index}.`,
  );
}
