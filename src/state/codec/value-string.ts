/** Values outside of states, such as inputs, questions and answers, as one string that includes their bytes. */
import { BlobNode, type ClassRegistry, shadowToValue, valueToShadow } from "../tree/index.js";
import { parseStoredJson } from "./stored-json.js";

/** Encodes a value as a string. Throws `INVALID_STATE` if it cannot be stored. */
export function stringifyValue(value: unknown, registry: ClassRegistry): string {
  return JSON.stringify(valueToShadow(value, registry), (_, part: unknown) =>
    part instanceof BlobNode
      ? { $: [part.isBuffer ? "buffer" : "bytes", Buffer.from(part.content).toString("base64")] }
      : part,
  );
}

/** The inverse of {@link stringifyValue}. */
export function parseValue(text: string, registry: ClassRegistry): unknown {
  return shadowToValue(parseStoredJson(text), registry);
}
