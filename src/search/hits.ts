/**
 * Checks the candidates of the index. Each candidate is read from where it is stored, so that a hit exists, matches the text
 * and meets all conditions of the query, whatever the index contains.
 */
import { isSavepointError } from "../errors.js";
import type { Piece } from "../state/index.js";
import { addToList } from "../util/index.js";
import type { Context } from "../context.js";
import { readMessages } from "../conversations/index.js";
import type { Role } from "../messages/index.js";
import {
  conversationKey,
  type ConversationRecord,
  countPieces,
  decodeConversation,
  derivedTitleKey,
  lastMessageTimeKey,
  slicePieces,
} from "../records/index.js";
import { SessionReader } from "../sessions/index.js";
import type { Query, RankedHit } from "./query.js";
import { type IndexedDocument, noteOf, titleOfNote } from "./search-index.js";
import { titleSource } from "./text-sources.js";
import { readSessionMessages } from "./session-messages.js";
import { findMatch, type TextMatch } from "./text-match.js";

/** A conversation that meets the conditions of the query. */
export interface CandidateConversation {
  readonly id: string;
  readonly record: ConversationRecord;
}

/** A message or title of a conversation that may match. */
export interface Candidate {
  /** The key of the conversation. */
  readonly owner: string;
  readonly conversation: CandidateConversation;
  readonly document: IndexedDocument;
}

/** The text of a message, or of a title, which has no id, role and time. */
interface CandidateText {
  readonly id: string | undefined;
  readonly role: Role | undefined;
  readonly timestamp: number | undefined;
  readonly text: string;
}

/** A candidate that matches. */
interface ConversationMatch extends Omit<CandidateText, "id" | "text"> {
  readonly conversation: CandidateConversation;
  readonly messageId: string | undefined;
  readonly match: TextMatch;
}

/** Finds the hits among the candidates of the index. */
export class HitReader {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Reads the conversations that meet the conditions of the query, by their keys. */
  async readConversations(ids: readonly string[], query: Query): Promise<Map<string, CandidateConversation>> {
    const { agent, tags = [], archived } = query;
    const found = new Map<string, CandidateConversation>();
    const records = await this.#context.store.get(ids.map(conversationKey));
    for (const [index, stored] of records.entries()) {
      if (!stored || !("value" in stored)) continue;
      const record = decodeConversation(stored.value);
      if (agent !== undefined && record.agent !== agent) continue;
      if (archived !== undefined && record.archived !== archived) continue;
      if (tags.every((tag) => record.tags.includes(tag))) found.set(stored.key, { id: ids[index] as string, record });
    }
    return found;
  }

  /** The first hit of each conversation, by its key; at most `max` of them. All candidates are read in one query. */
  async findInConversations(
    candidates: readonly Candidate[],
    query: Query,
    max: number,
  ): Promise<Map<string, RankedHit>> {
    const hits = new Map<string, RankedHit>();
    if (candidates.length === 0 || max <= 0) return hits;
    const texts = await this.#readTexts(candidates);
    const matches = new Map<string, ConversationMatch>();
    for (const [index, { owner, conversation }] of candidates.entries()) {
      const candidate = texts[index];
      if (!candidate || matches.has(owner) || matches.size >= max) continue;
      const { id, role, timestamp, text } = candidate;
      if ((query.role !== undefined && role !== query.role) || (timestamp ?? query.from) < query.from) continue;
      const match = findMatch(text, query.folded);
      if (match) matches.set(owner, { conversation, messageId: id, role, timestamp, match });
    }
    const details = await this.#readDetails([...matches.values()]);
    for (const [index, [owner, found]] of [...matches].entries()) {
      const { title, lastMessageAt } = details[index] as (typeof details)[0];
      const { conversation, messageId, role, timestamp = lastMessageAt, match } = found;
      if (timestamp < query.from) continue;
      const { id, record } = conversation;
      const place = { source: "conversation" as const, id, agent: record.agent, path: undefined, branch: undefined };
      const hit = { ...place, messageId, role, timestamp, snippet: match.snippet };
      hits.set(owner, { hit, title, wholeWord: match.wholeWord });
    }
    return hits;
  }

  /** The texts of candidates, in their order, read in one query; `undefined` if the conversation has changed since. */
  async #readTexts(candidates: readonly Candidate[]): Promise<(CandidateText | undefined)[]> {
    const isTitle = ({ conversation, document }: Candidate): boolean =>
      document.source.name === titleSource(conversation.id);
    const pieces = candidates.map((each) => (isTitle(each) ? undefined : pieceOf(each)));
    const read = await readMessages(
      this.#context,
      pieces.flatMap((piece) => piece ?? []),
    );
    let next = 0;
    return pieces.map((piece, index) => {
      const candidate = candidates[index] as Candidate;
      if (isTitle(candidate)) {
        const text = titleOfNote(candidate.document.source.note);
        return { id: undefined, role: undefined, timestamp: undefined, text };
      }
      const entry = piece && read[next++];
      return entry && !("unreadable" in entry) ? entry : undefined;
    });
  }

  /** The titles of conversations and the times of their last messages. */
  async #readDetails(
    found: readonly ConversationMatch[],
  ): Promise<{ readonly title: string | undefined; readonly lastMessageAt: number }[]> {
    const keys = found.flatMap(({ conversation: { id, record } }) => [
      derivedTitleKey(id, record.number),
      lastMessageTimeKey(id, record.number),
    ]);
    const records = keys.length === 0 ? [] : await this.#context.store.get(keys);
    return found.map(({ conversation: { record } }, index) => {
      const [title, last] = [records[2 * index], records[2 * index + 1]];
      const firstTitle = title && "value" in title ? (JSON.parse(title.value) as string) : undefined;
      return {
        title: record.title ?? firstTitle,
        lastMessageAt: last && "value" in last ? Number(last.value) : record.createdAt,
      };
    });
  }

  /** The first hit of a session, on any of its branches. */
  async findInSession(documents: readonly IndexedDocument[], query: Query): Promise<RankedHit | undefined> {
    const branches = new Map<string, number[]>();
    for (const { source, ordinal } of documents) addToList(branches, source.name, ordinal);
    for (const [name, ordinals] of branches) {
      const hit = await this.#findInBranch(name, ordinals, query).catch((error: unknown) => {
        // The damage has been emitted as an event; other branches may have a hit.
        if (isSavepointError(error, "DAMAGED")) return undefined;
        throw error;
      });
      if (hit) return hit;
    }
    return undefined;
  }

  /** The first of these messages of a branch that is a hit. */
  async #findInBranch(name: string, ordinals: readonly number[], query: Query): Promise<RankedHit | undefined> {
    const [, id = "", branch = ""] = name.split("\t");
    const { tags = [], archived, role, from, folded } = query;
    // Only conversations have tags, or can be archived.
    if (tags.length > 0 || archived !== undefined) return undefined;
    const session = await new SessionReader(this.#context, id).session();
    const agent = session?.record.agent;
    if (!session || (query.agent !== undefined && agent !== query.agent)) return undefined;
    const messages = (await readSessionMessages(this.#context, id, branch)) ?? [];
    for (const ordinal of ordinals) {
      const message = messages[ordinal];
      if (!message || (role !== undefined && message.role !== role)) continue;
      if (from > Number.NEGATIVE_INFINITY && (message.timestamp ?? 0) < from) continue;
      const match = findMatch(message.text, folded);
      if (!match) continue;
      const { id: messageId, path, timestamp } = message;
      const place = { source: "session" as const, id, agent, messageId, path, branch };
      const hit = { ...place, role: message.role, timestamp, snippet: match.snippet };
      return { hit, title: undefined, wholeWord: match.wholeWord };
    }
    return undefined;
  }
}

/** The range of a candidate's message; `undefined` if messages of the conversation were replaced since it was indexed. */
function pieceOf({ conversation: { record }, document: { source, ordinal } }: Candidate): Piece | undefined {
  if (source.note !== noteOf(record)) return undefined;
  const base = countPieces(record.base);
  if (ordinal < base) return slicePieces(record.base, ordinal, ordinal + 1)[0];
  return { tape: record.number, start: record.tapeStart + ordinal - base, count: 1 };
}
