/** What was given makes no sense, and what to give instead. */
import { SavepointError } from "../../index.js";

export function invalidArgument(message: string, details: Readonly<Record<string, unknown>> = {}): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message, { details });
}
