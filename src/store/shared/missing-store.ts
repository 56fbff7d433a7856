/** What whoever wants a store as it is gets told where that cannot be. */
import { SavepointError } from "../../errors.js";

export function storeNotFound(url: string): SavepointError<"STORE_NOT_FOUND"> {
  return new SavepointError("STORE_NOT_FOUND", `There is no store at ${url}, and none was made. Is the path right?`);
}

export function storeTooOld(url: string, found: number, known: number): SavepointError<"STORE_TOO_OLD"> {
  return new SavepointError(
    "STORE_TOO_OLD",
    `The store ${url} has format ${found}, and this version of Savepoint writes ${known}. It was not touched. Bring it up to date with "savepoint migrate"; older versions cannot open it then.`,
    { details: { found, known } },
  );
}
