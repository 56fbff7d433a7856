/**
 * The error class of Savepoint and its codes.
 *
 * Every failure that Savepoint detects is a `SavepointError`. The `code` is stable and intended for programs. The
 * message names what failed, the id concerned, and what to do next. `docs/errors.md` lists all codes.
 */

/** The reason of a failure, for programs. `docs/errors.md` describes what to do for each code. */
export type SavepointErrorCode =
  | "ACCESS_DENIED"
  | "AGENT_FAILED"
  | "AGENT_MISMATCH"
  | "AGENT_NOT_FOUND"
  | "AGENT_TOO_OLD"
  | "ALREADY_RUNNING"
  | "BRANCH_EXISTS"
  | "BRANCH_NOT_FOUND"
  | "BUSY"
  | "CHECKPOINT_NOT_FOUND"
  | "CLOSED"
  | "CONFLICT"
  | "CONVERSATION_NOT_FOUND"
  | "DAMAGED"
  | "INPUT_MISMATCH"
  | "INVALID_ARGUMENT"
  | "INVALID_ID"
  | "INVALID_STATE"
  | "INVALID_URL"
  | "IO_FAILED"
  | "KEY_REQUIRED"
  | "LEASE_LOST"
  | "MISSING_DEPENDENCY"
  | "NONDETERMINISM"
  | "NOT_A_STORE"
  | "NOT_ENCRYPTED"
  | "NOT_WAITING"
  | "OUTCOME_UNKNOWN"
  | "OUT_OF_SCOPE"
  | "READ_ONLY"
  | "RUN_ENDED"
  | "SESSION_DELETED"
  | "SESSION_NOT_FOUND"
  | "STORE_FAILED"
  | "STORE_NOT_FOUND"
  | "STORE_TOO_NEW"
  | "STORE_TOO_OLD"
  | "STREAM_LOST"
  | "TIMEOUT"
  | "UNANSWERED_TOOL_CALLS"
  | "UNAVAILABLE"
  | "UNFINISHED_TURN"
  | "UNSAFE_KEY_FILE"
  | "UNSAFE_STORE"
  | "WRONG_KEY";

/** Additional data of an error, for programs. */
export type SavepointErrorDetails = Readonly<Record<string, unknown>>;

/** Options of {@link SavepointError}. */
export interface SavepointErrorOptions extends ErrorOptions {
  readonly details?: SavepointErrorDetails;
}

// Two copies of the package in one process (a failed npm dedupe, a module loaded twice) have two classes. The classes
// share the brand through the global symbol registry, so that `instanceof` works across copies.
const BRAND = Symbol.for("savepoint.error");

/** The error that Savepoint throws. Check `code`, or narrow with {@link isSavepointError}. */
export class SavepointError<Code extends SavepointErrorCode = SavepointErrorCode> extends Error {
  override readonly name: string = "SavepointError";
  readonly code: Code;
  readonly details: SavepointErrorDetails;

  constructor(code: Code, message: string, options: SavepointErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.details = options.details ?? {};
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    // Only the base class recognises errors of another copy; a subclass recognises its own instances.
    if (this !== SavepointError) return Function.prototype[Symbol.hasInstance].call(this, value) as boolean;
    return typeof value === "object" && value !== null && (value as Record<symbol, unknown>)[BRAND] === true;
  }
}

/**
 * Whether this is an error of Savepoint, optionally with a given code.
 *
 * @example
 * try { await session.rewind(id) } catch (error) {
 *   if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
 *   throw error;
 * }
 */
export function isSavepointError(error: unknown): error is SavepointError;
export function isSavepointError<Code extends SavepointErrorCode>(
  error: unknown,
  code: Code,
): error is SavepointError<Code>;
export function isSavepointError(error: unknown, code?: SavepointErrorCode): boolean {
  return error instanceof SavepointError && (code === undefined || error.code === code);
}
