/** Values outside a state: inputs, outputs, answers. */
import { createHash } from "node:crypto";
import { cloneValue } from "../state/clone.js";
import { decodeState } from "../state/decode.js";
import { encodeShadow, type Frame } from "../state/encode.js";
import type { ClassRegistry } from "../state/registry.js";
import { settleElement } from "../state/settle.js";
import { BlobNode, type Shadow } from "../state/shadow.js";
import { shadowToValue } from "../state/value.js";

/** A value as items of a tape: the last of them is the value, those before it are parts of it. */
export function encodeItems(
  value: unknown,
  registry: ClassRegistry,
  tape: number,
  next: number,
): { items: readonly Frame[]; blobs: ReadonlyMap<string, Uint8Array>; at: number } {
  const { skeleton, items, blobs } = encodeShadow(settleElement(cloneValue(value, registry)), tape, next);
  return { items: [...items, skeleton], blobs, at: next + items.length };
}

/** A value as one text, bytes and all. */
export function encodeText(value: unknown, registry: ClassRegistry): string {
  return JSON.stringify(cloneValue(value, registry), (_, part: unknown) =>
    part instanceof BlobNode
      ? { $: [part.buffer ? "buffer" : "bytes", Buffer.from(part.content).toString("base64")] }
      : part,
  );
}

/** Reads what {@link encodeText} wrote. */
export async function decodeText(text: string, registry: ClassRegistry): Promise<unknown> {
  const nothing = { items: async () => [], blob: async () => ({ unreadable: "a text has no blobs" }) };
  const shadow: Shadow = await decodeState({ json: text, refs: "" }, 0, nothing);
  return shadowToValue(shadow, registry);
}

/** Tells inputs apart. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
