/** Which calls of tools in a list of messages are answered, and which are not. */
import { isObject, type ModelMessage, type SdkPart } from "./sdk.js";

/** The parts of a message that has parts. */
export function partsOf({ content }: { readonly content: unknown }): readonly SdkPart[] {
  return Array.isArray(content) ? (content as unknown[]).filter((part): part is SdkPart => isObject(part)) : [];
}

/** The ids of calls that nobody has answered, in the order in which they were made. Those of providers answer themselves. */
export function unanswered(messages: readonly ModelMessage[]): Set<string> {
  const open = new Set<string>();
  for (const message of messages) {
    for (const { type, toolCallId, providerExecuted } of partsOf(message)) {
      if (type === "tool-call" && message.role === "assistant" && providerExecuted !== true)
        open.add(String(toolCallId));
      if (type === "tool-result") open.delete(String(toolCallId));
    }
  }
  return open;
}

/**
 * Messages with what is said next. Who says something else than what was asked for leaves calls without an answer, and with
 * such a list no model can be asked: those calls are answered here, by that they were not run.
 */
export function answerCalls(messages: readonly ModelMessage[], said: readonly ModelMessage[]): ModelMessage[] {
  const goesOn = said[0]?.role === "tool" || said.length === 0;
  const open = goesOn ? new Set<string>() : unanswered(messages);
  if (open.size === 0) return [...messages, ...said];
  const calls = messages
    .flatMap(partsOf)
    .filter(({ type, toolCallId }) => type === "tool-call" && open.has(String(toolCallId)));
  const content = calls.map(({ toolCallId, toolName }) => ({
    type: "tool-result",
    toolCallId,
    toolName,
    output: { type: "execution-denied", reason: "It was not run: the conversation went on without it." },
  }));
  return [...messages, { role: "tool", content } as unknown as ModelMessage, ...said];
}
