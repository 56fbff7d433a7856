/** Values as JSON. A field that is not set is left out. */
import { type Json, toJson } from "../index.js";

export function toPrintableJson(value: unknown): Json {
  return toJson(value, { omitUndefined: true });
}
