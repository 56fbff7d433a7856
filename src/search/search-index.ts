/**
 * The search index of a store: the messages and titles of conversations, and the messages in the newest states of sessions.
 *
 * Saves do not touch it. A search first finds the records that have changed since the last update, and indexes what is new
 * in them; a conversation that was only appended to is read from where the last update ended. Several processes may
 * update at the same time: each transaction checks the state of the sources that it started from.
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
import { addToList, Mutex } from "../util/index.js";
import { parseStoredString } from "../state/index.js";
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
import { foldText } from "./text-match.js";
import { IndexWriter, MAX_DOCUMENTS } from "./index-writer.js";
import { readSessionMessages } from "./session-messages.js";
import { titleSource } from "./text-sources.js";

/** What is searched: only conversations, or sessions as well. */
export type SearchScope = "conversations" | "all";

/** Changed records that are read together. */
const PAGE = 8192;
/** Unreadable messages in a row after which the rest of a conversation is not indexed. */
const MAX_MISSING_MESSAGES = 16_384;

/** The note of a conversation's messages. As long as it stays the same, the conversation was only appended to. */
export function noteOf({ number, base, tapeStart }: ConversationRecord): string {
  return `${number} ${formatPieces(base, number)} ${tapeStart}`;
}

/** The note of a title is its JSON, because a title may contain characters that a database does not accept. */
const noteOfTitle = (title: string | undefined): string => (title === undefined ? "" : JSON.stringify(title));
/** The title in a note. */
export const titleOfNote = (note: string): string => (note.startsWith('"') ? parseStoredString(note) : note);

/** A message or title that the index has found. */
export interface IndexedDocument {
  readonly source: TextSource;
  /** The key of the conversation or session that it belongs to, which has at most one hit. */
  readonly owner: string;
  /** Its position in the source. */
  readonly ordinal: number;
}

/** Updates and queries the index. */
export class SearchIndex {
  /** The index in memory of a store that has none. */
  #ownTexts: TextIndex | undefined;
  readonly #context: Context;
  readonly #mutex = new Mutex();

  constructor(context: Context) {
    this.#context = context;
  }

  /** The index. A store has none any more when it was encrypted. */
  get #texts(): TextIndex {
    const { store } = this.#context;
    return store.texts ?? (this.#ownTexts ??= openScanTextIndex(store));
  }

  /** A page of documents that may contain a folded text, in descending order of their numbers, below a number. */
  async find(
    folded: string,
    below: number,
    limit: number,
  ): Promise<{ documents: IndexedDocument[]; lowest: number; isLast: boolean }> {
    const numbers = await this.#texts.find(folded, { below, limit });
    const ids = [...new Set(numbers.map((number) => Math.floor(number / DOCUMENTS_PER_SOURCE)))];
    const sources = new Map<number, TextSource>();
    for (const source of await this.#texts.sourcesById(ids)) if (source) sources.set(source.id, source);
    const documents = numbers.flatMap((number) => {
      const source = sources.get(Math.floor(number / DOCUMENTS_PER_SOURCE));
      return source ? [{ source, owner: ownerOf(source.name), ordinal: number % DOCUMENTS_PER_SOURCE }] : [];
    });
    return { documents, lowest: numbers.at(-1) ?? below, isLast: numbers.length < limit };
  }

  /** Removes the texts of these sources. */
  remove(names: readonly string[]): Promise<void> {
    return this.#mutex.run(() => this.#texts.remove(names));
  }

  /** Deletes the index. The next update rebuilds it. */
  async clear(): Promise<void> {
    await this.#texts.clear();
  }

  /** Resolves when everything that was saved before is indexed. */
  update(scope: SearchScope): Promise<void> {
    const ranges = scope === "all" ? [ALL_CONVERSATIONS, ALL_SESSIONS] : [ALL_CONVERSATIONS];
    return this.#mutex.run(() => this.#update(ranges));
  }

  async #update(ranges: readonly KeyRange[]): Promise<void> {
    const writer = new IndexWriter(this.#texts, this.#context.events);
    for (;;) {
      const changes = await this.#texts.changes(ranges, PAGE);
      if (changes.length === 0) break;
      await this.#index(changes, writer);
      await writer.flush();
    }
    await writer.finish();
  }

  async #index(changes: readonly Mark[], writer: IndexWriter): Promise<void> {
    const conversations = new Map<string, Mark[]>();
    for (const mark of changes) {
      if (mark.key.startsWith("c\t")) addToList(conversations, conversationOfKey(mark.key), mark);
      else await this.#indexSession(mark, writer);
    }
    await this.#indexConversations(conversations, writer);
  }

  async #indexConversations(changed: ReadonlyMap<string, readonly Mark[]>, writer: IndexWriter): Promise<void> {
    const ids = [...changed.keys()];
    const found = await readConversations(this.#context, ids);
    const sources = await this.#texts.sources([...ids.map(conversationKey), ...ids.map(titleSource)]);
    for (const [index, id] of ids.entries()) {
      const stored = found[index];
      const intact = stored && !("unreadable" in stored) ? stored : undefined;
      const title = sources[ids.length + index];
      // The title first: newer documents are found first, and a message is a better hit than the title derived from it.
      this.#indexTitle(id, intact, title, writer);
      if (await this.#indexMessages(id, intact, sources[index], writer)) await writer.note(changed.get(id) ?? []);
    }
  }

  /** Indexes the new messages of a conversation; `false` if another process does so too, then it has to be read again. */
  async #indexMessages(
    id: string,
    stored: StoredConversation | undefined,
    source: TextSource | undefined,
    writer: IndexWriter,
  ): Promise<boolean> {
    const name = conversationKey(id);
    if (!stored) {
      if (source) writer.add({ name, before: source, from: 0, texts: [], note: undefined });
      return true;
    }
    const pieces = piecesOf(stored.record, stored.items);
    // The index has this many numbers per source. Messages beyond them are not found.
    const count = Math.min(countPieces(pieces), DOCUMENTS_PER_SOURCE);
    const note = noteOf(stored.record);
    let before = source;
    let missing = 0;
    for (let from = source?.note === note ? source.count : 0; from < count || before?.note !== note;) {
      const to = Math.min(count, from + MAX_DOCUMENTS);
      const entries = await readMessages(this.#context, slicePieces(pieces, from, to));
      const texts = entries.map((entry) => ("unreadable" in entry ? "" : foldText(entry.text)));
      writer.add({ name, before, from, texts, note });
      from = to;
      missing = entries.every((entry) => "unreadable" in entry) ? missing + entries.length : 0;
      // A forged counter can name any number of messages that do not exist.
      if (from >= count || missing >= MAX_MISSING_MESSAGES) break;
      if (!(await writer.flush())) return false;
      [before] = await this.#texts.sources([name]);
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
    const texts = title === undefined ? [] : [foldText(title)];
    writer.add({ name: titleSource(id), before, from: 0, texts, note });
  }

  /** Indexes the messages in the newest state of a branch. */
  async #indexSession(mark: Mark, writer: IndexWriter): Promise<void> {
    const [, session = "", branch] = mark.key.split("\t");
    if (branch !== undefined && agentOfHistoryId(session) === undefined) {
      const [before] = await this.#texts.sources([mark.key]);
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
      return messages?.slice(0, DOCUMENTS_PER_SOURCE).map(({ text }) => foldText(text));
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  }
}

/** A hash of the first `count` texts. */
function hashTexts(texts: readonly string[], count: number): string {
  const hash = createHash("sha256");
  for (const text of texts.slice(0, count)) hash.update(`${text.length} ${text}`);
  return `${count} ${hash.digest("base64")}`;
}

/**
 * A conversation with its title, or a session with its branches, has one owner: the first two parts of the source's name.
 */
function ownerOf(name: string): string {
  return name.split("\t", 2).join("\t");
}
