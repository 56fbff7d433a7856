/**
 * Opening an existing store with one request: the settings of the server, the format of the store and the server's time.
 *
 * It acquires only the locks of a read. If it finds anything but a readable store of the current format, `migrate` is called: it waits
 * for locks, creates or migrates the tables, and throws the errors.
 */
import { SavepointError } from "../../errors.js";
import type { PostgresConnection } from "./connection.js";
import { sqlStateOf } from "./errors.js";
import { CURRENT_FORMAT } from "./schema.js";
import { SERVER_SETTINGS, type ServerSettings } from "./server-check.js";
import { CLOCK, EQ } from "./operators.js";

/** How long to wait for a lock before `migrate` waits for it and finds its holder, in milliseconds. */
const LOCK_TIMEOUT = 100;

/** SQLSTATEs after which `migrate` finds out more: a schema, a table, a column or a permission is missing, or a table is locked. */
const LEFT_TO_MIGRATE = new Set(["3F000", "42P01", "42703", "42501", "55P03"]);

/** What was read from a store of the current format. */
export interface Opening {
  readonly settings: ServerSettings;
  /** The server's time, in milliseconds. */
  readonly now: number;
}

interface OpeningRow extends ServerSettings {
  readonly format: string | null;
  readonly now: string;
}

/** Reads a store of the current format; `undefined` if it may not be one, or is locked. */
export async function readOpening(connection: PostgresConnection): Promise<Opening | undefined> {
  const s = connection.schema;
  // Statements without parameters that are sent together are one transaction. The second one reads nothing: if a table is locked,
  // opening fails, and not the first read.
  const sql = `SELECT pg_catalog.set_config('lock_timeout', '${LOCK_TIMEOUT}', true);
    SELECT FROM ${s}.savepoint_record, ${s}.savepoint_chunk, ${s}.savepoint_blob LIMIT 0;
    SELECT ${SERVER_SETTINGS}, (SELECT value FROM ${s}.savepoint_meta WHERE key ${EQ} 'schema') AS format, ${CLOCK} AS now`;
  try {
    const results: unknown = await connection.query(sql, [], "Opening");
    const row = Array.isArray(results) ? ((results.at(-1) as { rows: unknown[] }).rows[0] as OpeningRow) : undefined;
    return row?.format === String(CURRENT_FORMAT) ? { settings: row, now: Number(row.now) } : undefined;
  } catch (error) {
    const cause = error instanceof SavepointError ? error.cause : error;
    if (LEFT_TO_MIGRATE.has(sqlStateOf(cause) ?? "")) return undefined;
    throw error;
  }
}
