/** Errors that end a run: whether to try again, and the form in which they are stored. */
import { SavepointError, type SavepointErrorCode } from "../../errors.js";
import type { RunError } from "../../records/index.js";
import { hideOwnFrames } from "../../util/index.js";
import { isTransient } from "../agent/index.js";
import { describeThrown, isError, toReason } from "../journal/index.js";

const MAX_NAME = 100;
const MAX_MESSAGE = 1000;
const MAX_STACK = 4000;
const MAX_CAUSES = 4;

/** Errors of Savepoint that are conditions of the store or of another process. The code that gets them is not wrong. */
const CONDITIONS: ReadonlySet<string> = new Set<SavepointErrorCode>([
  "ACCESS_DENIED",
  "ALREADY_RUNNING",
  "BUSY",
  "CLOSED",
  "CONFLICT",
  "IO_FAILED",
  "LEASE_LOST",
  "STORE_FAILED",
  "TIMEOUT",
  "UNAVAILABLE",
]);

/** Returns whether a step that threw this error may succeed if it is tried again. Never throws. */
export function mayPass(thrown: unknown): boolean {
  return (
    isTransient(thrown) || causesOf(thrown).some((each) => each instanceof SavepointError && CONDITIONS.has(each.code))
  );
}

/** The errors that the language throws for invalid code. */
const CODE_ERRORS: ReadonlySet<string> = new Set(["RangeError", "ReferenceError", "SyntaxError", "TypeError"]);

/**
 * Returns whether an error shows a bug in the code that threw it, so that another attempt would throw it again. Never throws.
 *
 * All causes must be such errors too: `fetch failed` is a TypeError whose cause is a network error. A SyntaxError about JSON does
 * not count, because it is usually caused by the reply of a service.
 */
export function isProgrammingError(thrown: unknown): boolean {
  if (mayPass(thrown)) return false;
  const causes = causesOf(thrown);
  return causes.length > 0 && causes.every(isCodeError);
}

function isCodeError(error: unknown): boolean {
  const { name, message } = error as Error;
  return CODE_ERRORS.has(name) && !(name === "SyntaxError" && String(message).includes("JSON"));
}

/** Converts a thrown value to the form in which it is stored with the run, of a few kilobytes at most. Never throws. */
export function toRunError(thrown: unknown): RunError {
  try {
    if (!isError(thrown)) return { name: "Error", message: describeThrown(thrown).slice(0, MAX_MESSAGE) };
    const name = String(thrown.name).slice(0, MAX_NAME);
    const stack = causesOf(hideOwnFrames(thrown)).map(boundedStack).join("\ncaused by: ").slice(0, MAX_STACK);
    return { name, message: String(thrown.message).slice(0, MAX_MESSAGE), ...(stack !== "" && { stack }) };
  } catch {
    // A getter of the error has thrown.
    return { name: "Error", message: "a value was thrown whose properties cannot be read" };
  }
}

/** The reason that is stored with a run, in one line. */
export function toReasonLine(thrown: unknown): string {
  return toReason(thrown)
    .trim()
    .replace(/\s*\n\s*/g, " ");
}

/** An error and its causes. */
function causesOf(thrown: unknown): unknown[] {
  const found: unknown[] = [];
  try {
    for (let each = thrown; isError(each) && found.length < MAX_CAUSES; each = each.cause) found.push(each);
  } catch {
    // A getter of an error has thrown.
  }
  return found;
}

/** The stack of an error. A long message in it is cut, so that the functions after it stay. */
function boundedStack(error: unknown): string {
  const { stack, message } = error as { stack?: unknown; message?: unknown };
  if (typeof stack !== "string" || typeof message !== "string") return describeThrown(error).slice(0, MAX_MESSAGE);
  return message.length > MAX_MESSAGE ? stack.replace(message, () => `${message.slice(0, MAX_MESSAGE)}…`) : stack;
}
