/** What an error of PostgreSQL, or of the way to it, means as an error of Savepoint. */
import { SavepointError, type SavepointErrorCode } from "../../errors.js";

/** What an error of `pg` may tell. */
interface PostgresError {
  readonly code?: string;
  readonly detail?: string;
  readonly message?: string;
  readonly errors?: readonly unknown[];
  /** What the system was asked to do. */
  readonly syscall?: string;
}

/** The server is there but not to be had just now: it starts, stops, has no connection left, or does not know itself. */
const AWAY_STATES = new Set(["57P01", "57P02", "57P03", "57P05", "53300", "40003"]);
/** Errors of the network. */
const AWAY_CODES = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"]);
/** What `pg` says where there is no code. */
const AWAY_TEXTS =
  /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|server closed the connection|Query read timeout)/;

const NOT_KNOWN = new Set(["ENOTFOUND", "EAI_AGAIN"]);
const READ_ONLY = "25006";
/** How the server itself names an error. */
const SQL_STATE = /^[0-9A-Z]{5}$/;

export function sqlStateOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null ? (error as PostgresError).code : undefined;
}

/** What is said beside the message. */
export function errorDetailOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null ? (error as PostgresError).detail : undefined;
}

/** Could nobody be reached, or was the connection cut? Whether what was sent has been done, nobody knows then. */
export function isUnreachable(error: unknown): boolean {
  const { code = "", message = "", errors = [], syscall } = (error ?? {}) as PostgresError;
  if (AWAY_STATES.has(code) || AWAY_CODES.has(code) || code.startsWith("08")) return true;
  // A socket that is not there. Other files that are not there do not come by themselves.
  if (code === "ENOENT" && syscall === "connect") return true;
  return AWAY_TEXTS.test(message) || (errors.length > 0 && errors.every(isUnreachable));
}

/** May it be over in a moment? Also while names of hosts are changed over, and what is reached is not the primary yet. */
export function isTransient(error: unknown): boolean {
  const state = sqlStateOf(error) ?? "";
  return isUnreachable(error) || NOT_KNOWN.has(state) || state === READ_ONLY;
}

/** Two statements waited for each other, or could not both be done: nothing of this one was, and it can be tried again. */
export function isDeadlock(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "40P01" || state === "40001";
}

/** Is a prepared statement not where it was prepared, or another one in its place? */
export function isStatementMissing(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "26000" || state === "42P05";
}

const TLS_ADVICE = `Say in the URL what is wanted: "?sslmode=verify-full" or "?sslmode=disable", and "&sslrootcert=…" for a certificate of your own.`;

/** The error to show for what was thrown while doing `what`; one of our own stays as it is. */
export function postgresFailure(error: unknown, url: string, what: string): SavepointError {
  if (error instanceof SavepointError) return error;
  const { message, errors = [] } = (error ?? {}) as PostgresError;
  const first = errors[0] as PostgresError | undefined;
  const reason = message || first?.message || String(error);
  const failure = (code: SavepointErrorCode, advice: string): SavepointError =>
    new SavepointError(code, `${what} ${url} failed: ${reason}. ${advice}`, { cause: error });
  const state = sqlStateOf(error) ?? "";
  if (isUnreachable(error)) return failure("UNAVAILABLE", "Is the server running, and are host and port right?");
  if (NOT_KNOWN.has(state)) return failure("UNAVAILABLE", "No such host is known. Is its name right?");
  // What the server says is known by its state: in its texts are names, which may be any words.
  if (!SQL_STATE.test(state)) {
    if (/SCRAM|password must be a string|SASL/i.test(reason)) {
      return failure("ACCESS_DENIED", "The server wants a password: put it into the URL, or set PGPASSWORD.");
    }
    if (state === "ENOENT" || state === "EACCES") {
      return failure("ACCESS_DENIED", "A file that the URL names, such as a certificate, cannot be read.");
    }
    if (/self.signed|certificate|TLS|SSL|unable to verify/i.test(reason) || state.startsWith("ERR_TLS")) {
      return failure("ACCESS_DENIED", TLS_ADVICE);
    }
  }
  switch (state) {
    case "28P01":
      return failure("ACCESS_DENIED", "Check user and password.");
    case "28000":
      if (reason.endsWith("no encryption")) return failure("ACCESS_DENIED", TLS_ADVICE);
      return failure("ACCESS_DENIED", "Check the user, and pg_hba.conf on the server.");
    case "42501":
      return failure(
        "ACCESS_DENIED",
        "The user needs the rights to its schema (GRANT ALL ON SCHEMA … TO …), or, where there is none yet, to make one (GRANT CREATE ON DATABASE … TO …).",
      );
    case "3D000":
      return failure(
        "STORE_NOT_FOUND",
        "There is no such database: create it (CREATE DATABASE …), or give another name.",
      );
    case "53100":
      return failure("IO_FAILED", "The server's disk is full: free some space; nothing that was saved is lost.");
    case "54000":
      return failure(
        "INVALID_ID",
        "Ids are too long for an index: those of session, branch and key may have 2,600 bytes together.",
      );
    case READ_ONLY:
      return failure("IO_FAILED", "This server can only be read: give the URL of the primary.");
    case "58030":
      return failure("IO_FAILED", "Check the server's disk.");
    case "XX001":
    case "XX002":
      return failure("DAMAGED", "The server has found damage in its files: restore them from a backup.");
    case "40P01":
    case "40001":
    case "55P03":
    case "57014":
      return failure("BUSY", "Others were in the way; try again.");
    case "42P01":
    case "3F000":
    case "42883":
      return failure("STORE_FAILED", "Savepoint's tables or functions are not there any more: open the store again.");
    default:
      return failure("STORE_FAILED", "The cause says more.");
  }
}
