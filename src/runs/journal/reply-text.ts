/** The text of a model's reply, in the formats of common SDKs. Never throws for unknown formats. */
import { pendingToolCalls } from "../../messages/index.js";
import { toJson } from "../../state/index.js";

const MAX_DEPTH = 4;
const TEXT_TYPES: ReadonlySet<unknown> = new Set(["text", "text-delta", "output_text"]);

/** The text of a reply, without line breaks at its ends; `undefined` if it has none, such as a reply with only tool calls. */
export function findReplyText(reply: unknown): string | undefined {
  const text = textIn(reply, 0).trim();
  return text === "" ? undefined : text;
}

/** The characters of a reply that are described. */
const MAX_LINE = 200;
const MAX_ARGUMENTS = 60;

/** The text of a reply and the tools that it calls, on one line; `undefined` if it has neither, or has an unknown format. */
export function describeReply(reply: unknown): string | undefined {
  const calls = pendingToolCalls({ messages: [messageOf(reply)] }).map(({ name, arguments: given }) => {
    const text = typeof given === "string" ? given : (JSON.stringify(toJson(given)) ?? "");
    return `${name}(${shorten(text, MAX_ARGUMENTS)})`;
  });
  const text = findReplyText(reply) ?? "";
  const parts = [text, calls.length > 0 ? `calls ${calls.join(", ")}` : ""].filter((part) => part !== "");
  return parts.length > 0 ? shorten(parts.join("; ").replace(/\s+/g, " "), MAX_LINE) : undefined;
}

/** The message in a reply: chat completions of OpenAI have it in a list of choices. */
function messageOf(reply: unknown): unknown {
  if (typeof reply !== "object" || reply === null) return undefined;
  const { choices, message } = reply as { choices?: unknown; message?: unknown };
  if (message !== undefined) return message;
  return Array.isArray(choices) ? messageOf(choices[0]) : reply;
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

function textIn(value: unknown, depth: number): string {
  if (typeof value === "string") return value;
  if (depth > MAX_DEPTH || typeof value !== "object" || value === null) return "";
  if (Array.isArray(value)) return value.map((part: unknown) => textOfPart(part, depth)).join("");
  const { content, text, message, choices, parts, output } = value as Record<string, unknown>;
  for (const each of [text, content, parts, message, output]) {
    const found = each === undefined ? "" : textIn(each, depth + 1);
    if (found !== "") return found;
  }
  return Array.isArray(choices) ? textIn(choices[0], depth + 1) : "";
}

/** The text of a part of a message or a stream. Parts with reasoning and tool calls have none. */
function textOfPart(part: unknown, depth: number): string {
  if (typeof part === "string") return part;
  if (typeof part !== "object" || part === null) return "";
  const { type, text, delta, textDelta } = part as Record<string, unknown>;
  if (type !== undefined && !TEXT_TYPES.has(type)) {
    return type === "message" ? textIn(part, depth + 1) : "";
  }
  return [text, delta, textDelta].find((each): each is string => typeof each === "string") ?? "";
}
