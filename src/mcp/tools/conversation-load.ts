/** The tool that reads what was said, a page at a time from the end, or one message in parts. */
import { z } from "zod";
import type { Conversation, ConversationEntry } from "../../index.js";
import { decodeCursor, encodeCursor } from "../cursor.js";
import { MAX_CHARACTERS, OMITTED, outline } from "../outline.js";
import { PAGE_ARGUMENTS } from "../paging.js";
import { CONVERSATION_INFO, toConversationInfo, toTime } from "../result-schemas.js";
import { SavepointError } from "../../index.js";
import { defineTool, FROM, POINTER } from "../tool.js";

const ENTRY = z.object({
  index: z.number().describe("Its place in the conversation, from 0 on."),
  id: z.string(),
  timestamp: z.string(),
  role: z.string().optional(),
  message: z.unknown().describe("Exactly as it was saved."),
  omitted: OMITTED,
});

/** Of each message on a page; a larger one is read by its index. */
const MAX_MESSAGE = 20_000;

export const conversationLoad = defineTool({
  name: "conversation_load",
  title: "Load a conversation",
  description:
    "Loads a conversation with its newest messages, in the order they were said. `nextCursor` leads to the page of OLDER messages before them; each page is itself in order. A message that is too large is cut: call again with `index` of that message, and `pointer` and `from` of what was omitted. `at` shows the conversation as it was at a checkpoint of its agent.",
  input: z.strictObject({
    id: z.string().min(1),
    limit: PAGE_ARGUMENTS.limit.describe("At most this many messages; fewer where they are large."),
    cursor: PAGE_ARGUMENTS.cursor.describe("`nextCursor` of the page before: the messages before those."),
    at: z.string().optional().describe("Id of a checkpoint of the agent: the conversation as it was then."),
    index: z.int().min(0).optional().describe("Only the message at this place."),
    pointer: POINTER.describe("With `index`: JSON pointer into that message."),
    from: FROM,
  }),
  output: z.object({
    conversation: CONVERSATION_INFO,
    first: z.number().describe("The place of the first of these messages; 0 is the beginning of the conversation."),
    messages: z.array(ENTRY),
    nextCursor: z.string().optional().describe("Pass it as `cursor` to get older messages. Missing at the beginning."),
    lost: z
      .array(z.object({ index: z.number(), reason: z.string() }))
      .optional()
      .describe("Messages that are damaged and cannot be shown."),
  }),
  writes: false,
  async run({ id, limit, cursor, at, index, pointer, from }, scope) {
    const list = ["conversation_load", id, at];
    const atCheckpoint = at === undefined ? {} : { at };
    if (index === undefined && (pointer !== undefined || from !== undefined)) throw needsIndex();
    if (index !== undefined) {
      const found = await scope.loadConversation(id, { limit: 1, before: index + 1, partial: true, ...atCheckpoint });
      const entry = found.entries.find((_, place) => found.first + place === index);
      if (!entry) throw noMessage(found, index);
      const messages = [toEntry(entry, index, MAX_CHARACTERS, { pointer, from })];
      return { conversation: toConversationInfo(found), first: index, messages };
    }
    const [before] = cursor === undefined ? [] : decodeCursor(list, cursor, ["number"]);
    const range = before === undefined ? {} : { before: before as number };
    const found = await scope.loadConversation(id, { limit, partial: true, ...range, ...atCheckpoint });
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

/** The last ones that fit, at least one. */
function fitFromEnd(found: Conversation<unknown>): { first: number; messages: Entry[] } {
  const lost = new Set(found.holes.map(({ index }) => index));
  const end = found.first + found.entries.length + lost.size;
  const entries = [...found.entries];
  const messages: Entry[] = [];
  let left = MAX_CHARACTERS;
  let index = end - 1;
  for (; index >= found.first && (left > 0 || messages.length === 0); index--) {
    if (lost.has(index)) continue;
    const message = toEntry(entries.pop() as ConversationEntry<unknown>, index, MAX_MESSAGE);
    messages.unshift(message);
    left -= JSON.stringify(message).length;
  }
  return { first: index + 1, messages };
}

function toEntry(
  entry: ConversationEntry<unknown>,
  index: number,
  maxCharacters: number,
  part: { pointer?: string | undefined; from?: number | undefined } = {},
): Entry {
  const { id, timestamp, role, message } = entry;
  const { value, omitted } = outline(message, { ...part, maxCharacters });
  return {
    index,
    id,
    timestamp: toTime(timestamp),
    ...(role !== undefined && { role }),
    message: value,
    ...(omitted && { omitted }),
  };
}

function needsIndex(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "`pointer` and `from` lead into one message: say which with `index`.");
}

function noMessage({ id, messageCount, holes }: Conversation<unknown>, index: number): SavepointError {
  const [hole] = holes;
  if (hole)
    return new SavepointError("DAMAGED", `Message ${index} of conversation ${JSON.stringify(id)}: ${hole.reason}.`);
  return new SavepointError(
    "INVALID_ARGUMENT",
    `\`index\`: conversation ${JSON.stringify(id)} has ${messageCount} messages, from 0 on; there is none at ${index}.`,
  );
}
