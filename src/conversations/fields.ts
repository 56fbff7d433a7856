/** The fields of a conversation, validated and copied from what the caller passes. */
import { validateFields, validatePlainObject, invalidArgument } from "../util/index.js";
import type { Context } from "../context.js";
import type { ConversationOptions } from "./conversation.js";
import { checkId, type ConversationRecord, encodeMetadata } from "../records/index.js";

/** Validated fields of a conversation. They share nothing with the caller's objects. */
export interface ConversationFields {
  readonly id: string | undefined;
  readonly agent: string | undefined;
  readonly record: Pick<ConversationRecord, "title" | "tags" | "archived" | "metadata">;
}

const WRITABLE = ["id", "agent", "title", "tags", "archived", "metadata", "messages"];
/** Fields of a loaded conversation, which can be passed to `save`. They are ignored. */
const READ_ONLY = ["createdAt", "lastMessageAt", "messageCount", "entries", "first", "holes"];
const FIELDS: ReadonlySet<string> = new Set([...WRITABLE, ...READ_ONLY]);

/** Validates and copies the fields of a conversation. */
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

/** Validates a title, and shortens it if necessary. */
export function parseTitle(title: string | undefined): string | undefined {
  if (title === undefined) return undefined;
  if (typeof title === "string") return toTitle(title);
  throw invalidArgument(`The title of a conversation must be a string, got ${typeof title}.`);
}

/** Validates tags, and removes duplicates. */
export function parseTags(tags: readonly string[]): string[] {
  if (!Array.isArray(tags)) throw invalidArgument("The tags of a conversation must be an array of strings.");
  return [...new Set(tags.map((tag: string) => checkId(tag, "tag")))];
}

const MAX_TITLE = 50;
const ELLIPSIS = "...";
/** UTF-16 code units that are examined: a message may be as long as a book. */
const EXAMINED = 10_000;

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/**
 * A string as a title: one line of at most 50 grapheme clusters, never cut inside one. `undefined` if the string has only
 * whitespace.
 */
export function toTitle(text: string): string | undefined {
  const start = text.trimStart();
  const line = start.slice(0, EXAMINED).trimEnd().replace(/\s+/gu, " ");
  if (line === "") return undefined;
  const isCut = start.slice(EXAMINED).trim() !== "";
  const ends: number[] = [];
  for (const { index, segment } of segmenter.segment(line)) {
    ends.push(index + segment.length);
    if (ends.length > MAX_TITLE) return cutTitle(line, ends);
  }
  // The last cluster may continue in the part that was not examined.
  return isCut ? cutTitle(line, ends.slice(0, -1)) : line;
}

function cutTitle(line: string, ends: readonly number[]): string {
  return line.slice(0, ends[Math.min(ends.length, MAX_TITLE - ELLIPSIS.length) - 1] ?? 0) + ELLIPSIS;
}
