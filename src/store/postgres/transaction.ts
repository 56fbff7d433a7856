/**
 * Transactions of several statements, which wait for locks for a bounded time.
 *
 * Another session may hold a lock indefinitely: a process that was frozen inside a migration, or a user who left a
 * transaction open. The limit is set for the transaction alone (`SET LOCAL`), so that a pooler can give its connection to
 * another client afterwards.
 */
import { SavepointError } from "../../errors.js";
import type { PostgresConnection, Purpose } from "./connection.js";
import type { PostgresClient } from "./driver.js";
import { isUnreachable, sqlStateOf } from "./errors.js";
import { EQ, NE } from "./operators.js";

/** The SQLSTATE with which the server reports that a lock could not be acquired in time. */
const LOCK_TIMEOUT = "55P03";
/** The largest timeout that the server accepts, in milliseconds. */
const MAX_TIMEOUT = 2_147_483_647;
/** The server ends a transaction that was idle for so many milliseconds: its process is frozen or unreachable. */
const MAX_IDLE = 60_000;
/** The longest interval between two queries for the holders of a lock, in milliseconds. */
const MAX_WATCH_INTERVAL = 1000;

const LIMITS = `SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.set_config('lock_timeout', $1, true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true)`;

// Blocking sessions can be queried only while the transaction waits; the holder of an advisory lock also later.
const HOLDERS = `SELECT h.pid, a.application_name AS application, a.usename AS "user", pg_catalog.host(a.client_addr) AS address,
    a.client_port AS port, a.state, a.xact_start::pg_catalog.text AS since
  FROM (SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1)) AS pid
    UNION SELECT pid FROM pg_catalog.pg_locks WHERE locktype ${EQ} 'advisory' AND granted AND objsubid ${EQ} 1
      AND database ${EQ} (SELECT oid FROM pg_catalog.pg_database WHERE datname ${EQ} pg_catalog.current_database())
      AND ((classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) objid::bigint)
        ${EQ} pg_catalog.hashtextextended($2::pg_catalog.text, $3::bigint)) AS h
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid ${EQ} h.pid
  WHERE h.pid ${NE} $1 AND h.pid ${NE} pg_catalog.pg_backend_pid() ORDER BY h.pid`;

const LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1::pg_catalog.text, $2::bigint))";

/** A database session that holds a lock. Fields that the user is not allowed to see are `null`. */
export interface LockHolder {
  readonly pid: number;
  readonly application: string | null;
  readonly user: string | null;
  readonly address: string | null;
  readonly port: number | null;
  readonly state: string | null;
  /** When its transaction began. */
  readonly since: string | null;
}

/** An advisory lock: its name, and a number that distinguishes its uses. */
export interface AdvisoryLock {
  readonly name: string;
  readonly seed: number;
}

export interface TransactionOptions {
  /** The purpose of the transaction, for messages. */
  readonly purpose: Purpose;
  /** How long to wait for each lock, in milliseconds. */
  readonly timeout: number;
  /** An advisory lock that is acquired first, and held until the transaction ends. */
  readonly lock?: AdvisoryLock;
}

/**
 * Runs work in one transaction over a connection of its own. If a lock cannot be acquired in time, it fails with `BUSY`,
 * and the error names the sessions that hold the lock.
 */
export async function runTransaction<T>(
  connection: PostgresConnection,
  options: TransactionOptions,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const { timeout, lock } = options;
  const watch = new LockWatch(connection, options);
  try {
    return await connection.withClient(async (client) => {
      // Explicitly, because changes that others made while this transaction waited for a lock must be visible.
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      try {
        // 0 would mean no limit.
        const limit = Math.min(Math.max(1, Math.ceil(timeout)), MAX_TIMEOUT);
        const { rows } = await client.query(LIMITS, [String(limit), String(MAX_IDLE)]);
        watch.start((rows[0] as { pid: number }).pid);
        if (lock) await client.query(LOCK, [lock.name, lock.seed]);
        const result = await work(client);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        if (!isUnreachable(error)) await client.query("ROLLBACK").catch(() => {});
        throw error;
      } finally {
        watch.stop();
      }
    });
  } catch (error) {
    const cause = error instanceof SavepointError ? error.cause : error;
    if (sqlStateOf(cause) !== LOCK_TIMEOUT) throw error;
    throw lockTimeout(connection.url, options, await watch.holders(), cause);
  }
}

/** Finds the sessions that block a transaction, over another connection. */
class LockWatch {
  readonly #connection: PostgresConnection;
  readonly #options: TransactionOptions;
  #pid = 0;
  #timer: NodeJS.Timeout | undefined;
  #querying: Promise<void> | undefined;
  #holders: readonly LockHolder[] = [];

  constructor(connection: PostgresConnection, options: TransactionOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  start(pid: number): void {
    this.#pid = pid;
    // A query over the same connection would have to wait as well.
    if (!this.#connection.hasSpareConnection) return;
    const interval = Math.min(Math.max(20, this.#options.timeout / 4), MAX_WATCH_INTERVAL);
    this.#timer = setInterval(() => {
      this.#querying ??= this.#query().finally(() => (this.#querying = undefined));
    }, interval);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The sessions that were found last, once the transaction has failed. */
  async holders(): Promise<readonly LockHolder[]> {
    await this.#querying;
    if (this.#holders.length === 0) await this.#query();
    return this.#holders;
  }

  async #query(): Promise<void> {
    const { name = null, seed = 0 } = this.#options.lock ?? {};
    try {
      const found = await this.#connection.rows<LockHolder>(HOLDERS, [this.#pid, name, seed], "Opening");
      if (found.length > 0) this.#holders = found;
    } catch {
      // Only the details of the message are missing: that the lock could not be acquired is reported in any case.
    }
  }
}

function lockTimeout(
  url: string,
  { purpose, timeout }: TransactionOptions,
  holders: readonly LockHolder[],
  cause: unknown,
): SavepointError<"BUSY"> {
  const failed = `${purpose} ${url} failed: another session of the server has held a lock for ${timeout} ms.`;
  const pids = holders.map(({ pid }) => `SELECT pg_terminate_backend(${pid})`).join("; ");
  const advice =
    holders.length === 0
      ? "Find it with pg_blocking_pids() in pg_stat_activity, end it if its process is frozen, and try again."
      : `It is ${holders.map(describeHolder).join(", and ")}. If its process is frozen or gone, end the session (${pids}), and try again.`;
  return new SavepointError("BUSY", `${failed} ${advice} Nothing was changed.`, { cause, details: { holders } });
}

function describeHolder({ pid, application, user, address, port, state, since }: LockHolder): string {
  const from = address === null ? "a local socket" : `${address}:${port}`;
  const details = [
    `application ${JSON.stringify(application ?? "")}`,
    ...(user === null ? [] : [`user ${user}`]),
    `from ${from}`,
    ...(state === null ? [] : [state]),
    ...(since === null ? [] : [`its transaction began ${since}`]),
  ];
  return `backend ${pid} (${details.join(", ")})`;
}
