/** Values outside a state (inputs, questions, answers) as one text, bytes and all. */
import { BlobNode, type ClassRegistry, cloneValue, type Shadow, shadowToValue } from "../tree/index.js";

export function encodeText(value: unknown, registry: ClassRegistry): string {
  return JSON.stringify(cloneValue(value, registry), (_, part: unknown) =>
    part instanceof BlobNode
      ? { $: [part.buffer ? "buffer" : "bytes", Buffer.from(part.content).toString("base64")] }
      : part,
  );
}

/** Reads what {@link encodeText} wrote. */
export function decodeText(text: string, registry: ClassRegistry): unknown {
  return shadowToValue(JSON.parse(text) as Shadow, registry);
}
