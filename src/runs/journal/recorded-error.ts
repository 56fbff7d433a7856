/**
 * Errors as they are recorded: name, message, code, status, cause, and whether they are transient. A step gets the same copy
 * whether the effect has just failed or is replayed, so that it behaves the same in both cases.
 */
import { SavepointError, type SavepointErrorCode } from "../../errors.js";
import { isTransient } from "../agent/index.js";

/** An error in the form in which it is stored. */
export interface RecordedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly status?: number;
  readonly transient?: true;
  readonly cause?: RecordedError;
}

const MAX_CAUSES = 8;

const CLASSES: ReadonlyMap<string, ErrorConstructor> = new Map(
  [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((each) => [each.name, each]),
);

/** Converts a thrown value to its stored form. Never throws. */
export function recordError(thrown: unknown): RecordedError {
  try {
    return record(thrown, 0);
  } catch {
    // A getter of the error has thrown.
    return { name: "Error", message: "a value was thrown whose properties cannot be read" };
  }
}

function record(thrown: unknown, depth: number): RecordedError {
  if (!(thrown instanceof Error)) return { name: "Error", message: describeThrown(thrown) };
  const { code, status, cause } = thrown as { code?: unknown; status?: unknown; cause?: unknown };
  return {
    name: String(thrown.name),
    message: String(thrown.message),
    ...((typeof code === "string" || typeof code === "number") && { code }),
    ...(typeof status === "number" && { status }),
    ...(isTransient(thrown) && { transient: true }),
    ...(cause !== undefined && cause !== null && depth < MAX_CAUSES && { cause: record(cause, depth + 1) }),
  };
}

/**
 * Creates an error from its stored form.
 *
 * @param thrown the original, if it was thrown in this process: the copies of it and of its causes get their stacks
 */
export function reviveError(recorded: RecordedError, thrown?: unknown): Error {
  const { name, message, code, status, transient, cause } = recorded;
  const options = cause && { cause: reviveError(cause, causeOf(thrown)) };
  const stack = stackOf(thrown);
  const error =
    name === "SavepointError"
      ? new SavepointError(code as SavepointErrorCode, message, options)
      : new (CLASSES.get(name) ?? Error)(message, options);
  const set = (key: string, value: unknown): void =>
    void Object.defineProperty(error, key, { value, writable: true, configurable: true, enumerable: false });
  if (error.name !== name) set("name", name);
  if (code !== undefined && !("code" in error)) Object.assign(error, { code });
  if (status !== undefined) Object.assign(error, { status });
  if (transient) Object.assign(error, { transient });
  set("stack", stack ?? `${name}: ${message}\n    (recorded in an earlier attempt)`);
  return error;
}

/** Returns whether a thrown value is an Error. Never throws, even for a revoked proxy. */
export function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error;
  } catch {
    return false;
  }
}

/** The stack of a thrown value, if it has one. Never throws. */
function stackOf(thrown: unknown): string | undefined {
  try {
    return isError(thrown) ? thrown.stack : undefined;
  } catch {
    return undefined;
  }
}

/** The cause of a thrown value, if it has one. Never throws. */
function causeOf(thrown: unknown): unknown {
  try {
    return isError(thrown) ? thrown.cause : undefined;
  } catch {
    return undefined;
  }
}

const MAX_REASON = 2000;

/** Converts a thrown value to the reason that is stored with a checkpoint, of limited length. */
export function toReason(thrown: unknown): string {
  return describeThrown(thrown).slice(0, MAX_REASON);
}

/** Describes a thrown value for people. Never throws. */
export function describeThrown(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return thrown;
    if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return "a value that cannot be described";
  }
}
