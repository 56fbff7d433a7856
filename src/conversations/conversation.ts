/** What a conversation is, to callers. */
import type { Message, Role } from "../messages/index.js";

/** A conversation without its messages: what listings give. */
export interface ConversationInfo {
  readonly id: string;
  /** The agent whose it is, where one was named. */
  readonly agent: string | undefined;
  /** As it was given, or else the beginning of the first message of a user. */
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** When the last message came; when it was made, if it has none yet. */
  readonly lastMessageAt: number;
  readonly messageCount: number;
}

/** A message, and what is known about it. */
export interface ConversationEntry<M = Message> {
  /** Its own id if it has one; else one that is always the same. */
  readonly id: string;
  /** When it was written if it says so; else when it was appended. */
  readonly timestamp: number;
  readonly role: Role | undefined;
  /** What it says, as people read and search it. */
  readonly text: string;
  /** The message itself, exactly as it was appended. */
  readonly message: M;
}

/** A conversation with its messages, or some of them. */
export interface Conversation<M = Message> extends ConversationInfo {
  /** Exactly as they were appended, whatever SDK made them. */
  readonly messages: M[];
  /** The same messages with their ids, times and texts. */
  readonly entries: readonly ConversationEntry<M>[];
  /** The place of the first of these messages in the conversation: 0 where it was loaded whole. */
  readonly first: number;
  /** Messages that are lost; only ever non-empty when it was loaded with `partial`. */
  readonly holes: readonly { readonly index: number; readonly reason: string }[];
}

/** What can be said about a conversation when it is made. */
export interface ConversationOptions<M = Message> {
  /** @default a new UUIDv7 */
  readonly id?: string;
  /** The agent whose it is. Naming one creates none. */
  readonly agent?: string | undefined;
  /**
   * Cut to 50 characters, as people count them.
   * @default the beginning of the first message of a user
   */
  readonly title?: string | undefined;
  readonly tags?: readonly string[];
  /** @default false */
  readonly archived?: boolean;
  /** Any plain data; read with every listing, so keep it small. */
  readonly metadata?: object;
  readonly messages?: readonly M[];
}

/** How a conversation is loaded. */
export interface LoadConversationOptions {
  /** At most this many messages: the last ones. */
  readonly limit?: number;
  /** As it was at a checkpoint of its agent, by the id of that. */
  readonly at?: string;
  /** Only messages before this place. With `limit`, the page before one that began there. */
  readonly before?: number;
  /**
   * Leave out damaged messages, and name them in `holes`, instead of failing with `DAMAGED`.
   * @default false
   */
  readonly partial?: boolean;
}

export interface ConversationListOptions {
  /** Only those of this agent. */
  readonly agent?: string;
  /** Only those with this tag. */
  readonly tag?: string;
  /** Only archived ones, or only those that are not. */
  readonly archived?: boolean;
  /** Only those with a message at or after this time. */
  readonly since?: number | Date;
  /** At most this many. */
  readonly limit?: number;
}
