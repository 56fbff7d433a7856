/**
 * Errors as they are recorded: name, message, code and cause, and what says that they will pass. The step gets the same
 * copy whether the effect has just failed or failed before a crash, so that it cannot tell the two apart.
 */
import { SavepointError, type SavepointErrorCode } from "../../errors.js";
import { isTransient } from "../agent/index.js";

export interface RecordedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly status?: number;
  readonly transient?: true;
  readonly cause?: RecordedError;
}

const MAX_CAUSES = 8;

const CLASSES: Readonly<Record<string, ErrorConstructor>> = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
};

export function recordError(thrown: unknown): RecordedError {
  try {
    return record(thrown, 0);
  } catch {
    // Whatever was thrown does not let itself be looked at.
    return { name: "Error", message: "something was thrown that cannot be looked at" };
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

/** @param stack where it was thrown, if that is known */
export function reviveError(recorded: RecordedError, stack?: string): Error {
  const { name, message, code, status, transient, cause } = recorded;
  const options = cause && { cause: reviveError(cause) };
  const error =
    name === "SavepointError"
      ? new SavepointError(code as SavepointErrorCode, message, options)
      : new (CLASSES[name] ?? Error)(message, options);
  const set = (key: string, value: unknown): void =>
    void Object.defineProperty(error, key, { value, writable: true, configurable: true, enumerable: false });
  if (error.name !== name) set("name", name);
  if (code !== undefined && !("code" in error)) Object.assign(error, { code });
  if (status !== undefined) Object.assign(error, { status });
  if (transient) Object.assign(error, { transient });
  set("stack", stack ?? `${name}: ${message}\n    (recorded in an earlier attempt)`);
  return error;
}

/** Is it an Error? What does not let itself be asked is none. */
export function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error;
  } catch {
    return false;
  }
}

/** Where it was thrown, if it says so. */
export function stackOf(thrown: unknown): string | undefined {
  try {
    return isError(thrown) ? thrown.stack : undefined;
  } catch {
    return undefined;
  }
}

const MAX_REASON = 2000;

/** Why something ended, for people: stored with the checkpoint, so it is not too long. */
export function toReason(given: unknown): string {
  return describeThrown(given).slice(0, MAX_REASON);
}

/** Whatever was thrown, for people. */
export function describeThrown(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return thrown;
    if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    return "something that cannot be described";
  }
}
