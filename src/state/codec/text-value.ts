/** Values outside a state (inputs, questions, answers) as one text, bytes and all. */
import { BlobNode, type ClassRegistry, valueToShadow, type Shadow, shadowToValue } from "../tree/index.js";

export function stringifyValue(value: unknown, registry: ClassRegistry): string {
  return JSON.stringify(valueToShadow(value, registry), (_, part: unknown) =>
    part instanceof BlobNode
      ? { $: [part.isBuffer ? "buffer" : "bytes", Buffer.from(part.content).toString("base64")] }
      : part,
  );
}

/** Reads what {@link stringifyValue} wrote. */
export function parseValue(text: string, registry: ClassRegistry): unknown {
  return shadowToValue(JSON.parse(text) as Shadow, registry);
}
