/**
 * The SDK's messages: made from replies, cleaned so that the SDK accepts them again, and checked for unanswered tool
 * calls.
 */
import { Buffer } from "node:buffer";
import { invalidArgument, isObject, type ModelMessage, type SdkPart } from "./sdk.js";

const ROLES: readonly unknown[] = ["user", "assistant", "tool", "system"];

/** The input of a turn as messages. A string is a message of the user. */
export function parseMessages(input: string | ModelMessage | readonly ModelMessage[]): ModelMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const list: readonly unknown[] = Array.isArray(input) ? input : [input];
  return list.map((each) => {
    if (isObject(each) && ROLES.includes(each["role"]) && "content" in each) return each as ModelMessage;
    const advice = "parts" in Object(each) ? " Convert UI messages with convertToModelMessages()." : "";
    throw invalidArgument(`The input of a turn must be a string, or messages with a role and content.${advice}`, {
      given: each,
    });
  });
}

/**
 * A model's reply as the assistant message that the SDK makes of it; `undefined` if it has no part that is sent again.
 */
export function replyToMessage(content: readonly SdkPart[]): ModelMessage | undefined {
  const parts = content.flatMap((part) => toMessagePart(part) ?? []);
  return parts.length > 0 ? ({ role: "assistant", content: parts } as unknown as ModelMessage) : undefined;
}

function toMessagePart(part: SdkPart): SdkPart | undefined {
  const { type, toolCallId, toolName, providerMetadata } = part;
  const options = providerMetadata === undefined ? {} : { providerOptions: providerMetadata };
  switch (type) {
    case "text":
      return part["text"] === "" && providerMetadata === undefined
        ? undefined
        : { type, text: part["text"], ...options };
    case "reasoning":
      return { type, text: part["text"], ...options };
    case "file":
    case "reasoning-file":
      return { type, data: toBase64(part["data"]), mediaType: part["mediaType"], ...options };
    case "custom":
      return { type, kind: part["kind"], ...options };
    case "tool-call": {
      const executed = part["providerExecuted"] === undefined ? {} : { providerExecuted: part["providerExecuted"] };
      return { type, toolCallId, toolName, input: parseInput(part["input"]), ...executed, ...options };
    }
    case "tool-result": {
      const output =
        part["isError"] === true ? { type: "error-json", value: part["result"] } : toToolOutput(part["result"]);
      return { type, toolCallId, toolName, output, ...options };
    }
    case "tool-approval-request":
      return { type, approvalId: part["approvalId"], toolCallId };
    default:
      // Sources, and parts of later SDK versions, are for the reader of the reply. No provider accepts them as input.
      return undefined;
  }
}

/** The result of a tool, in the form in which a model gets it. */
export function toToolOutput(result: unknown): { type: string; value: unknown } {
  return typeof result === "string" ? { type: "text", value: result } : { type: "json", value: result ?? null };
}

/** The input of a tool call, which models give as JSON. The SDK rejects invalid JSON and reports it to the model. */
function parseInput(input: unknown): unknown {
  if (typeof input !== "string") return input;
  if (input.trim() === "") return {};
  try {
    return JSON.parse(input) as unknown;
  } catch {
    return {};
  }
}

function toBase64(data: unknown): unknown {
  if (data instanceof Uint8Array) return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  // Since the fourth specification the data of a file has a type.
  if (isObject(data) && data["type"] === "data") return toBase64(data["data"]);
  return data;
}

/**
 * A message that the SDK accepts again. The SDK sets missing fields to `undefined`, and copies the result of a tool even if
 * it is not JSON: it would reject its own message if that contains a Date.
 */
export function cleanMessage(message: ModelMessage): ModelMessage {
  return clean(message) as ModelMessage;
}

function clean(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clean);
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([key, each]) => [key, key === "output" ? cleanOutput(each) : clean(each)]));
}

function cleanOutput(output: unknown): unknown {
  if (!isObject(output) || (output["type"] !== "json" && output["type"] !== "error-json")) return clean(output);
  return { ...(clean({ ...output, value: null }) as object), value: toJson(output["value"]) };
}

function toJson(value: unknown): unknown {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? String(each) : each)) as
    | string
    | undefined;
  return text === undefined ? null : (JSON.parse(text) as unknown);
}

/** The parts of a message; none if its content is a string. */
export function partsOf({ content }: { readonly content: unknown }): readonly SdkPart[] {
  return Array.isArray(content) ? (content as unknown[]).filter((part): part is SdkPart => isObject(part)) : [];
}

/**
 * The ids of tool calls without a result, in the order of the calls. Calls that the provider executes are not among them.
 *
 * @param open the calls without a result in earlier messages; changed in place
 */
export function findUnansweredCalls(messages: readonly ModelMessage[], open = new Set<string>()): Set<string> {
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
 * Appends the input of a turn to messages. No model accepts tool calls without results: where the input does not answer
 * them, they get the result that they were not run.
 */
export function appendInput(messages: readonly ModelMessage[], input: readonly ModelMessage[]): ModelMessage[] {
  const answers = input[0]?.role === "tool" || input.length === 0;
  const open = answers ? new Set<string>() : findUnansweredCalls(messages);
  if (open.size === 0) return [...messages, ...input];
  const calls = messages
    .flatMap(partsOf)
    .filter(({ type, toolCallId }) => type === "tool-call" && open.has(String(toolCallId)));
  const content = calls.map(({ toolCallId, toolName }) => ({
    type: "tool-result",
    toolCallId,
    toolName,
    output: { type: "execution-denied", reason: "It was not run: the conversation continued without it." },
  }));
  return [...messages, { role: "tool", content } as unknown as ModelMessage, ...input];
}
