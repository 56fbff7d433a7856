/** Ids and names that callers choose, and those that Savepoint makes. */
import { V7Generator } from "uuidv7";
import { SavepointError } from "../errors.js";

const MAX_BYTES = 1024;
/** Control characters, and halves of surrogate pairs. */
const FORBIDDEN = /[\p{Cc}\p{Cs}]/u;

/**
 * Checks an id that a caller chose: any text of 1 to 1,024 bytes without control characters. Ids are never used as file
 * names or patterns, so `../x`, `*` or `CON` are just ids.
 */
export function checkId(id: string, what: string): string {
  const problem = problemOf(id);
  if (problem === undefined) return id;
  const shown = typeof id === "string" && id.length <= 80 ? ` ${JSON.stringify(id)}` : "";
  throw new SavepointError("INVALID_ID", `The ${what}${shown} cannot be used: ${problem}. Choose another.`);
}

/** Checks the name of a branch: an id that does not look like that of an unnamed branch. */
export function checkBranchName(name: string): string {
  checkId(name, "branch name");
  if (name.startsWith("~")) {
    throw new SavepointError(
      "INVALID_ID",
      `The branch name ${JSON.stringify(name)} begins with "~", as unnamed branches do.`,
    );
  }
  return name;
}

/** How an unnamed branch is called. */
export function unnamedBranch(tape: number): string {
  return `~${tape}`;
}

/** Makes UUIDv7 ids that rise within a process, also within one millisecond. */
export function createIdSource(now: () => number): () => string {
  const generator = new V7Generator();
  return () => generator.generateOrResetCore(now(), 10_000).toString();
}

/** The time in a UUIDv7, in milliseconds; `undefined` for any other id. */
export function timeOfId(id: string): number | undefined {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id)) return undefined;
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

function problemOf(id: unknown): string | undefined {
  if (typeof id !== "string") return `it is of type ${typeof id}, not a string`;
  if (id === "") return "it is empty";
  if (Buffer.byteLength(id) > MAX_BYTES) return `it is longer than ${MAX_BYTES} bytes`;
  return FORBIDDEN.test(id) ? "it contains a control character or half a character" : undefined;
}
