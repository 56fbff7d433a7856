/** The error of a commit whose checks did not hold. */
import { SavepointError } from "../../errors.js";

/** @param keys the keys whose checks failed */
export function commitConflict(keys: readonly string[]): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `Another writer was first: ${keys.map((key) => JSON.stringify(key)).join(", ")}.`,
    {
      details: { keys },
    },
  );
}
