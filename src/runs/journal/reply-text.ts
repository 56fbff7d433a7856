/** Finds the text in the reply of a model, in the formats of common SDKs. Never throws for unknown formats. */

const MAX_DEPTH = 4;
const TEXT_TYPES: ReadonlySet<unknown> = new Set(["text", "text-delta", "output_text"]);

/** The text of a reply, without line breaks at its ends; `undefined` if it has none, such as a reply with only tool calls. */
export function findReplyText(reply: unknown): string | undefined {
  const text = textIn(reply, 0).trim();
  return text === "" ? undefined : text;
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
