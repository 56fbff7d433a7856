/** Models that reply from a script, at once or in parts, in a world that may hang. */
import type { World } from "../run/lab.js";
import { convertArrayToReadableStream, MockModel } from "./sdk.js";

/** A part of a reply, as a model returns it. */
export type Content = { readonly type: string } & Readonly<Record<string, unknown>>;

/** A message of a prompt. */
export interface Given {
  readonly role: string;
  readonly content: unknown;
}

const USAGE = { inputTokens: { total: 3 }, outputTokens: { total: 2 } };

export const text = (said: string, more: object = {}): Content => ({ type: "text", text: said, ...more });

export const call = (toolCallId: string, toolName: string, input: unknown, more: object = {}): Content => ({
  type: "tool-call",
  toolCallId,
  toolName,
  input: JSON.stringify(input),
  ...more,
});

/** @param script what it replies, by how often the assistant has spoken in what it is given */
export function scriptedModel(world: World, script: readonly (readonly Content[])[]): MockModel {
  const replyTo = async (prompt: readonly Given[]): Promise<readonly Content[]> => {
    const spoken = prompt.filter(({ role }) => role === "assistant").length;
    await world.do(`model ${spoken}`);
    return script[spoken] ?? [text("There is nothing more to say.")];
  };
  const finish = (content: readonly Content[]): object => {
    const calls = content.some(({ type, providerExecuted }) => type === "tool-call" && providerExecuted !== true);
    return { finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage: USAGE };
  };
  return new MockModel({
    doGenerate: async ({ prompt }: { prompt: readonly Given[] }) => {
      const content = await replyTo(prompt);
      return {
        content,
        ...finish(content),
        warnings: [],
        request: { body: "sent" },
        response: { body: "came" },
      } as never;
    },
    doStream: async ({ prompt }: { prompt: readonly Given[] }) => {
      const content = await replyTo(prompt);
      const parts = [
        { type: "stream-start", warnings: [] },
        ...content.flatMap(toParts),
        { type: "finish", ...finish(content) },
      ];
      return { stream: convertArrayToReadableStream(parts) } as never;
    },
  } as never);
}

/** A part of a reply as it is streamed: a text in pieces, its metadata with the last one. */
function toParts(part: Content, index: number): Content[] {
  if (part.type !== "text" && part.type !== "reasoning") return [part];
  const id = String(index);
  const said = String(part["text"]);
  const half = Math.ceil(said.length / 2);
  const metadata = part["providerMetadata"] === undefined ? {} : { providerMetadata: part["providerMetadata"] };
  return [
    { type: `${part.type}-start`, id },
    { type: `${part.type}-delta`, id, delta: said.slice(0, half) },
    { type: `${part.type}-delta`, id, delta: said.slice(half) },
    { type: `${part.type}-end`, id, ...metadata },
  ];
}
