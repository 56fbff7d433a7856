/** What the parts of a stream come to: the content of the reply, as if it had come at once. */
import type { SdkPart } from "./sdk.js";

/** Parts of a stream that are parts of the reply as they are. */
const WHOLE: ReadonlySet<string> = new Set([
  "custom",
  "file",
  "reasoning-file",
  "source",
  "tool-approval-request",
  "tool-call",
  "tool-result",
]);

interface OpenText {
  type: string;
  text: string;
  providerMetadata?: unknown;
}

export function streamToContent(parts: readonly SdkPart[]): SdkPart[] {
  const content: SdkPart[] = [];
  const open = new Map<string, OpenText>();
  for (const part of parts) {
    if (WHOLE.has(part.type)) content.push(part);
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
    // The last one counts: a signature comes at the end.
    if (part["providerMetadata"] !== undefined) text.providerMetadata = part["providerMetadata"];
  }
  return content;
}
