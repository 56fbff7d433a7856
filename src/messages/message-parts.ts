/**
 * The text of the parts of a message: text, reasoning, tool calls, tool results and files, in the forms of all known SDKs.
 *
 * Parts are distinguished by their `type`, those of Google by their only field. Nothing here throws, and the text contains no
 * binary data: of a file only its name and its URL. Arguments and results of tools are shown as JSON of bounded length. The
 * depth and the number of parts are bounded, so that cycles terminate.
 */
import { briefJson, MAX_JSON, truncate, withoutData } from "./brief-json.js";
import { type Fields, isFields, isWebAddress, named } from "./fields.js";

/** Collects the lines of the text of one message. */
export class Lines {
  readonly #lines: string[] = [];
  // Bounds for objects that contain themselves many times. No message of an SDK reaches them.
  #partsLeft = 10_000;
  #jsonLeft = 1_000_000;

  /** Adds a string. Anything else, and an empty string, is ignored. */
  add(text: unknown): void {
    if (typeof text === "string" && text !== "") this.#lines.push(text);
  }

  /** Adds the text of a string, a part, or an array of both. */
  addParts(content: unknown, depth = 0): void {
    if (typeof content === "string") return this.add(content);
    if (!isFields(content) || depth > MAX_DEPTH || this.#partsLeft-- <= 0) return;
    if (!Array.isArray(content)) return addPart(this, content, depth);
    for (const part of content as unknown[]) {
      if (this.#partsLeft <= 0) return;
      this.addParts(part, depth + 1);
    }
  }

  /** {@link briefJson}, with a bound for all values of the message together. */
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

/** Adds a tool call and its outcome, if it has one. The name and the arguments may be one level down. */
export function addCall(lines: Lines, call: unknown, depth = 0): void {
  if (!isFields(call)) return;
  const inner = [call["function"], call["custom"], call["functionCall"]].find(isFields) ?? call;
  lines.add(`${nameOfCall(call, inner)}(${argumentsOfCall(lines, inner)})`);
  addValue(lines, call["output"], depth);
  lines.add(call["errorText"]);
}

/** Adds the name and the URL of a file, never its content. A string is a name if it looks like one. */
export function addFile(lines: Lines, file: unknown): void {
  if (typeof file === "string") return lines.add(isWebAddress(file) || FILE_NAME.test(file) ? file : undefined);
  if (!isFields(file)) return;
  addNameAndAddress(lines, file);
  for (const key of FILE_KEYS) {
    const inner = file[key];
    if (isFields(inner) && !(inner instanceof URL)) addNameAndAddress(lines, inner);
  }
}

/** Whether a part has text, other than reasoning. */
export function isTextPart(part: unknown): boolean {
  return isFields(part) && typeof part["text"] === "string" && part["type"] !== "reasoning";
}

/** Whether a part is the result of a tool. In some SDKs, the user sends the results. */
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

/** Adds the result of a tool in parts that the SDK defines. */
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

/** The form of the AI SDK up to version 4. */
const addInvocation: AddPart = (lines, part, depth) => {
  const invocation = part["toolInvocation"];
  addCall(lines, invocation, depth);
  if (isFields(invocation)) addValue(lines, invocation["result"], depth);
};

/** Adds a text or a file. Handles formats of unknown SDKs too. */
const addTextOrFile: AddPart = (lines, part, depth) => {
  const { text } = part;
  if (text === undefined) addFile(lines, part);
  else lines.add(isFields(text) ? text["value"] : text);
  if (part["type"] === "search_result") lines.addParts(part["content"], depth + 1);
};

/** Adds a part without a type, which is identified by its field. */
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
  ...named<AddPart>((lines, part) => lines.add(part["refusal"]), "refusal"),
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

function addPart(lines: Lines, part: Fields, depth: number): void {
  const { type } = part;
  if (typeof type !== "string") return addUntyped(lines, part, depth);
  const add = PARTS.get(type);
  if (add) return add(lines, part, depth);
  // In the AI SDK, the type of a tool call is `tool-` and the name of the tool, and custom parts have the type `data-…`.
  if (type.startsWith("tool-")) return typeof part["state"] === "string" ? addCall(lines, part, depth) : undefined;
  if (!type.startsWith("data-")) addTextOrFile(lines, part, depth);
}

function isKnownPart(value: unknown): boolean {
  return isFields(value) && typeof value["type"] === "string" && PARTS.has(value["type"]);
}

/** Adds the result of a tool: a string as it is, the parts of an MCP server as parts, anything else as JSON. */
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
  return typeof value === "string" ? truncate(compact(withoutData(value))) : lines.json(value);
}

const SPACE_OUTSIDE_STRINGS = /("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g;

/** Removes the whitespace from JSON that a model has written, so that a search finds it like that of other models. */
function compact(json: string): string {
  const isJson = json.length <= MAX_JSON && /^\s*[[{]/.test(json);
  return isJson ? json.replace(SPACE_OUTSIDE_STRINGS, (_, text: string | undefined) => text ?? "") : json;
}

const FILE_NAME = /^(?!data:)[^\n]{0,250}\.[^\n]{1,10}$/;
/** The fields in which SDKs describe a file. */
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
