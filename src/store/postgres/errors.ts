/** Maps errors of PostgreSQL and of the network to errors of Savepoint. */
import { SavepointError, type SavepointErrorCode } from "../../errors.js";

/** The fields of an error of `pg`. */
interface PostgresError {
  readonly code?: string;
  readonly message?: string;
  readonly errors?: readonly unknown[];
  /** The failed system call. */
  readonly syscall?: string;
}

/** SQLSTATEs of a server that is starting, stopping, out of connections, or uncertain about the outcome. */
const UNREACHABLE_STATES = new Set(["57P01", "57P02", "57P03", "57P05", "53300", "40003"]);
/** Network errors. */
const UNREACHABLE_CODES = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"]);
/** Messages of `pg` for errors without a code. */
const UNREACHABLE_MESSAGES =
  /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|server closed the connection|Query read timeout)/;

const UNKNOWN_HOST = new Set(["ENOTFOUND", "EAI_AGAIN"]);
const READ_ONLY = "25006";
/** The format of the error codes of the server. */
const SQL_STATE = /^[0-9A-Z]{5}$/;

export function sqlStateOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null ? (error as PostgresError).code : undefined;
}

/** Whether the server could not be reached, or the connection was cut. Then it is unknown whether a statement was executed. */
export function isUnreachable(error: unknown): boolean {
  const { code = "", message = "", errors = [], syscall } = (error ?? {}) as PostgresError;
  if (UNREACHABLE_STATES.has(code) || UNREACHABLE_CODES.has(code) || code.startsWith("08")) return true;
  // A missing socket: the server may be starting. Other missing files are permanent errors.
  if (code === "ENOENT" && syscall === "connect") return true;
  return UNREACHABLE_MESSAGES.test(message) || (errors.length > 0 && errors.every(isUnreachable));
}

/** Whether a retry may succeed soon. Includes a failover, while host names change or the new primary is still read-only. */
export function isTransient(error: unknown): boolean {
  const state = sqlStateOf(error) ?? "";
  return isUnreachable(error) || UNKNOWN_HOST.has(state) || state === READ_ONLY;
}

/**
 * The SQLSTATEs with which a statement of a commit fails if a condition does not hold: a division by zero, a count that is null,
 * and a chunk that another process has just added.
 */
const CONDITION_STATES = new Set(["22012", "23502", "23505"]);

/** Whether a condition of a commit did not hold. */
export function isConditionFailure(error: unknown): boolean {
  return CONDITION_STATES.has(sqlStateOf(error) ?? "");
}

/**
 * Whether a statement failed because of its data, and others may succeed: a condition does not hold, the server cannot store a
 * value, or a page of its files is damaged.
 */
export function isDataError(error: unknown): boolean {
  return /^(22|23|54|XX)...$/.test(sqlStateOf(error) ?? "");
}

/** Whether a deadlock or serialization failure rolled the statement back. It can be retried. */
export function isDeadlock(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "40P01" || state === "40001";
}

/** Whether a prepared statement does not exist on this connection, or its name is used by another one. */
export function isStatementMissing(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "26000" || state === "42P05";
}

/** The code and the advice for each SQLSTATE. */
const FAILURES: readonly (readonly [states: readonly string[], code: SavepointErrorCode, advice: string])[] = [
  [["28P01"], "ACCESS_DENIED", "Check user and password."],
  [["28000"], "ACCESS_DENIED", "Check the user, and pg_hba.conf on the server."],
  [
    ["42501"],
    "ACCESS_DENIED",
    "Grant the user the permissions for the schema (GRANT ALL ON SCHEMA … TO …), or to create it (GRANT CREATE ON DATABASE … TO …).",
  ],
  [["3D000"], "STORE_NOT_FOUND", "The database does not exist. Create it (CREATE DATABASE …), or use another name."],
  [["53100"], "IO_FAILED", "The disk of the server is full. Free some space. Nothing that was saved is lost."],
  [
    ["54000"],
    "INVALID_ID",
    "Ids are too long for an index: those of session, branch and key may have 2,600 bytes together.",
  ],
  [[READ_ONLY], "IO_FAILED", "This server is read-only. Use the URL of the primary."],
  [["58030"], "IO_FAILED", "Check the server's disk."],
  [["XX001", "XX002"], "DAMAGED", "The files of the server are damaged. Restore them from a backup."],
  [["40P01", "40001", "55P03", "57014"], "BUSY", "Other transactions held locks. Try again."],
  [["42P01", "3F000", "42883"], "STORE_FAILED", "Tables of Savepoint are missing. Open the store again."],
];

const TLS_ADVICE = `Set the mode in the URL: "?sslmode=verify-full" or "?sslmode=disable", and "&sslrootcert=…" for your own certificate.`;

/**
 * Converts any error to a `SavepointError`, with advice. Returns a `SavepointError` unchanged.
 *
 * @param purpose the operation that failed, such as "Reading"
 */
export function postgresFailure(error: unknown, url: string, purpose: string): SavepointError {
  if (error instanceof SavepointError) return error;
  const { message, errors = [] } = (error ?? {}) as PostgresError;
  const first = errors[0] as PostgresError | undefined;
  const reason = message || first?.message || String(error);
  const failure = (code: SavepointErrorCode, advice: string): SavepointError =>
    new SavepointError(code, `${purpose} ${url} failed: ${reason}. ${advice}`, { cause: error });
  const state = sqlStateOf(error) ?? "";
  if (isUnreachable(error))
    return failure("UNAVAILABLE", "Check that the server is running, and that host and port are correct.");
  if (UNKNOWN_HOST.has(state)) return failure("UNAVAILABLE", "The host name is unknown. Check it.");
  // Errors of the server are recognized by their code: their messages contain names, which may be any words.
  if (!SQL_STATE.test(state)) {
    if (/SCRAM|password must be a string|SASL/i.test(reason)) {
      return failure("ACCESS_DENIED", "The server requires a password: set PGPASSWORD, or add a line to ~/.pgpass.");
    }
    if (state === "ENOENT" || state === "EACCES") {
      return failure("ACCESS_DENIED", "A file in the URL, such as a certificate, cannot be read.");
    }
    if (/self.signed|certificate|TLS|SSL|unable to verify/i.test(reason) || state.startsWith("ERR_TLS")) {
      return failure("ACCESS_DENIED", TLS_ADVICE);
    }
  }
  if (state === "28000" && reason.endsWith("no encryption")) return failure("ACCESS_DENIED", TLS_ADVICE);
  const [, code, advice] = FAILURES.find(([states]) => states.includes(state)) ?? [];
  return failure(code ?? "STORE_FAILED", advice ?? "See the cause for details.");
}
