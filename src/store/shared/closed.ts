/** The error of a store that was closed. */
import { SavepointError } from "../../errors.js";

export function storeClosed(url: string): SavepointError<"CLOSED"> {
  return new SavepointError("CLOSED", `The store ${url} is closed. Open it again to use it.`);
}
