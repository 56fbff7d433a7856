/**
 * Role, text, id and timestamp of a message in the form of any known SDK.
 *
 * Conversations and states keep messages in the form of their SDK. Search and display need what all forms have in
 * common. These fields are derived on demand, which costs next to nothing for the common form `{ role, content: "…" }`.
 */
import { types } from "node:util";
import { type Fields, isFields, named } from "./fields.js";
import type { Role } from "./message.js";
import { addCall, addFile, isResultPart, isTextPart, Lines } from "./message-parts.js";

/** What the messages of all SDKs have in common. */
export interface MessageDescription {
  readonly role: Role;
  /**
   * The text of all parts, one per line, for display and search. A tool call is `name(arguments as JSON)`, the result of a
   * tool is its text or JSON, and a file is its name or its URL.
   */
  readonly text: string;
  /** The id of the message, if it has one. */
  readonly id: string | undefined;
  /** The creation time in milliseconds since 1970, if the message has one. */
  readonly timestamp: number | undefined;
}

/** A message in a state. */
export interface StateMessage {
  /** The index in its array. */
  readonly index: number;
  /** The JSON pointer to the message. */
  readonly path: string;
  readonly message: unknown;
}

/**
 * Describes a message in the form of Savepoint, OpenAI (chat completions, responses, agents), Anthropic, the Claude Agent SDK, the
 * AI SDK, LangChain or Google.
 *
 * @returns `undefined` for a value that is not a message. Never throws, unless a getter or proxy in the value throws
 * @example
 * describeMessage({ role: "user", content: "Hello" })?.text; // "Hello"
 */
export function describeMessage(value: unknown): MessageDescription | undefined {
  const form = parseMessage(value);
  if (form === undefined) return undefined;
  const { role, body } = form;
  return {
    role,
    text: form.isItem ? textOfItem(body) : textOfBody(body),
    id: idOf(form.id ?? body["id"]),
    timestamp: timestampOf(body) ?? (body === value ? undefined : timestampOf(value as Fields)),
  };
}

/**
 * Finds the messages of a state: in the first of {@link MESSAGE_KEYS} that has any, as an array or as `{ messages: [...] }`, or
 * in the state itself if it is an array. Other elements are omitted.
 */
export function findMessages(state: unknown): StateMessage[] {
  if (!isFields(state)) return [];
  if (Array.isArray(state)) return messagesIn(state, "");
  for (const key of MESSAGE_KEYS) {
    const held = state[key];
    const nested = isFields(held) && !Array.isArray(held);
    const found = messagesIn(nested ? held["messages"] : held, nested ? `/${key}/messages` : `/${key}`);
    if (found.length > 0) return found;
  }
  return [];
}

/** Finds the messages of subagents: in the lists of `subagents` of a state, such as the transcripts of the Claude Agent SDK. */
export function findSubagentMessages(state: unknown): StateMessage[] {
  const subagents = isFields(state) && !Array.isArray(state) ? state["subagents"] : undefined;
  if (!isFields(subagents) || Array.isArray(subagents)) return [];
  return Object.entries(subagents).flatMap(([name, messages]) =>
    messagesIn(messages, `/subagents/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`),
  );
}

const MESSAGE_KEYS = ["messages", "history", "chat_history", "chatHistory", "conversation", "channel_values"];

function messagesIn(list: unknown, path: string): StateMessage[] {
  const found: StateMessage[] = [];
  if (!Array.isArray(list)) return found;
  for (const [index, message] of (list as unknown[]).entries()) {
    if (parseMessage(message) !== undefined) found.push({ index, path: `${path}/${index}`, message });
  }
  return found;
}

/** A recognised message. */
export interface MessageForm {
  readonly role: Role;
  /** The object that has the content. */
  readonly body: Fields;
  /** Whether the message is an item of the Responses API, which has no content and is itself a part. */
  readonly isItem: boolean;
  /** The id of the message, if it is not in the body. */
  readonly id?: unknown;
}

function idOf(id: unknown): string | undefined {
  return typeof id === "string" && id !== "" ? id : undefined;
}

/** Recognises a message; `undefined` for any other value. */
export function parseMessage(value: unknown): MessageForm | undefined {
  if (!isFields(value)) return undefined;
  const role = roleOf(value["role"]);
  return role === undefined ? (langChainForm(value) ?? itemForm(value) ?? entryForm(value)) : bodyForm(role, value);
}

/** Roles by their lower-case names in all SDKs, including the types of LangChain. */
const ROLES: ReadonlyMap<unknown, Role> = new Map([
  ...named<Role>("user", "user human"),
  ...named<Role>("assistant", "assistant ai model"),
  ...named<Role>("tool", "tool function toolresult tool_result"),
  ...named<Role>("system", "system developer"),
]);

function roleOf(name: unknown): Role | undefined {
  const role = ROLES.get(name);
  if (role !== undefined || typeof name !== "string" || name.length > 20) return role;
  return ROLES.get(name.toLowerCase());
}

function bodyForm(role: Role, body: Fields): MessageForm | undefined {
  if (!hasContent(body)) return undefined;
  return { role: role === "user" && hasOnlyResults(body) ? "tool" : role, body, isItem: false };
}

function hasContent(body: Fields): boolean {
  const content = contentOf(body);
  if (typeof content === "string" || Array.isArray(content) || Array.isArray(body["parts"])) return true;
  if (isFields(content)) return typeof content["type"] === "string" || typeof content["text"] === "string";
  return callsOf(body).length > 0 || typeof body["refusal"] === "string" || isFields(body["audio"]);
}

function contentOf(body: Fields): unknown {
  return body["content"] ?? body["content_blocks"];
}

/** With Anthropic and Google, the user sends the results of tools. */
function hasOnlyResults(body: Fields): boolean {
  const parts = body["content"] ?? body["parts"];
  return Array.isArray(parts) && parts.length > 0 && parts.every(isResultPart);
}

/** The types of LangChain messages that have their role in a field. */
const OWN_ROLE: ReadonlySet<unknown> = new Set(["generic", "chat"]);

function langChainForm(value: Fields): MessageForm | undefined {
  const { type, body } = langChainParts(value);
  if (typeof type !== "string" || !isFields(body)) return undefined;
  // An unknown role, such as that of another agent, addresses the model like a user.
  const role = OWN_ROLE.has(type) ? (roleOf(body["role"]) ?? "user") : roleOf(type);
  return role === undefined ? undefined : bodyForm(role, body);
}

/** Recognises the serialised form, the stored form, an instance, and the flat form of the LangGraph server. */
function langChainParts(value: Fields): { readonly type: unknown; readonly body: unknown } {
  const { type, data, kwargs, id } = value;
  if (type === "constructor" && Array.isArray(id)) return { type: typeOfClass(id.at(-1)), body: kwargs };
  if (typeof type === "string" && isFields(data)) return { type, body: data };
  return { type: typeOfInstance(value) ?? type, body: value };
}

function typeOfClass(name: unknown): string | undefined {
  return typeof name === "string" ? /^(\w{1,20})Message(?:Chunk)?$/.exec(name)?.[1]?.toLowerCase() : undefined;
}

function typeOfInstance(value: Fields): unknown {
  const getType = value["getType"] ?? value["_getType"];
  if (typeof getType !== "function") return undefined;
  try {
    return getType.call(value) as unknown;
  } catch {
    // Another kind of object with a method of this name.
    return undefined;
  }
}

const ITEM_ROLES: ReadonlyMap<unknown, Role> = new Map([
  ...named<Role>("assistant", "reasoning function_call custom_tool_call mcp_call hosted_tool_call web_search_call"),
  ...named<Role>("assistant", "file_search_call code_interpreter_call computer_call local_shell_call shell_call"),
  ...named<Role>("assistant", "apply_patch_call tool_search_call"),
  ...named<Role>("tool", "function_call_output function_call_result custom_tool_call_output computer_call_output"),
  ...named<Role>("tool", "local_shell_call_output shell_call_output apply_patch_call_output"),
]);

function itemForm(value: Fields): MessageForm | undefined {
  const role = ITEM_ROLES.get(value["type"]);
  if (role === undefined) return undefined;
  const isReasoning = Array.isArray(value["summary"]) || Array.isArray(value["content"]);
  const isCall = [value["call_id"], value["callId"], value["id"]].some((id) => typeof id === "string");
  return isReasoning || isCall ? { role, body: value, isItem: true } : undefined;
}

/** A line of a transcript of the Claude Agent SDK: the message of the model's interface is one level down. */
function entryForm({ type, uuid, message }: Fields): MessageForm | undefined {
  const role = typeof type === "string" && isFields(message) ? roleOf(message["role"]) : undefined;
  const form = role && bodyForm(role, message as Fields);
  // The id of a reply is the same in each of its lines.
  return form && { ...form, id: uuid };
}

function textOfItem(item: Fields): string {
  const lines = new Lines();
  lines.addParts(item);
  return lines.toString();
}

function textOfBody(body: Fields): string {
  const { content } = body;
  if (typeof content === "string" && TEXT_FIELDS.every((key) => body[key] === undefined)) return content;
  const lines = new Lines();
  const more = isFields(body["additional_kwargs"]) ? body["additional_kwargs"] : body;
  const parts = partsOf(body);
  lines.add(body["reasoning_content"] ?? body["reasoning"] ?? more["reasoning_content"]);
  for (const part of parts) lines.addParts(part);
  lines.add(body["refusal"] ?? more["refusal"]);
  if (isFields(body["audio"])) lines.add(body["audio"]["transcript"]);
  if (!parts.some(hasCalls)) for (const call of callsOf(body)) addCall(lines, call);
  for (const file of filesOf(body)) addFile(lines, file);
  return lines.toString();
}

const CALL_FIELDS = ["toolCalls", "tool_calls", "function_call", "additional_kwargs"];
const FILE_FIELDS = ["attachments", "experimental_attachments", "audio"];
/** All fields that have text outside the content. */
const TEXT_FIELDS = ["parts", "reasoning_content", "reasoning", "refusal", ...CALL_FIELDS, ...FILE_FIELDS];

/** `content` and `parts`. If the parts have text, a content that is a string repeats it. */
function partsOf(body: Fields): unknown[] {
  const content = contentOf(body);
  const { parts } = body;
  if (!Array.isArray(parts)) return [content];
  return typeof content === "string" && parts.some(isTextPart) ? [parts] : [content, parts];
}

/** LangChain repeats the tool calls of the content in a separate field. */
function hasCalls(parts: unknown): boolean {
  return Array.isArray(parts) && parts.some(isCallPart);
}

const CALL_TYPES: ReadonlySet<unknown> = new Set(["tool_use", "tool_call", "tool-call", "toolCall", "functionCall"]);

function isCallPart(part: unknown): boolean {
  return isFields(part) && (CALL_TYPES.has(part["type"]) || isFields(part["functionCall"]));
}

/** The tool calls, from the first field that has any. */
function callsOf(body: Fields): readonly unknown[] {
  const more = isFields(body["additional_kwargs"]) ? body["additional_kwargs"] : body;
  for (const calls of [body["toolCalls"], body["tool_calls"], more["tool_calls"]]) {
    if (Array.isArray(calls) && calls.length > 0) return calls;
  }
  const single = body["function_call"] ?? more["function_call"];
  return isFields(single) ? [single] : [];
}

function filesOf(body: Fields): readonly unknown[] {
  const files = body["attachments"] ?? body["experimental_attachments"];
  return Array.isArray(files) ? files : [];
}

/** The latest time that a Date can represent. */
const MAX_TIME = 8.64e15;
/** Smaller numbers are seconds. As milliseconds they would be before March 1973. */
const SECONDS_BELOW = 1e11;

function timestampOf(fields: Fields): number | undefined {
  const { metadata } = fields;
  // The AI SDK has no field for the time and recommends the metadata.
  return parseTime(timeFieldOf(fields) ?? (isFields(metadata) ? timeFieldOf(metadata) : undefined));
}

function timeFieldOf(fields: Fields): unknown {
  return fields["timestamp"] ?? fields["createdAt"] ?? fields["created_at"] ?? fields["date"];
}

function parseTime(time: unknown): number | undefined {
  if (time === undefined) return undefined;
  if (typeof time === "number") return inRange(Math.abs(time) < SECONDS_BELOW ? time * 1000 : time);
  if (typeof time === "string") return /^\d{4}-\d\d-\d\d/.test(time) ? inRange(Date.parse(time)) : undefined;
  return types.isDate(time) ? inRange(time.getTime()) : undefined;
}

/** `undefined` for a number that is not a time, such as `NaN`. */
function inRange(time: number): number | undefined {
  return Math.abs(time) <= MAX_TIME ? Math.round(time) : undefined;
}
