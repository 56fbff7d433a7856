/** The public types of conversations. */
import type { Message, Role } from "../messages/index.js";

/** A conversation without its messages, as listings return it. */
export interface ConversationInfo {
  readonly id: string;
  /** The agent that it belongs to, if any. */
  readonly agent: string | undefined;
  /** The title that was set, or else the beginning of the first message of a user. */
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** When the last message was appended, or the conversation was created if it has none. */
  readonly lastMessageAt: number;
  readonly messageCount: number;
}

/** A message with its id, time, role and text. */
export interface ConversationEntry<M = Message> {
  /** The message's own id, or else one that never changes. */
  readonly id: string;
  /** The message's own time, or else when it was appended. In milliseconds since 1970. */
  readonly timestamp: number;
  readonly role: Role | undefined;
  /** Its text, as it is shown and searched. */
  readonly text: string;
  /** The message exactly as it was appended. */
  readonly message: M;
}

/** A conversation with all of its messages, or a page of them. */
export interface Conversation<M = Message> extends ConversationInfo {
  /** The messages exactly as they were appended, of any SDK. */
  readonly messages: M[];
  /** The same messages with their ids, times and texts. */
  readonly entries: readonly ConversationEntry<M>[];
  /** The index of the first of these messages in the conversation: 0 if all were loaded. */
  readonly first: number;
  /** Damaged messages, which are left out. Always empty unless the conversation was loaded with `partial: true`. */
  readonly holes: readonly { readonly index: number; readonly reason: string }[];
}

/** A conversation to create. */
export interface ConversationOptions<M = Message> {
  /** @default a new UUIDv7 */
  readonly id?: string;
  /** The agent that it belongs to. The agent need not exist. */
  readonly agent?: string | undefined;
  /**
   * At most 50 characters (grapheme clusters); longer titles are cut.
   * @default the beginning of the first message of a user
   */
  readonly title?: string | undefined;
  readonly tags?: readonly string[];
  /** @default false */
  readonly archived?: boolean;
  /** Plain data. It is read with every listing, so keep it small. */
  readonly metadata?: object;
  readonly messages?: readonly M[];
}

/** What to load of a conversation. */
export interface LoadConversationOptions {
  /** Load at most this many messages: the last ones. @default all */
  readonly limit?: number;
  /** Load the conversation as it was at this checkpoint of its agent. @default as it is now */
  readonly at?: string;
  /** Load only messages before this index. With `limit`, the page before the one that begins there. */
  readonly before?: number;
  /**
   * Leave out damaged messages and list them in `holes`, instead of throwing `DAMAGED`.
   * @default false
   */
  readonly partial?: boolean;
}

/** Which conversations to list. All conditions must hold. */
export interface ConversationListOptions {
  /** Only conversations of this agent. */
  readonly agent?: string;
  /** Only conversations with this tag. */
  readonly tag?: string;
  /** `true`: only archived conversations; `false`: only others. @default both */
  readonly archived?: boolean;
  /** Only conversations with a message at or after this time. */
  readonly since?: number | Date;
  /** At most this many. @default all */
  readonly limit?: number;
}
