/** The conversation of a session as UI messages, in the form in which `useChat` shows them. */
import type { UIMessage } from "ai";
import type { Session } from "../../index.js";
import { partsOf } from "./messages.js";
import { type AiState, invalidArgument, isObject, type ModelMessage, type SdkPart } from "./sdk.js";
import { findContinuedReply, parseState } from "./transcript.js";

/** A part of a UI message. */
type UIPart = { type: string } & Record<string, unknown>;

/**
 * The messages of a session for `useChat({ messages })`. The reply of a turn in progress is not among them: `useChat` gets it
 * from `resumeUIMessageStreamResponse()`, from its beginning.
 *
 * The ids of replies are those that were streamed, the ids of the user's messages are the names of their turns. What is in no
 * message for a model is not stored: metadata, data parts and sources.
 *
 * @example
 * const messages = await uiMessages(sp.session(chatId));
 */
export async function uiMessages<Message extends UIMessage = UIMessage>(session: Session<AiState>): Promise<Message[]> {
  if (!isObject(session) || typeof session.latest !== "function") {
    throw invalidArgument("uiMessages() needs a session: uiMessages(sp.session(chatId)).");
  }
  const latest = await session.latest();
  if (!latest) return [];
  const state = parseState(session.id, latest.state);
  const isInProgress = latest.status === "running" && !state.turn.done;
  return toUIMessages(state, isInProgress) as unknown as Message[];
}

/**
 * The message that the reply of a turn continues, as it was when the turn started: the user has answered one of its tool calls.
 * `undefined` if the reply is a message of its own.
 */
export function continuedMessage({ messages, turn, ids }: AiState): UIMessage | undefined {
  if (findContinuedReply(messages, turn.from) === undefined) return undefined;
  // The answer is the input of the turn.
  const end = messages[turn.from]?.role === "tool" ? turn.from + 1 : turn.from;
  const before = { messages: messages.slice(0, end), turn, ...(ids && { ids }) };
  return toUIMessages(before, false).at(-1) as unknown as UIMessage;
}

interface MutableMessage {
  id: string;
  role: string;
  parts: UIPart[];
}

function toUIMessages({ messages, turn, ids = {} }: AiState, isInProgress: boolean): MutableMessage[] {
  const list: MutableMessage[] = [];
  for (const [index, message] of messages.entries()) {
    if (isInProgress && index >= turn.from && message.role === "assistant") break;
    const id = ids[index] ?? `message-${index}`;
    const last = list.at(-1);
    if (message.role === "tool") answer(last?.parts ?? [], message);
    else if (message.role === "assistant" && last?.role === "assistant") last.parts.push(...toParts(message));
    else list.push({ id, role: message.role, parts: toParts(message) });
  }
  return list;
}

/** The parts of a message. A reply begins with the mark of a step, as when it was streamed. */
function toParts({ role, content }: ModelMessage): UIPart[] {
  const isReply = role === "assistant";
  const start: UIPart[] = isReply ? [{ type: "step-start" }] : [];
  if (typeof content === "string")
    return [...start, { type: "text", text: content, ...(isReply && { state: "done" }) }];
  const parts: UIPart[] = start;
  for (const part of partsOf({ content })) {
    if (part.type === "tool-result") setResult(parts, part);
    else if (part.type === "tool-approval-request") setApproval(parts, part);
    else {
      const shown = toPart(part, isReply);
      if (shown) parts.push(shown);
    }
  }
  return parts;
}

function toPart(part: SdkPart, isReply: boolean): UIPart | undefined {
  const metadata = part["providerOptions"] === undefined ? {} : { providerMetadata: part["providerOptions"] };
  const done = isReply ? { state: "done" } : {};
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part["text"], ...metadata, ...done };
    case "image":
    case "file": {
      const fallback = part.type === "image" ? "image/*" : "application/octet-stream";
      const mediaType = typeof part["mediaType"] === "string" ? part["mediaType"] : fallback;
      const url = toUrl(part["data"] ?? part["image"], mediaType);
      if (url === undefined) return undefined;
      const name = part["filename"] === undefined ? {} : { filename: part["filename"] };
      return { type: "file", mediaType, url, ...name, ...metadata };
    }
    case "tool-call": {
      const executed = part["providerExecuted"] === true ? { providerExecuted: true } : {};
      const callMetadata =
        part["providerOptions"] === undefined ? {} : { callProviderMetadata: part["providerOptions"] };
      return {
        type: `tool-${String(part["toolName"])}`,
        toolCallId: part["toolCallId"],
        state: "input-available",
        input: part["input"],
        ...executed,
        ...callMetadata,
      };
    }
    default:
      return undefined;
  }
}

/** The data of a file as a URL; `undefined` for data that is neither a URL nor bytes. */
function toUrl(data: unknown, mediaType: string): string | undefined {
  if (data instanceof URL) return data.href;
  if (data instanceof Uint8Array) return `data:${mediaType};base64,${Buffer.from(data).toString("base64")}`;
  if (isObject(data) && data["type"] === "data") return toUrl(data["data"], mediaType);
  if (isObject(data) && data["type"] === "url") return toUrl(data["url"], mediaType);
  if (typeof data !== "string") return undefined;
  return /^(https?|data):/.test(data) ? data : `data:${mediaType};base64,${data}`;
}

/** Adds the answers of a tool message to the calls that precede it. */
function answer(parts: UIPart[], message: ModelMessage): void {
  for (const part of partsOf(message)) {
    if (part.type === "tool-result") setResult(parts, part);
    else if (part.type === "tool-approval-response") setResponse(parts, part);
  }
}

function setResult(parts: UIPart[], { toolCallId, output }: SdkPart): void {
  const call = findCall(parts, toolCallId);
  if (!call || !isObject(output)) return;
  const { type, value, reason } = output;
  if (type === "error-text" || type === "error-json") {
    const errorText = typeof value === "string" ? value : JSON.stringify(value);
    Object.assign(call, { state: "output-error", errorText });
  } else if (type === "execution-denied") {
    const approval = isObject(call["approval"]) ? call["approval"] : { id: String(toolCallId) };
    const why = typeof reason === "string" ? { reason } : {};
    Object.assign(call, { state: "output-denied", approval: { ...approval, approved: false, ...why } });
  } else Object.assign(call, { state: "output-available", output: value });
}

function setApproval(parts: UIPart[], { toolCallId, approvalId, signature, inputSchemaInput }: SdkPart): void {
  const call = findCall(parts, toolCallId);
  if (!call) return;
  const signed = signature === undefined ? {} : { signature };
  // The signature is made of this input, if the schema has changed it.
  const input = inputSchemaInput === undefined ? {} : { inputSchemaInput };
  Object.assign(call, { state: "approval-requested", approval: { id: approvalId, ...input, ...signed } });
}

function setResponse(parts: UIPart[], { approvalId, approved, reason }: SdkPart): void {
  const call = parts.find(({ approval }) => isObject(approval) && approval["id"] === approvalId);
  if (!call) return;
  const why = typeof reason === "string" ? { reason } : {};
  const approval = { ...(call["approval"] as object), approved, ...why };
  Object.assign(call, { state: "approval-responded", approval });
}

/** The last call with an id. Providers may use an id again in a later reply. */
function findCall(parts: readonly UIPart[], toolCallId: unknown): UIPart | undefined {
  return parts.filter((part) => part["toolCallId"] === toolCallId).at(-1);
}
