/** What callers say about conversations, checked and copied when it is said. */
import { validateFields, validatePlainObject, invalidArgument } from "../util/index.js";
import type { Context } from "../context.js";
import type { ConversationOptions } from "./conversation.js";
import { checkId, type ConversationRecord, encodeMetadata } from "../records/index.js";
import { toTitle } from "./title.js";

/** What a conversation is to be, checked and copied. */
export interface ConversationFields {
  readonly id: string | undefined;
  readonly agent: string | undefined;
  readonly record: Pick<ConversationRecord, "title" | "tags" | "archived" | "metadata">;
}

const GIVEN = ["id", "agent", "title", "tags", "archived", "metadata", "messages"];
/** What `load` gave can be given back. */
const KEPT = ["createdAt", "lastMessageAt", "messageCount", "entries", "first", "holes"];
const FIELDS: ReadonlySet<string> = new Set([...GIVEN, ...KEPT]);

/** What a caller says about a conversation. */
export function parseConversation(options: ConversationOptions<unknown>, context: Context): ConversationFields {
  validateFields(options, "A conversation", FIELDS);
  const { id, agent, title, tags = [], archived = false, metadata } = options;
  validatePlainObject(metadata, "The metadata of a conversation");
  if (id !== undefined) checkId(id, "conversation id");
  if (agent !== undefined) checkId(agent, "agent id");
  return {
    id,
    agent,
    record: {
      title: parseTitle(title),
      tags: parseTags(tags),
      archived: Boolean(archived),
      metadata: encodeMetadata(metadata, context.registry),
    },
  };
}

export function parseTitle(title: string | undefined): string | undefined {
  if (title === undefined) return undefined;
  if (typeof title === "string") return toTitle(title);
  throw invalidArgument(`A title is a text, not of type ${typeof title}.`);
}

export function parseTags(tags: readonly string[]): string[] {
  if (!Array.isArray(tags)) throw invalidArgument("Tags are given as an array of texts.");
  return [...new Set(tags.map((tag: string) => checkId(tag, "tag")))];
}
