/** A model's reply as the message that the SDK makes of it. */
import { Buffer } from "node:buffer";
import { isObject, type ModelMessage, type SdkPart } from "./sdk.js";

/** The assistant's message; `undefined` where the reply says nothing that is said again. */
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
        part["isError"] === true ? { type: "error-json", value: part["result"] } : toOutput(part["result"]);
      return { type, toolCallId, toolName, output, ...options };
    }
    case "tool-approval-request":
      return { type, approvalId: part["approvalId"], toolCallId };
    default:
      // Sources, and what later versions bring, are for whoever reads the reply: no provider wants them back.
      return undefined;
  }
}

/** What a tool has returned, as a model is told. */
export function toOutput(result: unknown): { type: string; value: unknown } {
  return typeof result === "string" ? { type: "text", value: result } : { type: "json", value: result ?? null };
}

/** What a model gives a tool is a text; one that is no JSON calls nothing. */
function parseInput(input: unknown): unknown {
  if (typeof input !== "string") return input;
  if (input.trim() === "") return {};
  try {
    return JSON.parse(input) as unknown;
  } catch {
    // The SDK tells the model that its call is invalid.
    return {};
  }
}

function toBase64(data: unknown): unknown {
  if (data instanceof Uint8Array) return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  // The fourth specification says of each file what it is.
  if (isObject(data) && data["type"] === "data") return toBase64(data["data"]);
  return data;
}
