/**
 * A model's reply as it is recorded: the response, without the events of its stream. A reply can be replayed in either form, so a turn that
 * was started with a plain run can be resumed with a streamed one, and the reverse.
 */
import type { ModelResponse, StreamEvent, StreamEventResponseCompleted, Usage } from "@openai/agents-core";
import { copyDefined, isObject, type Sdk } from "./sdk.js";

/** A reply as it is recorded. */
export type RecordedReply = Omit<ModelResponse, "usage"> & { readonly usage: Readonly<Record<string, unknown>> };

/** A response without fields that are `undefined`. Its usage becomes a plain object. */
export function recordResponse(response: ModelResponse): RecordedReply {
  return copyDefined({ ...response, usage: toPlain(response.usage) });
}

/** The last event of a stream, which contains the whole response. */
export function recordStream({ response }: StreamEventResponseCompleted): RecordedReply {
  const { id, requestId, usage, rawUsage, providerData, output } = response;
  return copyDefined({ output, usage, responseId: id, requestId, providerData, rawUsage }) as RecordedReply;
}

/** The tokens of a reply; `undefined` if the model does not report them. */
export function usageOf(reply: RecordedReply): { tokens: number } | undefined {
  const { totalTokens, inputTokens, outputTokens } = reply.usage;
  const sum = Number(inputTokens ?? 0) + Number(outputTokens ?? 0);
  const tokens = typeof totalTokens === "number" && totalTokens > 0 ? totalTokens : sum;
  return tokens > 0 ? { tokens } : undefined;
}

/** A reply as `getResponse` returns it. */
export function toResponse(reply: RecordedReply, sdk: Sdk): ModelResponse {
  return { ...reply, usage: new sdk.Usage(reply.usage as ConstructorParameters<typeof Usage>[0]) };
}

/** A reply as `getStreamedResponse` yields it: its text in one piece, and the response. */
export function toEvents(reply: RecordedReply): StreamEvent[] {
  const { output, usage, responseId = "replayed", requestId, providerData, rawUsage } = reply;
  const deltas = output.flatMap((item) => {
    const { type = "message", content, id } = item as { type?: string; content?: unknown; id?: string };
    if (type !== "message" || !Array.isArray(content)) return [];
    return (content as readonly unknown[]).flatMap((part) =>
      isObject(part) && part["type"] === "output_text"
        ? [{ type: "output_text_delta", delta: String(part["text"]), ...(id !== undefined && { itemId: id }) }]
        : [],
    );
  });
  const response = copyDefined({ id: responseId, requestId, usage: withTotals(usage), rawUsage, providerData, output });
  return [{ type: "response_started" }, ...deltas, { type: "response_done", response }] as StreamEvent[];
}

/** The SDK requires these counts in the last event of a stream. */
function withTotals(usage: RecordedReply["usage"]): Readonly<Record<string, unknown>> {
  return { inputTokens: 0, outputTokens: 0, totalTokens: 0, ...usage };
}

function toPlain(usage: Usage): Readonly<Record<string, unknown>> {
  return JSON.parse(JSON.stringify(usage)) as Readonly<Record<string, unknown>>;
}
