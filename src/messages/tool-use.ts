/** The tool calls and the results of tools in a message, in the forms of all known SDKs, and the text beside them. */
import { type Fields, isFields } from "./fields.js";
import type { ToolCall, ToolCallStatus } from "./message.js";
import { describeMessage, type MessageForm, parseMessage } from "./message-text.js";

/** A result of a tool in a message. */
export interface ToolResult {
  /** The id of its call. */
  readonly callId: string;
  /** The text of the result, or its JSON, of limited length. */
  readonly text: string;
  /** The JSON pointer of the result in the message; empty if the message is the result. */
  readonly path: string;
  readonly isError: boolean;
}

/** What a message has besides text. */
export interface ToolUse {
  /** The text of the message without its calls and results. */
  readonly text: string;
  /** The calls, whether or not they have results. */
  readonly calls: readonly ToolCall[];
  /** The results in the message, also those that are stored with their calls. */
  readonly results: readonly ToolResult[];
}

const NOTHING: ToolUse = { text: "", calls: [], results: [] };

/**
 * Separates the text of a message from its tool calls and results. Without an id, as with Google, a call is known by the name of its
 * tool.
 *
 * @returns no text, no calls and no results for a value that is not a message
 */
export function describeToolUse(message: unknown): ToolUse {
  const form = parseMessage(message);
  if (!form) return NOTHING;
  const { body } = form;
  if (form.isItem) return describeItem(message, body);
  const entries = entriesOf(body);
  const calls = uniqueById(entries.flatMap(({ entry }) => readCall(entry) ?? []));
  const own = text(body["toolCallId"]) ?? text(body["tool_call_id"]);
  if (own !== undefined) {
    const isError = body["status"] === "error";
    return { text: "", calls, results: [{ callId: own, text: textOf(form, () => true), path: "", isError }] };
  }
  const results = entries.flatMap(({ entry, path }) => readResult(entry, path) ?? []);
  const isBeside = (entry: unknown): boolean => !isFields(entry) || (!readCall(entry) && !readResult(entry, ""));
  return { text: textOf(form, isBeside), calls, results };
}

/** An item of OpenAI's Responses API or Agents SDK is itself a call, a result, or text. */
function describeItem(message: unknown, item: Fields): ToolUse {
  const { type } = item;
  const described = describeMessage(message)?.text ?? "";
  const id = text(item["call_id"]) ?? text(item["callId"]) ?? text(item["id"]);
  if (typeof type !== "string" || id === undefined) return { ...NOTHING, text: described };
  if (/_(output|result)$/.test(type)) {
    return { ...NOTHING, results: [{ callId: id, text: described, path: "", isError: item["status"] === "failed" }] };
  }
  if (!type.endsWith("_call")) return { ...NOTHING, text: described };
  const args = item["arguments"] ?? item["input"] ?? item["action"];
  return { ...NOTHING, calls: [callOf(id, item["name"] ?? type.replace(/_call$/, ""), args)] };
}

/** The places in which a message can have calls and results. */
function entriesOf(body: Fields): { readonly entry: Fields; readonly path: string }[] {
  const more = isFields(body["additional_kwargs"]) ? body["additional_kwargs"] : {};
  const lists: [unknown, string][] = [
    [body["toolCalls"], "/toolCalls"],
    [body["tool_calls"], "/tool_calls"],
    [more["tool_calls"], "/additional_kwargs/tool_calls"],
    [body["content"], "/content"],
    [body["parts"], "/parts"],
  ];
  return lists.flatMap(([list, path]) =>
    Array.isArray(list)
      ? (list as unknown[]).flatMap((entry, index) => (isFields(entry) ? [{ entry, path: `${path}/${index}` }] : []))
      : [],
  );
}

const PART_CALLS: ReadonlySet<unknown> = new Set([
  "tool_use",
  "server_tool_use",
  "mcp_tool_use",
  "tool-call",
  "tool_call",
]);

function readCall(entry: Fields): ToolCall | undefined {
  const { type, id, name, toolCallId, toolName, functionCall } = entry;
  const inner = isFields(entry["function"]) ? entry["function"] : undefined;
  if (inner && typeof id === "string") return callOf(id, inner["name"], inner["arguments"]);
  if (isFields(functionCall)) {
    return callOf(
      text(functionCall["id"]) ?? text(functionCall["name"]) ?? "",
      functionCall["name"],
      functionCall["args"],
    );
  }
  if (isUiTool(type) && typeof toolCallId === "string") {
    const status = statusOfUi(entry["state"]);
    return { ...callOf(toolCallId, toolName ?? String(type).slice("tool-".length), entry["input"]), status };
  }
  const isPart = PART_CALLS.has(type);
  // Savepoint's own calls and those of LangChain have no type.
  if (!isPart && (type !== undefined || typeof name !== "string")) return undefined;
  const callId = text(toolCallId) ?? text(id);
  if (callId === undefined) return undefined;
  const call = callOf(callId, toolName ?? name, entry["input"] ?? entry["args"] ?? entry["arguments"]);
  return { ...call, ...(isStatus(entry["status"]) && { status: entry["status"] }) };
}

function readResult(entry: Fields, path: string): ToolResult | undefined {
  const { type, functionResponse } = entry;
  if (isFields(functionResponse)) {
    const callId = text(functionResponse["id"]) ?? text(functionResponse["name"]) ?? "";
    return { callId, text: textOfPart(entry), path, isError: false };
  }
  if (typeof type === "string" && /^tool[_-]result$|_tool_result$/.test(type)) {
    const callId = text(entry["tool_use_id"]) ?? text(entry["toolCallId"]);
    const output = entry["output"];
    const isError = entry["is_error"] === true || (isFields(output) && String(output["type"]).startsWith("error"));
    return callId === undefined ? undefined : { callId, text: textOfPart(entry), path, isError };
  }
  const { toolCallId } = entry;
  if (isUiTool(type) && typeof toolCallId === "string" && (entry["output"] ?? entry["errorText"]) !== undefined) {
    const isError = entry["errorText"] !== undefined;
    const result = { type: "tool-result", toolCallId, output: entry["errorText"] ?? entry["output"] };
    return {
      callId: toolCallId,
      text: textOfPart(result),
      path: `${path}/${isError ? "errorText" : "output"}`,
      isError,
    };
  }
  // Savepoint's own calls can have their results.
  if (type === undefined && typeof entry["id"] === "string" && entry["result"] !== undefined) {
    const result = { type: "tool-result", toolCallId: entry["id"], output: entry["result"] };
    return {
      callId: entry["id"],
      text: textOfPart(result),
      path: `${path}/result`,
      isError: entry["status"] === "failed",
    };
  }
  return undefined;
}

function textOfPart(part: Fields): string {
  return describeMessage({ role: "tool", content: [part] })?.text ?? "";
}

/** The text of a message with only some of its parts, and without lists of calls. */
function textOf({ role, body }: MessageForm, isKept: (part: unknown) => boolean): string {
  const kept = (list: unknown): unknown => (Array.isArray(list) ? (list as unknown[]).filter(isKept) : list);
  const fields = Object.fromEntries(TEXT_FIELDS.flatMap((key) => (body[key] === undefined ? [] : [[key, body[key]]])));
  const more = isFields(body["additional_kwargs"])
    ? { reasoning_content: body["additional_kwargs"]["reasoning_content"] }
    : {};
  const content = kept(body["content"] ?? body["content_blocks"]) ?? "";
  return describeMessage({ role, ...fields, ...more, content, parts: kept(body["parts"]) })?.text ?? "";
}

const TEXT_FIELDS = ["reasoning_content", "reasoning", "refusal", "audio", "attachments", "experimental_attachments"];

function isUiTool(type: unknown): boolean {
  return typeof type === "string" && (type.startsWith("tool-") || type === "dynamic-tool") && !PART_TYPES.has(type);
}

const PART_TYPES: ReadonlySet<string> = new Set(["tool-call", "tool-result", "tool-invocation"]);

function statusOfUi(state: unknown): ToolCallStatus {
  if (state === "output-available") return "completed";
  return state === "output-error" || state === "output-denied" ? "failed" : "pending";
}

const STATUSES: readonly unknown[] = ["pending", "running", "completed", "failed"] satisfies ToolCallStatus[];

function isStatus(value: unknown): value is ToolCallStatus {
  return STATUSES.includes(value);
}

/** LangChain and OpenAI's models repeat calls in two fields. */
function uniqueById(calls: readonly ToolCall[]): ToolCall[] {
  return [...new Map(calls.map((call) => [call.id, call])).values()];
}

function callOf(id: string, name: unknown, args: unknown): ToolCall {
  return { id, name: text(name) ?? "tool", ...(args !== undefined && { arguments: parseArguments(args) }) };
}

/** Models write arguments as JSON. */
function parseArguments(args: unknown): unknown {
  if (typeof args !== "string" || !/^\s*[[{]/.test(args)) return args;
  try {
    return JSON.parse(args) as unknown;
  } catch {
    return args;
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
