/** Errors that all stores throw. */
import { SavepointError } from "../../errors.js";

/** The error for a call to a closed store. */
export function storeClosed(url: string): SavepointError<"CLOSED"> {
  return new SavepointError("CLOSED", `The store ${url} is closed. Open it again to use it.`);
}

/** A condition of a commit that did not hold: a check, or a key that stands for another condition. */
export interface FailedCheck {
  readonly key: string;
  readonly tag?: string;
}

/** The error for a commit whose checks failed. `details` has the keys of all failed checks, and the tags of those with one. */
export function commitConflict(failed: readonly FailedCheck[]): SavepointError<"CONFLICT"> {
  const keys = failed.map(({ key }) => key);
  const tags = new Set(failed.flatMap(({ tag }) => (tag === undefined ? [] : [tag])));
  return new SavepointError(
    "CONFLICT",
    `Another writer was first: ${keys.map((key) => JSON.stringify(key)).join(", ")}.`,
    { details: { keys, tags: [...tags] } },
  );
}

/** The error for a store that does not exist, if it must not be created. */
export function storeNotFound(url: string): SavepointError<"STORE_NOT_FOUND"> {
  return new SavepointError(
    "STORE_NOT_FOUND",
    `There is no store at ${url}. Check the path, or open it without \`create: false\` and \`readOnly\` to create it.`,
  );
}

/** The error for a store of an older format, if it must not be upgraded. */
export function storeTooOld(url: string, found: number, known: number): SavepointError<"STORE_TOO_OLD"> {
  return new SavepointError(
    "STORE_TOO_OLD",
    `The store ${url} has format ${found}, and this version of Savepoint writes ${known}. It was not changed. Upgrade it with "savepoint migrate"; older versions cannot open it afterwards.`,
    { details: { found, known } },
  );
}

/** The error for a store of a format that was never released, which this version cannot upgrade. */
export function storeUnsupported(url: string, found: number, known: number): SavepointError<"STORE_TOO_OLD"> {
  return new SavepointError(
    "STORE_TOO_OLD",
    `The store ${url} has format ${found} of a pre-release version, and this version of Savepoint reads format ${known}. It was not changed. Export its data with the version that wrote it ("savepoint export"), and import the bundle into a new store.`,
    { details: { found, known } },
  );
}
