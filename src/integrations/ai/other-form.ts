/**
 * Replies that were recorded in one form and are asked for in the other: a turn that was begun with `generateText` may be
 * gone on with by `streamText`, and the other way round.
 */
import type { Generated, SdkPart } from "./sdk.js";
import { streamToContent } from "./stream-content.js";
import type { RecordedStream } from "./stream.js";

/** A reply in either form, as it was recorded. */
export type RecordedReply = Generated | RecordedStream;

export function asGenerated(reply: RecordedReply): Generated {
  if (!("parts" in reply)) return reply;
  const { parts, response } = reply;
  const last = (type: string): Readonly<Record<string, unknown>> => {
    const { type: _, ...rest } = parts.filter((part) => part.type === type).at(-1) ?? { type };
    return rest;
  };
  return {
    warnings: [],
    ...last("stream-start"),
    content: streamToContent(parts),
    ...last("finish"),
    response: { ...response, ...last("response-metadata") },
  };
}

export function asStream(reply: RecordedReply): RecordedStream {
  if ("parts" in reply) return reply;
  const { content, warnings = [], finishReason, usage, providerMetadata, response } = reply;
  const { headers, id, timestamp, modelId } = response ?? {};
  return {
    parts: [
      { type: "stream-start", warnings },
      { type: "response-metadata", ...defined({ id, timestamp, modelId }) },
      ...content.flatMap(contentToParts),
      { type: "finish", finishReason, usage, ...defined({ providerMetadata }) },
    ],
    ...(headers !== undefined && { response: { headers } }),
  };
}

/** Texts and reasoning come with a beginning and an end; all else comes as it is. */
function contentToParts(part: SdkPart, index: number): SdkPart[] {
  const { type, text } = part;
  if (type !== "text" && type !== "reasoning") return [part];
  const id = String(index);
  const metadata = defined({ providerMetadata: part["providerMetadata"] });
  return [
    { type: `${type}-start`, id },
    { type: `${type}-delta`, id, delta: text },
    // A signature comes at the end.
    { type: `${type}-end`, id, ...metadata },
  ];
}

function defined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
