/**
 * Keeps the index of a store up to date: what is said in conversations, what they are called, and what is said in the
 * states of sessions.
 *
 * Saving does nothing for it. Before a search answers, the records that have changed since it last looked are found, and
 * what is new in them is indexed. A conversation that was only added to is read from where it was left off. Any number
 * of processes may do so at once: each step is one transaction, which says what it started from.
 */
import { createHash } from "node:crypto";
import { isSavepointError } from "../errors.js";
import {
  DOCUMENTS_PER_SOURCE,
  type KeyRange,
  type Mark,
  openScanTextIndex,
  type TextIndex,
  type TextSource,
} from "../store/index.js";
import type { Context } from "../context.js";
import { readConversations, readMessages, type StoredConversation } from "../conversations/index.js";
import {
  agentOfHistoryId,
  ALL_CONVERSATIONS,
  ALL_SESSIONS,
  conversationKey,
  conversationOfKey,
  type ConversationRecord,
  countPieces,
  formatPieces,
  piecesOf,
  slicePieces,
} from "../records/index.js";
import { fold } from "./text-match.js";
import { IndexWriter, MAX_DOCUMENTS } from "./index-writer.js";
import { readSessionMessages } from "./session-messages.js";

/** What is being looked for: only conversations, or sessions as well. */
export type SearchScope = "conversations" | "all";

/** Records that are looked at together. */
const PAGE = 8192;

/** The documents of a conversation's messages, and the one that is its title. */
export const messagesSource = (id: string): string => conversationKey(id);
export const titleSource = (id: string): string => `${conversationKey(id)}\ttitle`;

/** What a conversation consists of: as long as that stays the same, it is only added to. */
export function noteOf({ number, base, tapeStart }: ConversationRecord): string {
  return `${number} ${formatPieces(base, number)} ${tapeStart}`;
}

/** A title as it is noted: with whatever is in it, also what a text in a database cannot have. */
const noteOfTitle = (title: string | undefined): string => (title === undefined ? "" : JSON.stringify(title));
export const titleOfNote = (note: string): string => (note.startsWith('"') ? (JSON.parse(note) as string) : note);

export class SearchIndex {
  readonly texts: TextIndex;
  readonly #context: Context;
  #turn: Promise<void> = Promise.resolve();

  constructor(context: Context) {
    this.#context = context;
    this.texts = context.store.texts ?? openScanTextIndex(context.store);
  }

  /** Resolves when all that was saved before is indexed. */
  catchUp(scope: SearchScope): Promise<void> {
    const ranges = scope === "all" ? [ALL_CONVERSATIONS, ALL_SESSIONS] : [ALL_CONVERSATIONS];
    const mine = this.#turn.then(() => this.#catchUp(ranges));
    this.#turn = mine.catch(() => {});
    return mine;
  }

  async #catchUp(ranges: readonly KeyRange[]): Promise<void> {
    const writer = new IndexWriter(this.texts, this.#context.events);
    for (;;) {
      const changes = await this.texts.changes(ranges, PAGE);
      if (changes.length === 0) break;
      await this.#index(changes, writer);
      await writer.flush();
    }
    await writer.finish();
  }

  async #index(changes: readonly Mark[], writer: IndexWriter): Promise<void> {
    const conversations = new Map<string, Mark[]>();
    for (const mark of changes) {
      if (mark.key.startsWith("c\t")) {
        const id = conversationOfKey(mark.key);
        conversations.set(id, [...(conversations.get(id) ?? []), mark]);
      } else await this.#indexSession(mark, writer);
    }
    await this.#indexConversations(conversations, writer);
  }

  async #indexConversations(changed: ReadonlyMap<string, readonly Mark[]>, writer: IndexWriter): Promise<void> {
    const ids = [...changed.keys()];
    const found = await readConversations(this.#context, ids);
    const sources = await this.texts.sources([...ids.map(messagesSource), ...ids.map(titleSource)]);
    for (const [index, id] of ids.entries()) {
      const stored = found[index];
      const whole = stored && !("unreadable" in stored) ? stored : undefined;
      const title = sources[ids.length + index];
      // First, so that messages are found before the title that is taken from one of them.
      this.#indexTitle(id, whole, title, writer);
      if (await this.#indexMessages(id, whole, sources[index], writer)) await writer.note(changed.get(id) ?? []);
    }
  }

  /** `false` where another process was faster: what is left is looked at again. */
  async #indexMessages(
    id: string,
    stored: StoredConversation | undefined,
    source: TextSource | undefined,
    writer: IndexWriter,
  ): Promise<boolean> {
    const name = messagesSource(id);
    if (!stored) {
      if (source) writer.add({ name, before: source, from: 0, texts: [], note: undefined });
      return true;
    }
    const pieces = piecesOf(stored.record, stored.items);
    // The index numbers no more. What a million messages are followed by is not found.
    const count = Math.min(countPieces(pieces), DOCUMENTS_PER_SOURCE);
    const note = noteOf(stored.record);
    let before = source;
    for (let from = source?.note === note ? source.count : 0; from < count || before?.note !== note;) {
      const to = Math.min(count, from + MAX_DOCUMENTS);
      const entries = await readMessages(this.#context, slicePieces(pieces, from, to));
      const texts = entries.map((entry) => ("unreadable" in entry ? "" : fold(entry.text)));
      writer.add({ name, before, from, texts, note });
      from = to;
      if (from >= count) break;
      if (!(await writer.flush())) return false;
      [before] = await this.texts.sources([name]);
    }
    return true;
  }

  #indexTitle(
    id: string,
    stored: StoredConversation | undefined,
    before: TextSource | undefined,
    writer: IndexWriter,
  ): void {
    const title = stored?.record.title ?? stored?.firstTitle;
    const note = stored && noteOfTitle(title);
    if (note === before?.note) return;
    const texts = title === undefined ? [] : [fold(title)];
    writer.add({ name: titleSource(id), before, from: 0, texts, note });
  }

  /** What the newest state of a branch says. */
  async #indexSession(mark: Mark, writer: IndexWriter): Promise<void> {
    const [, session = "", branch] = mark.key.split("\t");
    if (branch !== undefined && agentOfHistoryId(session) === undefined) {
      const [before] = await this.texts.sources([mark.key]);
      const texts = await this.#sessionTexts(session, branch);
      if (texts) {
        const from = before && before.note === hashTexts(texts, before.count) ? before.count : 0;
        const note = hashTexts(texts, texts.length);
        if (!before || from < texts.length || before.count > texts.length) {
          writer.add({ name: mark.key, before, from, texts: texts.slice(from), note });
        }
      } else if (before) writer.add({ name: mark.key, before, from: 0, texts: [], note: undefined });
    }
    await writer.note([mark]);
  }

  async #sessionTexts(session: string, branch: string): Promise<string[] | undefined> {
    try {
      const messages = await readSessionMessages(this.#context, session, branch);
      return messages?.slice(0, DOCUMENTS_PER_SOURCE).map(({ text }) => fold(text));
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  }
}

/** Stands for the first so many texts. */
function hashTexts(texts: readonly string[], count: number): string {
  const hash = createHash("sha256");
  for (const text of texts.slice(0, count)) hash.update(`${text.length} ${text}`);
  return `${count} ${hash.digest("base64")}`;
}
