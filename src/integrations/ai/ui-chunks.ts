/** Chunks of UI message streams: their ids, which are the same in each attempt of a turn, and chunks for stored messages. */
import type { UIMessage } from "ai";

/** A chunk of a UI message stream. */
export type Chunk = { readonly type: string } & Readonly<Record<string, unknown>>;

/**
 * Numbers the texts of a stream. Their ids only distinguish them while they are streamed, but many are random: with them, a reader of an
 * interrupted attempt could never continue with the next one.
 */
export class TextIds {
  #count = 0;
  /** The ids of texts that have not ended. */
  readonly #ids = new Map<string, string>();

  rename(chunk: Chunk): Chunk {
    const [, kind, phase] = /^(text|reasoning)-(start|delta|end)$/.exec(chunk.type) ?? [];
    if (kind === undefined) return chunk;
    const key = `${kind} ${String(chunk["id"])}`;
    if (phase === "start") this.#ids.set(key, `${kind}-${++this.#count}`);
    const id = this.#ids.get(key);
    if (phase === "end") this.#ids.delete(key);
    return id === undefined ? chunk : { ...chunk, id };
  }
}

type Part = Readonly<Record<string, unknown>>;

/** The chunks that make a client show the parts of a message, without the start and the end of the message. */
export function toChunks({ parts }: UIMessage): Chunk[] {
  return parts.flatMap((part, index) => toPartChunks(part as unknown as Part, `stored-${index}`));
}

function toPartChunks(part: Part, id: string): Chunk[] {
  const type = String(part["type"]);
  if (type === "step-start") return [{ type: "start-step" }];
  if (type === "text" || type === "reasoning") {
    const metadata = pick(part, "providerMetadata");
    return [
      { type: `${type}-start`, id, ...metadata },
      { type: `${type}-delta`, id, delta: part["text"] },
      { type: `${type}-end`, id, ...metadata },
    ];
  }
  if (type === "file") return [{ type, ...pick(part, "url", "mediaType", "providerMetadata") }];
  return type.startsWith("tool-") ? toToolChunks(part, type.slice("tool-".length)) : [];
}

function toToolChunks(part: Part, toolName: string): Chunk[] {
  const call = pick(part, "toolCallId");
  const metadata = part["callProviderMetadata"];
  const { id, signature, inputSchemaInput } = (part["approval"] ?? {}) as Part;
  const chunks: Chunk[] = [
    {
      type: "tool-input-available",
      toolName,
      ...call,
      ...pick(part, "input", "providerExecuted"),
      ...(metadata !== undefined && { providerMetadata: metadata }),
    },
  ];
  if (id !== undefined) {
    const request = pick(
      { approvalId: id, signature, inputSchemaInput },
      "approvalId",
      "signature",
      "inputSchemaInput",
    );
    chunks.push({ type: "tool-approval-request", ...call, ...request });
  }
  if (part["state"] === "output-available")
    chunks.push({ type: "tool-output-available", ...call, ...pick(part, "output") });
  if (part["state"] === "output-error") chunks.push({ type: "tool-output-error", ...call, ...pick(part, "errorText") });
  if (part["state"] === "output-denied") chunks.push({ type: "tool-output-denied", ...call });
  return chunks;
}

/** The properties with these names that are defined. */
function pick(from: Part, ...names: readonly string[]): Part {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
}
