/** What a search looks for, and what it returns. */
import type { Role } from "../messages/index.js";
import { invalidArgument, parseTimestamp, validateCount, validateFields } from "../util/index.js";
import { foldText } from "./text-match.js";

/** Restricts a search. All conditions must hold. */
export interface SearchOptions {
  /** Only conversations and sessions of this agent. */
  readonly agent?: string;
  /** Only messages of this role. */
  readonly role?: Role;
  /** Only conversations that have all of these tags. */
  readonly tags?: readonly string[];
  /** `true`: only archived conversations; `false`: only others. @default both */
  readonly archived?: boolean;
  /** Only messages at or after this time. */
  readonly since?: number | Date;
  /**
   * At most this many hits.
   * @default 10
   */
  readonly limit?: number;
}

/** A conversation with a match. */
export interface ConversationHit {
  readonly conversationId: string;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  /** The message with the match; `undefined` if the title matches. */
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number;
  /** The text around the match. */
  readonly snippet: string;
}

/** A conversation or a session with a match. */
export interface SearchHit {
  readonly source: "conversation" | "session";
  /** The id of the conversation or the session. */
  readonly id: string;
  readonly agent: string | undefined;
  /** The id of the message with the match; `undefined` if it has none, or the title of a conversation matches. */
  readonly messageId: string | undefined;
  /** In a session: JSON pointer to the message in the newest state of the branch. */
  readonly path: string | undefined;
  readonly branch: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number | undefined;
  /** The text around the match. */
  readonly snippet: string;
}

/** Validated options of a search. */
export interface Query extends SearchOptions {
  /** The text to find, in the form in which texts are indexed. */
  readonly folded: string;
  /** The earliest time of a hit. */
  readonly from: number;
  readonly limit: number;
}

/** A hit, and what its rank depends on. */
export interface RankedHit {
  readonly hit: SearchHit;
  /** The title of the conversation. */
  readonly title: string | undefined;
  /** Whole words rank above parts of words. */
  readonly wholeWord: boolean;
}

const FIELDS = new Set(["agent", "role", "tags", "archived", "since", "limit"]);

/** Validates the arguments of a search. */
export function parseQuery(text: string, options: SearchOptions): Query {
  validateFields(options, "The options of a search", FIELDS);
  if (typeof text !== "string") {
    throw invalidArgument(`The text to search for must be a string, got ${typeof text}.`);
  }
  const { since, limit = 10 } = options;
  const from = since === undefined ? Number.NEGATIVE_INFINITY : parseTimestamp(since, "`since`");
  validateCount(limit, "`limit`");
  return { ...options, folded: foldText(text), from, limit };
}

/** Orders hits by rank: whole words first, then the newest. */
export function compareRank(a: RankedHit, b: RankedHit): number {
  if (a.wholeWord !== b.wholeWord) return a.wholeWord ? -1 : 1;
  return (b.hit.timestamp ?? 0) - (a.hit.timestamp ?? 0);
}
