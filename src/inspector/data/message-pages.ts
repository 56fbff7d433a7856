/** Pages of messages, with the results of tools beside their calls. */
import { describeMessage, describeToolUse, type ToolCall, type ToolResult, type ToolUse } from "../../index.js";
import type { MessagePage, MessageView, ToolCallView } from "../api.js";
import { toWire } from "../http/responses.js";
import { boundJson } from "./bounded-json.js";
import { cut, omitUndefined } from "./views.js";

/** A message in a list. */
export interface ListedMessage {
  /** Its index in the list. */
  readonly index: number;
  readonly path: string;
  readonly message: unknown;
  /** Fields of the list itself, which precede those of the message. */
  readonly id?: string | undefined;
  readonly timestamp?: number | undefined;
}

/** Which messages are returned. */
export interface MessageQuery {
  readonly before: number | undefined;
  readonly limit: number;
  readonly maxText: number;
}

/** How far from a call its result is searched, in messages: results follow their calls closely. */
const NEAR = 200;
/** The characters of the arguments of a call. */
const MAX_ARGUMENTS = 4000;

interface FoundResult extends ToolResult {
  readonly pointer: string;
}

/**
 * A page of a list of messages.
 *
 * @param total the number of messages in the list; `messages` can be a part of it that contains those of the page
 */
export function pageOfMessages(
  pointer: string,
  messages: readonly ListedMessage[],
  total: number,
  { before = Number.POSITIVE_INFINITY, limit, maxText }: MessageQuery,
): MessagePage {
  const after = messages.findIndex(({ index }) => index >= before);
  const end = after < 0 ? messages.length : after;
  const start = Math.max(0, end - limit);
  const parts = new Map<unknown, ToolUse>();
  const partsOf = ({ message }: ListedMessage): ToolUse => {
    const known = parts.get(message) ?? describeToolUse(message);
    parts.set(message, known);
    return known;
  };
  const near = messages.slice(Math.max(0, start - NEAR), end + NEAR);
  const results = new Map<string, FoundResult>();
  const calls = new Set<string>();
  for (const each of near) {
    for (const { id } of partsOf(each).calls) calls.add(id);
    for (const result of partsOf(each).results)
      results.set(result.callId, { ...result, pointer: each.path + result.path });
  }
  const views = messages
    .slice(start, end)
    .flatMap((each) => toMessageViews(each, partsOf(each), calls, results, maxText));
  const first = messages[start];
  return omitUndefined({ pointer, total, messages: views, before: start > 0 ? first?.index : undefined });
}

/** A message; nothing if it has only results, which are shown with their calls; one view for each result without a call. */
function toMessageViews(
  { index, path, message, id, timestamp }: ListedMessage,
  { text, calls, results: own }: ToolUse,
  known: ReadonlySet<string>,
  results: ReadonlyMap<string, FoundResult>,
  maxText: number,
): MessageView[] {
  const described = describeMessage(message);
  if (!described) return [];
  const base = omitUndefined({
    index,
    pointer: path,
    role: described.role,
    id: id ?? described.id,
    timestamp: timestamp ?? described.timestamp,
  });
  const isOnlyResults = own.length > 0 && text === "" && calls.length === 0;
  const strays = own.filter(({ callId }) => !known.has(callId));
  const views: MessageView[] = strays.map((result) => ({
    ...base,
    ...boundText(result.text, maxText),
    toolCalls: [],
    resultOf: result.callId,
  }));
  if (isOnlyResults) return views;
  const toolCalls = calls.map((call) => toToolCallView(call, results.get(call.id), maxText));
  return [{ ...base, ...boundText(text, maxText), toolCalls }, ...views];
}

function toToolCallView(call: ToolCall, result: FoundResult | undefined, maxText: number): ToolCallView {
  const { id, name, status } = call;
  const given = call.arguments === undefined ? undefined : boundJson(toWire(call.arguments), MAX_ARGUMENTS).value;
  return omitUndefined({
    id,
    name,
    arguments: given,
    status: status ?? (result?.isError ? ("failed" as const) : result ? ("completed" as const) : undefined),
    result: result && { ...boundText(result.text, maxText), pointer: result.pointer },
  });
}

function boundText(text: string, max: number): { readonly text: string; readonly textLength?: number } {
  return text.length <= max ? { text } : { text: cut(text, max), textLength: text.length };
}
