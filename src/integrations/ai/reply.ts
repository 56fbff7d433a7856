/**
 * A model's reply as it is recorded. A reply is recorded in the form in which it came, generated or streamed, and can be
 * replayed in either: a turn that was started with `generateText` may be resumed with `streamText`, and the reverse.
 */
import { type Generated, isObject, type SdkPart, type Streamed } from "./sdk.js";

/** A streamed reply, as it is recorded: all of its parts. */
export interface RecordedStream {
  readonly parts: readonly SdkPart[];
  readonly response?: Readonly<Record<string, unknown>>;
}

/** A reply in either form. */
export type RecordedReply = Generated | RecordedStream;

/**
 * A generated reply without fields that are `undefined`, and without the bodies of the request and the response. They contain
 * the conversation up to here, and would be written again with each reply.
 */
export function recordGenerated(generated: Generated): Generated {
  const { response } = generated;
  return clean(omit({ ...generated, ...(response && { response: omit(response, "body") }) }, "request")) as Generated;
}

/** The parts of a stream, without fields that are `undefined` and without the body of the response. */
export function recordParts(parts: readonly SdkPart[], response: Streamed["response"]): RecordedStream {
  return clean({ parts, ...(response && { response: omit(response, "body") }) }) as RecordedStream;
}

/** The content of a reply, in the form of a generated one. */
export function contentOf(reply: RecordedReply): readonly SdkPart[] {
  return toGenerated(reply).content;
}

/** The tokens of a reply; `undefined` if the model does not report them. */
export function usageOf(reply: RecordedReply): { tokens: number } | undefined {
  const { usage } = toGenerated(reply);
  if (!isObject(usage)) return undefined;
  const [input, output] = [countOf(usage["inputTokens"]), countOf(usage["outputTokens"])];
  return input === undefined && output === undefined ? undefined : { tokens: (input ?? 0) + (output ?? 0) };
}

/** Since the third specification a count is an object with a total. */
function countOf(tokens: unknown): number | undefined {
  const count = isObject(tokens) ? tokens["total"] : tokens;
  return typeof count === "number" ? count : undefined;
}

/** A reply in the form that `doGenerate` returns. */
export function toGenerated(reply: RecordedReply): Generated {
  if (!("parts" in reply)) return reply;
  const { parts, response } = reply;
  const last = (type: string): Readonly<Record<string, unknown>> => {
    const { type: _, ...rest } = parts.filter((part) => part.type === type).at(-1) ?? { type };
    return rest;
  };
  return {
    warnings: [],
    ...last("stream-start"),
    content: joinParts(parts),
    ...last("finish"),
    response: { ...response, ...last("response-metadata") },
  };
}

/** Parts of a stream that are parts of the content unchanged. */
const CONTENT_PARTS: ReadonlySet<string> = new Set([
  "custom",
  "file",
  "reasoning-file",
  "source",
  "tool-approval-request",
  "tool-call",
  "tool-result",
]);

interface TextPart {
  type: string;
  text: string;
  providerMetadata?: unknown;
}

/** The content that the parts of a stream add up to. */
function joinParts(parts: readonly SdkPart[]): SdkPart[] {
  const content: SdkPart[] = [];
  const open = new Map<string, TextPart>();
  for (const part of parts) {
    if (CONTENT_PARTS.has(part.type)) content.push(part);
    const [, type, phase] = /^(text|reasoning)-(start|delta|end)$/.exec(part.type) ?? [];
    if (type === undefined) continue;
    const key = `${type} ${String(part["id"])}`;
    let text = open.get(key);
    if (!text || phase === "start") {
      text = { type, text: "" };
      open.set(key, text);
      content.push(text as unknown as SdkPart);
    }
    if (phase === "delta") text.text += String(part["delta"]);
    // The last metadata counts: a signature comes with the end.
    if (part["providerMetadata"] !== undefined) text.providerMetadata = part["providerMetadata"];
  }
  return content;
}

/** A reply in the form of the parts that `doStream` streams. */
export function toStream(reply: RecordedReply): RecordedStream {
  if ("parts" in reply) return reply;
  const { content, warnings = [], finishReason, usage, providerMetadata, response } = reply;
  const { headers, id, timestamp, modelId } = response ?? {};
  return {
    parts: [
      { type: "stream-start", warnings },
      { type: "response-metadata", ...defined({ id, timestamp, modelId }) },
      ...content.flatMap(splitPart),
      { type: "finish", finishReason, usage, ...defined({ providerMetadata }) },
    ],
    ...(headers !== undefined && { response: { headers } }),
  };
}

/** Text and reasoning are streamed with a start and an end; all other parts unchanged. */
function splitPart(part: SdkPart, index: number): SdkPart[] {
  const { type, text } = part;
  if (type !== "text" && type !== "reasoning") return [part];
  const id = String(index);
  const metadata = defined({ providerMetadata: part["providerMetadata"] });
  return [
    { type: `${type}-start`, id },
    { type: `${type}-delta`, id, delta: text },
    // A signature comes with the end.
    { type: `${type}-end`, id, ...metadata },
  ];
}

function defined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Copies arrays and plain objects, without fields that are `undefined`: to the SDK they are missing. */
function clean(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clean);
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(defined(value)).map(([key, each]) => [key, clean(each)]));
}

function omit<From extends object, Field extends string>(from: From, field: Field): Omit<From, Field> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => key !== field)) as Omit<From, Field>;
}
