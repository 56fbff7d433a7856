/** Messages between people, models and tools, in the plain form that Savepoint itself uses. SDKs keep their own. */

/** How a tool call stands, where that is kept with it. */
export type ToolCallStatus = "pending" | "running" | "completed" | "failed";

/** A tool that a model wants called. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments?: unknown;
  /** What it answered, where that is kept with the call and not in a message of its own. */
  readonly result?: unknown;
  readonly status?: ToolCallStatus;
}

export type AttachmentType = "image" | "audio" | "video" | "file" | "code";

/** Something that came with a message: its bytes, or where they are. */
export interface Attachment {
  readonly id?: string;
  readonly type: AttachmentType;
  readonly name: string;
  readonly mimeType?: string;
  /** Stored once per store, however often it is attached. */
  readonly content?: Uint8Array;
  readonly url?: string;
  /** In bytes. */
  readonly size?: number;
}

export type Role = "system" | "user" | "assistant" | "tool";

/** What a message may say beside its text. */
export interface MessageFields {
  id?: string;
  /** Milliseconds since 1970. */
  timestamp?: number;
  tokens?: number;
  attachments?: Attachment[];
  /** The message that it answers or replaces, by its id. */
  parentId?: string;
  metadata?: Record<string, unknown>;
}

export interface Message extends MessageFields {
  role: Role;
  content: string;
  /** What an assistant wants called. */
  toolCalls?: ToolCall[];
  /** The call that a tool's message answers. */
  toolCallId?: string;
}

/** Makes messages. They have no id and no time unless they are given some: the same call makes the same message. */
export const message = {
  system: (content: string, fields: MessageFields = {}): Message => ({ role: "system", content, ...fields }),
  user: (content: string, fields: MessageFields = {}): Message => ({ role: "user", content, ...fields }),
  assistant: (content: string, toolCalls: readonly ToolCall[] = [], fields: MessageFields = {}): Message => ({
    role: "assistant",
    content,
    ...(toolCalls.length > 0 && { toolCalls: [...toolCalls] }),
    ...fields,
  }),
  /** The answer to a tool call. What is not a text is written as JSON. */
  toolResult: (toolCallId: string, result: unknown, fields: MessageFields = {}): Message => ({
    role: "tool",
    toolCallId,
    content: typeof result === "string" ? result : (JSON.stringify(result) ?? ""),
    ...fields,
  }),
};

/**
 * The tool calls in a state's `messages` that no tool message answers and that do not say themselves that they are over.
 * A model refuses a history that has any.
 *
 * @param state anything; without an array `messages` there are none
 */
export function pendingToolCalls(state: unknown): ToolCall[] {
  const messages = isRecord(state) ? state["messages"] : undefined;
  if (!Array.isArray(messages)) return [];
  const pending = new Map<string, ToolCall>();
  for (const entry of messages as unknown[]) {
    if (!isRecord(entry)) continue;
    const { toolCalls, toolCallId } = entry;
    if (typeof toolCallId === "string") pending.delete(toolCallId);
    if (!Array.isArray(toolCalls)) continue;
    for (const call of toolCalls as unknown[]) {
      if (!isRecord(call) || typeof call["id"] !== "string") continue;
      const over = call["status"] === "completed" || call["status"] === "failed";
      if (!over) pending.set(call["id"], call as unknown as ToolCall);
    }
  }
  return [...pending.values()];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
