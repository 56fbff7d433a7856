/** Messages between people, models and tools, in the plain form that Savepoint itself uses. SDKs keep their own. */

/** A tool that a model wants called. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments?: unknown;
}

export type Role = "system" | "user" | "assistant" | "tool";

export interface Message {
  role: Role;
  content: string;
  /** What an assistant wants called. */
  toolCalls?: ToolCall[];
  /** The call that a tool's message answers. */
  toolCallId?: string;
}

/** Makes messages. */
export const message = {
  system: (content: string): Message => ({ role: "system", content }),
  user: (content: string): Message => ({ role: "user", content }),
  assistant: (content: string, toolCalls?: readonly ToolCall[]): Message => ({
    role: "assistant",
    content,
    ...(toolCalls && toolCalls.length > 0 && { toolCalls: [...toolCalls] }),
  }),
  /** The answer to a tool call. What is not a text is written as JSON. */
  toolResult: (toolCallId: string, result: unknown): Message => ({
    role: "tool",
    toolCallId,
    content: typeof result === "string" ? result : (JSON.stringify(result) ?? ""),
  }),
};

/**
 * The tool calls in a state's `messages` that no tool message answers. A model refuses a history that has any.
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
      if (isRecord(call) && typeof call["id"] === "string") pending.set(call["id"], call as unknown as ToolCall);
    }
  }
  return [...pending.values()];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
