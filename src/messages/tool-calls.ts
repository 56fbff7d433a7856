/**
 * Tool calls without a result, in the message formats of all known SDKs, and giving them a result or removing them. Models reject
 * a history in which a call has no result: a crash between a call and its result would otherwise make it unusable.
 */
import { type Fields, isFields } from "./fields.js";
import type { ToolCall } from "./message.js";

/** What to do with tool calls that have no result: remove all of them, or give some of them a result, by the id of the call. */
export type ToolCallResolution = "drop" | Readonly<Record<string, unknown>>;

/** A call in a message. */
interface FoundCall {
  readonly call: ToolCall;
  readonly format: Format;
}

/** How an SDK stores tool calls and their results. */
interface Format {
  /** The field of a message with its list of calls; `undefined` if the message itself is the call. */
  readonly list: string | undefined;
  /** Returns the call in an entry of that list; `undefined` if it is something else, or has its result. */
  read(entry: Fields): ToolCall | undefined;
  /** Returns the id of the call whose result an entry is. */
  resultOf(entry: Fields): unknown;
  /** Builds the message with the results of calls of one message; or, with `inPlace`, the entry with its result. */
  answer(
    answers: readonly { readonly call: ToolCall; readonly result: unknown }[],
    entries: readonly Fields[],
  ): Fields[];
  readonly inPlace?: true;
}

const callOf = (id: unknown, name: unknown, args: unknown): ToolCall | undefined =>
  typeof id === "string"
    ? { id, name: typeof name === "string" ? name : "tool", ...(args !== undefined && { arguments: args }) }
    : undefined;

const toText = (result: unknown): string => (typeof result === "string" ? result : (JSON.stringify(result) ?? ""));

/** The output of a tool in the AI SDK. */
const toOutput = (result: unknown): Fields =>
  typeof result === "string" ? { type: "text", value: result } : { type: "json", value: result ?? null };

const FORMATS: readonly Format[] = [
  // Savepoint's own messages.
  {
    list: "toolCalls",
    read: (call) =>
      call["status"] === "completed" || call["status"] === "failed" || typeof call["id"] !== "string"
        ? undefined
        : (call as unknown as ToolCall),
    resultOf: ({ toolCallId }) => toolCallId,
    answer: (answers) =>
      answers.map(({ call, result }) => ({ role: "tool", toolCallId: call.id, content: toText(result) })),
  },
  // Chat completions of OpenAI, and plain messages of LangChain.
  {
    list: "tool_calls",
    read: ({ id, name, args, function: inner }) =>
      isFields(inner) ? callOf(id, inner["name"], inner["arguments"]) : callOf(id, name, args),
    resultOf: (entry) => entry["tool_call_id"],
    answer: (answers) =>
      answers.map(({ call, result }) => ({ role: "tool", tool_call_id: call.id, content: toText(result) })),
  },
  // Anthropic: the user sends the results.
  {
    list: "content",
    read: ({ type, id, name, input }) => (type === "tool_use" ? callOf(id, name, input) : undefined),
    resultOf: ({ type, tool_use_id: id }) => (type === "tool_result" ? id : undefined),
    answer: (answers) => [
      {
        role: "user",
        content: answers.map(({ call, result }) => ({
          type: "tool_result",
          tool_use_id: call.id,
          content: toText(result),
        })),
      },
    ],
  },
  // Model messages of the AI SDK.
  {
    list: "content",
    read: ({ type, toolCallId, toolName, input, args }) =>
      type === "tool-call" ? callOf(toolCallId, toolName, input ?? args) : undefined,
    resultOf: ({ type, toolCallId }) => (type === "tool-result" ? toolCallId : undefined),
    answer: (answers) => [
      {
        role: "tool",
        content: answers.map(({ call, result }) => ({
          type: "tool-result",
          toolCallId: call.id,
          toolName: call.name,
          output: toOutput(result),
        })),
      },
    ],
  },
  // UI messages of the AI SDK: the call and its result are one part.
  {
    list: "parts",
    inPlace: true,
    read: ({ type, toolCallId, toolName, state, input }) => {
      const isCall = typeof type === "string" && (type.startsWith("tool-") || type === "dynamic-tool");
      const isPending = state === "input-available" || state === "input-streaming";
      return isCall && isPending
        ? callOf(toolCallId, toolName ?? String(type).slice("tool-".length), input)
        : undefined;
    },
    resultOf: () => undefined,
    answer: (answers, entries) =>
      answers.map(({ result }, index) => ({
        ...(entries[index] as Fields),
        state: "output-available",
        output: result ?? null,
      })),
  },
  // Items of OpenAI's Responses API.
  {
    list: undefined,
    read: ({ type, call_id: id, name, arguments: args }) =>
      type === "function_call" ? callOf(id, name, args) : undefined,
    resultOf: ({ type, call_id: id }) => (type === "function_call_output" ? id : undefined),
    answer: (answers) =>
      answers.map(({ call, result }) => ({ type: "function_call_output", call_id: call.id, output: toText(result) })),
  },
  // Items of the OpenAI Agents SDK.
  {
    list: undefined,
    read: ({ type, callId, name, arguments: args }) =>
      type === "function_call" ? callOf(callId, name, args) : undefined,
    resultOf: ({ type, callId }) => (type === "function_call_result" ? callId : undefined),
    answer: (answers) =>
      answers.map(({ call, result }) => ({
        type: "function_call_result",
        callId: call.id,
        name: call.name,
        status: "completed",
        output: { type: "text", text: toText(result) },
      })),
  },
];

/**
 * Finds the tool calls in the `messages` of a state that have no result. Models reject a history with unanswered tool calls.
 *
 * @param state any value; a value without an array `messages` (of a LangGraph thread: in `channel_values`) has no tool calls
 */
export function pendingToolCalls(state: unknown): ToolCall[] {
  const inner = isFields(state) && isFields(state["channel_values"]) ? state["channel_values"] : state;
  const messages = isFields(inner) ? inner["messages"] : undefined;
  return Array.isArray(messages) ? [...findPending(messages as unknown[]).values()].map(({ call }) => call) : [];
}

/**
 * Gives tool calls without a result their result, or removes them. Results follow the message of their call. A message that
 * has no content without its calls is removed too. Returns a new list; messages that do not change are shared.
 */
export function resolveToolCalls(messages: readonly unknown[], resolution: ToolCallResolution): unknown[] {
  const pending = findPending(messages);
  const isChosen = (id: string): boolean => pending.has(id) && (resolution === "drop" || Object.hasOwn(resolution, id));
  const resolved: unknown[] = [];
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    const calls = callsOf(message).filter(({ call }) => isChosen(call.id));
    const [first] = calls;
    if (!first || !isFields(message)) {
      resolved.push(message);
      continue;
    }
    const ids = new Set(calls.map(({ call }) => call.id));
    if (resolution === "drop") {
      const rest = withoutCalls(message, first.format, ids);
      if (rest) resolved.push(rest);
      continue;
    }
    const answers = calls.map(({ call }) => ({ call, result: resolution[call.id] }));
    if (first.format.inPlace) {
      resolved.push(answerInPlace(message, first.format, answers));
      continue;
    }
    resolved.push(message);
    // Results of the other calls of this message, or calls beside it, come first.
    while (isBesideCall(messages[index + 1], first.format)) resolved.push(messages[++index]);
    resolved.push(...first.format.answer(answers, []));
  }
  return resolved;
}

function findPending(messages: readonly unknown[]): Map<string, FoundCall> {
  const pending = new Map<string, FoundCall>();
  for (const message of messages) {
    if (!mayHaveCalls(message)) continue;
    for (const id of resultsOf(message)) pending.delete(id);
    for (const found of callsOf(message)) pending.set(found.call.id, found);
  }
  return pending;
}

/** Returns whether a message can have calls or results in any format. Most have neither, and every load checks all messages. */
function mayHaveCalls(message: unknown): boolean {
  const body = bodyOf(message);
  if (!body) return false;
  // Messages that are calls have a `type`.
  return (
    typeof body["content"] === "object" ||
    body["type"] !== undefined ||
    body["toolCalls"] !== undefined ||
    body["toolCallId"] !== undefined ||
    body["tool_calls"] !== undefined ||
    body["tool_call_id"] !== undefined ||
    body["parts"] !== undefined
  );
}

/** The entries of a message in which a format has its calls or results. */
function entriesOf(message: unknown, { list }: Format): Fields[] {
  const body = bodyOf(message);
  if (!body) return [];
  const entries = list === undefined ? [body] : body[list];
  return Array.isArray(entries) ? (entries as unknown[]).filter(isFields) : [];
}

/** The fields of a message. A message of LangChain that is stored has them one level down. */
function bodyOf(message: unknown): Fields | undefined {
  if (!isFields(message)) return undefined;
  return message["type"] === "constructor" && isFields(message["kwargs"]) ? message["kwargs"] : message;
}

function callsOf(message: unknown): FoundCall[] {
  for (const format of FORMATS) {
    const calls = entriesOf(message, format).flatMap((entry) => format.read(entry) ?? []);
    if (calls.length > 0) return calls.map((call) => ({ call, format }));
  }
  return [];
}

function resultsOf(message: unknown): string[] {
  const body = bodyOf(message);
  if (!body) return [];
  return FORMATS.flatMap((format) =>
    (format.list === "content" ? entriesOf(message, format) : [body]).map((entry) => format.resultOf(entry)),
  ).filter((id) => typeof id === "string");
}

/** Whether a message only has results, or is itself a call or a result beside another one. */
function isBesideCall(message: unknown, { list }: Format): boolean {
  if (resultsOf(message).length > 0) return true;
  return list === undefined && callsOf(message).length > 0;
}

function withoutCalls(message: Fields, format: Format, ids: ReadonlySet<string>): Fields | undefined {
  const { list } = format;
  if (list === undefined) return undefined;
  const entries = message[list] as unknown[];
  const isDropped = (entry: unknown): boolean => isFields(entry) && ids.has(format.read(entry)?.id ?? "");
  const rest = entries.filter((entry) => !isDropped(entry));
  const { [list]: _, ...others } = message;
  const isEmpty = rest.length === 0 && (list === "content" || list === "parts" || !message["content"]);
  if (isEmpty) return undefined;
  return rest.length === 0 && list !== "content" ? others : { ...message, [list]: rest };
}

function answerInPlace(
  message: Fields,
  format: Format,
  answers: readonly { readonly call: ToolCall; readonly result: unknown }[],
): Fields {
  const { list } = format;
  if (list === undefined) return message;
  const entries = message[list] as unknown[];
  const next = entries.map((entry) => {
    const id = isFields(entry) ? format.read(entry)?.id : undefined;
    const found = answers.find(({ call }) => call.id === id);
    return found ? format.answer([found], [entry as Fields])[0] : entry;
  });
  return { ...message, [list]: next };
}
