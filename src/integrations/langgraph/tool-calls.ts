/** Tool calls without a result in the messages of a thread. */
import { AIMessage, type BaseMessage, RemoveMessage, ToolMessage } from "@langchain/core/messages";
import type { ToolCallResolution } from "../../index.js";
import { invalidArgument } from "./errors.js";

/** The id with which LangGraph's reducer of messages removes all earlier messages. */
const REMOVE_ALL_MESSAGES = "__remove_all__";

/**
 * Gives the tool calls without a result their result, or removes them. A crash can leave such calls in a thread, and models
 * reject a history with them.
 *
 * @param messages the messages of the thread
 * @param resolution the results by the ids of their calls; `"drop"` removes all calls without a result
 * @returns an update for `graph.updateState()` that replaces all messages of a state with LangGraph's reducer of messages
 * @example
 * const { values } = await graph.getState(config);
 * await graph.updateState(config, { messages: resolveToolCalls(values.messages, { call_1: "paid" }) }, "tools");
 */
export function resolveToolCalls(messages: readonly BaseMessage[], resolution: ToolCallResolution): BaseMessage[] {
  const answered = new Set(messages.map((message) => (ToolMessage.isInstance(message) ? message.tool_call_id : "")));
  const pendingOf = (message: BaseMessage | undefined): { id: string; name: string }[] =>
    AIMessage.isInstance(message)
      ? (message.tool_calls ?? []).flatMap(({ id, name }) =>
          id === undefined || answered.has(id) ? [] : [{ id, name }],
        )
      : [];
  const pending = new Set(messages.flatMap((message) => pendingOf(message).map(({ id }) => id)));
  if (resolution !== "drop") {
    const unknown = Object.keys(resolution).find((id) => !pending.has(id));
    if (unknown !== undefined) {
      const known = [...pending].map((id) => JSON.stringify(id)).join(", ") || "none";
      throw invalidArgument(`The messages have no pending tool call ${JSON.stringify(unknown)}. Pending: ${known}.`);
    }
  }
  const resolved: BaseMessage[] = [new RemoveMessage({ id: REMOVE_ALL_MESSAGES })];
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index] as BaseMessage;
    const calls = pendingOf(message);
    if (calls.length > 0 && resolution === "drop") {
      const rest = withoutCalls(message as AIMessage, new Set(calls.map(({ id }) => id)));
      if (rest) resolved.push(rest);
      continue;
    }
    resolved.push(message);
    if (calls.length === 0 || resolution === "drop") continue;
    // The results of the other calls of this message come first.
    while (ToolMessage.isInstance(messages[index + 1])) resolved.push(messages[++index] as BaseMessage);
    for (const { id, name } of calls) {
      if (!Object.hasOwn(resolution, id)) continue;
      const result = resolution[id];
      const content = typeof result === "string" ? result : (JSON.stringify(result) ?? "");
      resolved.push(new ToolMessage({ tool_call_id: id, name, content }));
    }
  }
  return resolved;
}

/** The message without these calls; `undefined` if nothing else is in it. */
function withoutCalls(message: AIMessage, ids: ReadonlySet<string>): AIMessage | undefined {
  const calls = (message.tool_calls ?? []).filter(({ id }) => !ids.has(id ?? ""));
  // Some models also have their calls in the content.
  const content = Array.isArray(message.content)
    ? message.content.filter((part) => !("id" in part && ids.has(String(part["id"]))))
    : message.content;
  if (calls.length === 0 && content.length === 0) return undefined;
  const { tool_calls: _, ...more } = message.additional_kwargs;
  return new AIMessage({
    content: content as AIMessage["content"],
    tool_calls: calls,
    additional_kwargs: more,
    response_metadata: message.response_metadata,
    ...(message.id !== undefined && { id: message.id }),
    ...(message.name !== undefined && { name: message.name }),
    ...(message.usage_metadata !== undefined && { usage_metadata: message.usage_metadata }),
  });
}
