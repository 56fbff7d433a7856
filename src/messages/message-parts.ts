/**
 * The texts in the parts of a message: what was said, thought, called, answered and attached, in the words of any SDK.
 *
 * Parts are told apart by their `type`, those of Google by the one field that they have. Nothing here throws, and nothing
 * binary gets into a text: of a file only its name and its web address do. Values of tools are shown as JSON of bounded
 * length, and both the depth and the number of parts are bounded, so that cycles end.
 */
import { types } from "node:util";

/** Any object, of which nothing is known. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

/** Collects the lines of one message. */
export class Lines {
  readonly #lines: string[] = [];
  // Both end what refers to itself many times over, which no message of an SDK does.
  #partsLeft = 10_000;
  #jsonLeft = 1_000_000;

  /** Adds a text; anything else, and an empty text, is left out. */
  add(text: unknown): void {
    if (typeof text === "string" && text !== "") this.#lines.push(text);
  }

  /** Adds whatever the parts of a message say: a text, a part, or many of either. */
  addParts(content: unknown, depth = 0): void {
    if (typeof content === "string") return this.add(content);
    if (!isFields(content) || depth > MAX_DEPTH || this.#partsLeft-- <= 0) return;
    if (!Array.isArray(content)) return addPart(this, content, depth);
    for (const part of content as unknown[]) {
      if (this.#partsLeft <= 0) return;
      this.addParts(part, depth + 1);
    }
  }

  /** JSON of at most 10,000 characters, of any value at all. */
  json(value: unknown): string {
    if (this.#jsonLeft <= 0) return "…";
    const json = briefJson(value);
    this.#jsonLeft -= json.length;
    return json;
  }

  toString(): string {
    return this.#lines.length === 1 ? (this.#lines[0] as string) : this.#lines.join("\n");
  }
}

/** Adds a tool call, whose name and arguments may be one level down, and what it says of its outcome. */
export function addCall(lines: Lines, call: unknown, depth = 0): void {
  if (!isFields(call)) return;
  const inner = [call["function"], call["custom"], call["functionCall"]].find(isFields) ?? call;
  lines.add(`${nameOfCall(call, inner)}(${argumentsOfCall(lines, inner)})`);
  addValue(lines, call["output"], depth);
  lines.add(call["errorText"]);
}

/** Adds the name and the web address of a file, never what is in it. A text is a name if it looks like one. */
export function addFile(lines: Lines, file: unknown): void {
  if (typeof file === "string") return lines.add(isWebAddress(file) || FILE_NAME.test(file) ? file : undefined);
  if (!isFields(file)) return;
  addNameAndAddress(lines, file);
  for (const key of FILE_KEYS) {
    const inner = file[key];
    if (isFields(inner) && !(inner instanceof URL)) addNameAndAddress(lines, inner);
  }
}

/** Is it a part that says something in words? */
export function isTextPart(part: unknown): boolean {
  return isFields(part) && typeof part["text"] === "string" && part["type"] !== "reasoning";
}

/** Is it the answer of a tool? Some SDKs send those in the name of the user. */
export function isResultPart(part: unknown): boolean {
  if (!isFields(part)) return false;
  const { type } = part;
  return type === "tool_result" || type === "tool-result" || isFields(part["functionResponse"]);
}

const MAX_DEPTH = 8;

type AddPart = (lines: Lines, part: Fields, depth: number) => void;

const addNothing: AddPart = () => undefined;

const addReasoning: AddPart = (lines, part, depth) => {
  for (const key of ["thinking", "text", "reasoning"]) lines.add(part[key]);
  for (const key of ["summary", "content", "rawContent"]) lines.addParts(part[key], depth + 1);
};

/** What a tool answered, where an SDK says in which parts: unlike a value of the tool's own, texts in it are texts. */
const addResult: AddPart = (lines, part, depth) => {
  const content = part["content"] ?? part["output"] ?? part["result"];
  for (const entry of Array.isArray(content) ? (content as unknown[]) : [content]) {
    if (isKnownPart(entry)) lines.addParts(entry, depth + 1);
    else addValue(lines, unwrapped(entry), depth);
  }
};

/** The AI SDK wraps a result: `{ type: "json", value }`, or `{ type: "content", value: parts }`. */
const addWrapped: AddPart = (lines, part, depth) => {
  const output = part["output"];
  const isContent = isFields(output) && output["type"] === "content";
  if (isContent) addResult(lines, { content: output["value"] }, depth);
  else addValue(lines, unwrapped(output ?? part["result"]), depth);
};

/** Up to version 4 of the AI SDK. */
const addInvocation: AddPart = (lines, part, depth) => {
  const invocation = part["toolInvocation"];
  addCall(lines, invocation, depth);
  if (isFields(invocation)) addValue(lines, invocation["result"], depth);
};

/** Texts, and what an SDK that is not known here calls its texts and its files. */
const addTextOrFile: AddPart = (lines, part, depth) => {
  const { text } = part;
  if (text === undefined) addFile(lines, part);
  else lines.add(isFields(text) ? text["value"] : text);
  if (part["type"] === "search_result") lines.addParts(part["content"], depth + 1);
};

/** A part without a type: it is what it has. */
const addUntyped: AddPart = (lines, part, depth) => {
  const { functionCall, functionResponse, executableCode, codeExecutionResult } = part;
  if (isFields(functionCall)) return addCall(lines, functionCall, depth);
  if (isFields(functionResponse)) return addValue(lines, functionResponse["response"], depth);
  if (isFields(executableCode)) return lines.add(executableCode["code"]);
  if (isFields(codeExecutionResult)) return lines.add(codeExecutionResult["output"]);
  addTextOrFile(lines, part, depth);
};

const PARTS: ReadonlyMap<string, AddPart> = new Map([
  ...named(addTextOrFile, "text input_text output_text summary_text reasoning_text text-plain"),
  ...named(addTextOrFile, "image image_url input_image computer_screenshot file input_file document media audio"),
  ...named(addTextOrFile, "file-data file-url file-id image-data image-url image-file-id resource resource_link"),
  ...named(addTextOrFile, "web_search_result search_result"),
  ...named((lines, part) => lines.add(part["refusal"]), "refusal"),
  ...named(addReasoning, "reasoning thinking"),
  ...named(addNothing, "redacted_thinking step-start"),
  ...named(addCall, "tool_use server_tool_use mcp_tool_use tool-call tool_call toolCall server_tool_call dynamic-tool"),
  ...named(addCall, "function_call custom_tool_call mcp_call hosted_tool_call tool_search_call web_search_call"),
  ...named(
    addCall,
    "file_search_call code_interpreter_call computer_call local_shell_call shell_call apply_patch_call",
  ),
  ...named(addInvocation, "tool-invocation"),
  ...named(addWrapped, "tool-result"),
  ...named(
    addResult,
    "tool_result mcp_tool_result web_search_tool_result web_fetch_tool_result server_tool_call_result",
  ),
  ...named(addResult, "code_execution_tool_result bash_code_execution_tool_result function_call_result"),
  ...named(addResult, "text_editor_code_execution_tool_result function_call_output custom_tool_call_output"),
  ...named(addResult, "computer_call_output local_shell_call_output shell_call_output apply_patch_call_output"),
  ...named(addUntyped, "functionCall functionResponse executableCode codeExecutionResult"),
]);

function named(add: AddPart, typeNames: string): [string, AddPart][] {
  return typeNames.split(" ").map((type) => [type, add]);
}

function addPart(lines: Lines, part: Fields, depth: number): void {
  const { type } = part;
  if (typeof type !== "string") return addUntyped(lines, part, depth);
  const known = PARTS.get(type);
  if (known) return known(lines, part, depth);
  // The AI SDK calls the part of a tool `tool-` and its name, and the parts that an application invents `data-…`.
  if (type.startsWith("tool-")) return typeof part["state"] === "string" ? addCall(lines, part, depth) : undefined;
  if (!type.startsWith("data-")) addTextOrFile(lines, part, depth);
}

function isKnownPart(value: unknown): boolean {
  return isFields(value) && typeof value["type"] === "string" && PARTS.has(value["type"]);
}

/** Adds what a tool gave: a text as it is, the parts of an MCP server as parts, anything else as JSON. */
function addValue(lines: Lines, value: unknown, depth: number): void {
  if (value === undefined || value === null) return;
  if (typeof value === "string") return lines.add(withoutData(value));
  const content = isFields(value) ? value["content"] : undefined;
  const isFromMcp = Array.isArray(content) && content.length > 0 && content.every(isKnownPart);
  if (isFromMcp) return lines.addParts(content, depth + 1);
  lines.add(isKnownPart(value) && isTextPart(value) ? (value as Fields)["text"] : lines.json(value));
}

const WRAPPINGS: ReadonlySet<unknown> = new Set(["text", "json", "error-text", "error-json"]);

function unwrapped(output: unknown): unknown {
  if (!isFields(output)) return output;
  if (output["type"] === "execution-denied") return output["reason"];
  return WRAPPINGS.has(output["type"]) && "value" in output ? output["value"] : output;
}

function nameOfCall(call: Fields, inner: Fields): string {
  const name = inner["toolName"] ?? inner["name"];
  if (typeof name === "string" && name !== "") return name;
  const { type } = call;
  if (typeof type !== "string") return "tool";
  return type.startsWith("tool-") ? type.slice("tool-".length) : type.replace(/_call$/, "");
}

const ARGUMENT_KEYS = ["input", "args", "arguments", "action", "operation", "queries", "code", "rawInput"];

function argumentsOfCall(lines: Lines, call: Fields): string {
  const key = ARGUMENT_KEYS.find((name) => call[name] !== undefined && call[name] !== null);
  const value = key === undefined ? undefined : call[key];
  if (value === undefined) return "";
  return typeof value === "string" ? cut(compact(withoutData(value))) : lines.json(value);
}

const SPACE_OUTSIDE_TEXTS = /("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g;

/** JSON as a model wrote it, without spaces: it is found by the same words as that of other models. */
function compact(json: string): string {
  const isJson = json.length <= MAX_JSON && /^\s*[[{]/.test(json);
  return isJson ? json.replace(SPACE_OUTSIDE_TEXTS, (_, text: string | undefined) => text ?? "") : json;
}

const FILE_NAME = /^(?!data:)[^\n]{0,250}\.[^\n]{1,10}$/;
/** Where SDKs put what they say of a file. */
const FILE_KEYS = ["file", "source", "image_url", "image", "inlineData", "fileData", "resource", "data"];
const NAME_KEYS = ["filename", "fileName", "file_name", "name", "title", "displayName", "display_name"];
const ADDRESS_KEYS = ["url", "uri", "fileUri", "file_url", "image_url", "source", "image", "file", "data"];

function addNameAndAddress(lines: Lines, file: Fields): void {
  lines.add(NAME_KEYS.map((key) => file[key]).find((name) => typeof name === "string" && !name.startsWith("data:")));
  for (const key of ADDRESS_KEYS) {
    const address = file[key] instanceof URL ? file[key].href : file[key];
    if (isWebAddress(address)) lines.add(address);
  }
}

function isWebAddress(value: unknown): value is string {
  return typeof value === "string" && /^https?:\/\//i.test(value);
}

const MAX_JSON = 10_000;
const MAX_JSON_DEPTH = 32;

function briefJson(value: unknown): string {
  const writer = { text: "", inside: [] };
  writeJson(writer, value);
  return cut(writer.text);
}

interface Writer {
  text: string;
  /** The objects around what is being written. */
  readonly inside: object[];
}

function writeJson(writer: Writer, value: unknown): void {
  if (typeof value === "string") writer.text += JSON.stringify(withoutData(value.slice(0, MAX_JSON)));
  else if (typeof value === "number") writer.text += Number.isFinite(value) ? value : "null";
  else if (typeof value === "bigint" || typeof value === "boolean") writer.text += value;
  else if (isFields(value)) writeObject(writer, value);
  else writer.text += "null";
}

function writeObject(writer: Writer, value: Fields): void {
  const replaced = replacement(value);
  if (replaced !== undefined) return writeJson(writer, replaced);
  if (writer.inside.includes(value)) return writeJson(writer, "[circular]");
  if (writer.inside.length >= MAX_JSON_DEPTH) return writeJson(writer, "…");
  writer.inside.push(value);
  if (Array.isArray(value) || types.isSet(value)) writeList(writer, value as Iterable<unknown>);
  else writeEntries(writer, types.isMap(value) ? value : Object.keys(value).map((key) => [key, fieldOf(value, key)]));
  writer.inside.pop();
}

function writeList(writer: Writer, list: Iterable<unknown>): void {
  let before = "[";
  for (const value of list) {
    if (writer.text.length > MAX_JSON) return;
    writer.text += before;
    writeJson(writer, value);
    before = ",";
  }
  writer.text += before === "[" ? "[]" : "]";
}

function writeEntries(writer: Writer, entries: Iterable<readonly unknown[]>): void {
  let before = "{";
  for (const [key, value] of entries) {
    if (writer.text.length > MAX_JSON) return;
    if (value === undefined || typeof value === "function" || typeof value === "symbol") continue;
    writer.text += `${before}${JSON.stringify(keyText(key))}:`;
    writeJson(writer, value);
    before = ",";
  }
  writer.text += before === "{" ? "{}" : "}";
}

/** Of a Map, whose keys may be anything. */
function keyText(key: unknown): string {
  if (typeof key === "string") return key;
  return typeof key === "number" || typeof key === "bigint" || typeof key === "boolean" ? `${key}` : `[${typeof key}]`;
}

/** What to write for an object that does not say by its fields what it is; `undefined` for one that does. */
function replacement(value: Fields): unknown {
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof URL) return value.href;
  if (value instanceof Error) return typeof value.message === "string" ? value.message : "[error]";
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Blob) return `[${value.size} bytes]`;
  // How JSON shows a Buffer.
  if (value["type"] === "Buffer" && Array.isArray(value["data"])) return `[${value["data"].length} bytes]`;
  return undefined;
}

/** The field of an object, without the content of a file: that is a text beside a media type. */
function fieldOf(owner: Fields, key: string): unknown {
  const value = owner[key];
  if ((key !== "data" && key !== "blob") || typeof value !== "string" || isWebAddress(value)) return value;
  const mediaType = owner["mimeType"] ?? owner["mediaType"] ?? owner["media_type"] ?? owner["mime_type"];
  return typeof mediaType === "string" && !mediaType.startsWith("text/") ? `[${mediaType}]` : value;
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)[;,]/;

/** The text, or, of a data URL, only what it is. */
function withoutData(text: string): string {
  const mediaType = text.startsWith("data:") ? DATA_URL.exec(text)?.[1] : undefined;
  return mediaType === undefined ? text : `[${mediaType}]`;
}

/** Not in the middle of a character. */
function cut(json: string): string {
  return json.length <= MAX_JSON ? json : `${json.slice(0, MAX_JSON - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
