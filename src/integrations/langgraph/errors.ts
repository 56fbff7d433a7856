/** The error for an argument that is invalid; the message says what to pass instead. */
import { SavepointError } from "../../index.js";

export function invalidArgument(message: string): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message);
}
