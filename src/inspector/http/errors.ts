/** Errors of requests, and the status of every error that a route can throw. */
import { isSavepointError, SavepointError, type SavepointErrorCode } from "../../index.js";

/** An error of a request that is not an error of the library. */
export class HttpError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function badRequest(message: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError("INVALID_ARGUMENT", message);
}

export function notFound(message: string): HttpError {
  return new HttpError(404, "NOT_FOUND", message);
}

/** The statuses of the codes of the library. Every other code is 500. */
const STATUSES: Readonly<Partial<Record<SavepointErrorCode, number>>> = {
  INVALID_ARGUMENT: 400,
  INVALID_ID: 400,
  INVALID_STATE: 400,
  INPUT_MISMATCH: 400,
  UNANSWERED_TOOL_CALLS: 400,
  ACCESS_DENIED: 403,
  OUT_OF_SCOPE: 403,
  READ_ONLY: 403,
  AGENT_NOT_FOUND: 404,
  BRANCH_NOT_FOUND: 404,
  CHECKPOINT_NOT_FOUND: 404,
  CONVERSATION_NOT_FOUND: 404,
  SESSION_DELETED: 404,
  SESSION_NOT_FOUND: 404,
  AGENT_MISMATCH: 409,
  ALREADY_RUNNING: 409,
  BRANCH_EXISTS: 409,
  CONFLICT: 409,
  LEASE_LOST: 409,
  NOT_WAITING: 409,
  RUN_ENDED: 409,
  DAMAGED: 422,
  BUSY: 503,
  CLOSED: 503,
  TIMEOUT: 503,
  UNAVAILABLE: 503,
};

/** Messages quote what was sent, such as a path. A longer message is cut, in characters. */
const MAX_MESSAGE = 4000;

/** The response to an error: its status, its code and its message. */
export function describeHttpError(error: unknown): {
  readonly status: number;
  readonly code: string;
  readonly message: string;
} {
  if (error instanceof HttpError) return { status: error.status, code: error.code, message: error.message };
  if (isSavepointError(error)) {
    return { status: STATUSES[error.code] ?? 500, code: error.code, message: error.message.slice(0, MAX_MESSAGE) };
  }
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { status: 500, code: "UNEXPECTED", message: `The inspector failed: ${message}` };
}
