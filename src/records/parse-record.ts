/** Parses the JSON of records, and rejects what no version of Savepoint writes. */
import { SavepointError } from "../errors.js";
import { parseStoredJson } from "../state/index.js";
import type { Shape } from "../util/index.js";

/**
 * Parses a record, or a part of one.
 *
 * @param what names the record in the error message
 * @throws `DAMAGED` if it is not JSON of this shape
 */
export function parseRecord<T>(value: string, isValid: Shape, what: string): T {
  const parsed: unknown = parseStoredJson(value);
  if (isValid(parsed)) return parsed as T;
  throw invalidRecord(what);
}

/** The error for a record with invalid content. */
export function invalidRecord(what: string): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The stored ${what} is invalid.`);
}
