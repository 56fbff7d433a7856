/**
 * Messages as they can be given to the SDK again. It writes fields that are not there as `undefined`, and passes what a tool
 * returns on as it is, also where that is no JSON: a message with a Date in it is one that it makes and does not take.
 */
import { isObject, type ModelMessage } from "./sdk.js";

export function tidyMessage(message: ModelMessage): ModelMessage {
  return tidy(message) as ModelMessage;
}

function tidy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([key, each]) => [key, key === "output" ? tidyOutput(each) : tidy(each)]));
}

/** What a model is told of a tool's result. */
function tidyOutput(output: unknown): unknown {
  if (!isObject(output) || (output["type"] !== "json" && output["type"] !== "error-json")) return tidy(output);
  return { ...(tidy({ ...output, value: null }) as object), value: toJson(output["value"]) };
}

/** What goes over the wire. */
function toJson(value: unknown): unknown {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? String(each) : each)) as
    | string
    | undefined;
  return text === undefined ? null : (JSON.parse(text) as unknown);
}
