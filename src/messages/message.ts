/** The message format of Savepoint. Messages of SDKs are stored in their own format. */

/** The status of a tool call, if it is stored with the call. */
export type ToolCallStatus = "pending" | "running" | "completed" | "failed";

/** A request of a model to call a tool. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments?: unknown;
  /** The result of the tool, if it is stored with the call and not in a message with the role `tool`. */
  readonly result?: unknown;
  readonly status?: ToolCallStatus;
}

export type AttachmentType = "image" | "audio" | "video" | "file" | "code";

/** A file that belongs to a message: its bytes, or its URL. */
export interface Attachment {
  readonly id?: string;
  readonly type: AttachmentType;
  readonly name: string;
  readonly mimeType?: string;
  /** Equal bytes are stored once per store. */
  readonly content?: Uint8Array;
  readonly url?: string;
  /** The size in bytes. */
  readonly size?: number;
}

export type Role = "system" | "user" | "assistant" | "tool";

/** The optional fields of a {@link Message}. */
export interface MessageFields {
  id?: string;
  /** Milliseconds since 1970. */
  timestamp?: number;
  tokens?: number;
  attachments?: Attachment[];
  /** The id of the message that this one answers or replaces. */
  parentId?: string;
  metadata?: Record<string, unknown>;
}

/** A message of a conversation. */
export interface Message extends MessageFields {
  role: Role;
  content: string;
  /** The tool calls of an assistant. */
  toolCalls?: ToolCall[];
  /** The id of the tool call whose result this is. */
  toolCallId?: string;
}

/**
 * Creates messages. They have no id and no timestamp unless `fields` has them: equal arguments give equal messages.
 *
 * @example
 * await session.save({ messages: [message.system("Be brief."), message.user("Hello")] });
 */
export const message = {
  system: (content: string, fields: MessageFields = {}): Message => ({ role: "system", content, ...fields }),
  user: (content: string, fields: MessageFields = {}): Message => ({ role: "user", content, ...fields }),
  assistant: (content: string, toolCalls: readonly ToolCall[] = [], fields: MessageFields = {}): Message => ({
    role: "assistant",
    content,
    ...(toolCalls.length > 0 && { toolCalls: [...toolCalls] }),
    ...fields,
  }),
  /** The result of a tool call. A result that is not a string is converted to JSON. */
  toolResult: (toolCallId: string, result: unknown, fields: MessageFields = {}): Message => ({
    role: "tool",
    toolCallId,
    content: typeof result === "string" ? result : (JSON.stringify(result) ?? ""),
    ...fields,
  }),
};
