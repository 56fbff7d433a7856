/**
 * The connection to the database: runs single statements over a pool, each in its own transaction, and reserves connections for
 * transactions of several statements. While the database is unreachable, a single statement is retried for as long as the options
 * allow.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { storeClosed } from "../shared/index.js";
import { toMilliseconds } from "../../util/index.js";
import { busyTimeoutOf } from "../contract/index.js";
import { canBatch, sendBatch, StatementError } from "./batch.js";
import type { PostgresClient, PostgresPool, PostgresResult, PostgresValue, Statement } from "./driver.js";
import { isDataError, isUnreachable, isDeadlock, isStatementMissing, isTransient, postgresFailure } from "./errors.js";
import type { PostgresOptions } from "./options.js";

/** Pauses between attempts, in milliseconds. The last one is repeated. */
const PAUSES = [20, 50, 100, 200, 500];
/** How often a statement is retried after a deadlock or a serialization failure. */
const MAX_DEADLOCKS = 20;

/** The purpose of a statement, for messages. */
export type Purpose =
  | "Reading"
  | "Writing to"
  | "Packing"
  | "Freeing items in"
  | "Searching"
  | "Opening"
  | "Compacting";

export class PostgresConnection {
  readonly url: string;
  /** The quoted schema. */
  readonly schema: string;
  /** Whether the pool has more than one connection, so that one can be reserved. */
  readonly hasSpareConnection: boolean;
  /** How long transactions of several statements wait for a lock, in milliseconds. */
  readonly busyTimeout: number;
  readonly #pool: PostgresPool;
  readonly #isOwned: boolean;
  /** Whether commits have a connection of their own. */
  readonly #hasWriter: boolean;
  readonly #patience: number;
  #isEnded = false;
  #canPrepare = true;
  #writer: PostgresClient | undefined;
  readonly #closing = new AbortController();
  /** The number of statements and transactions that have not ended. */
  #inProgress = 0;
  readonly #idleWaiters: (() => void)[] = [];

  constructor(pool: PostgresPool, url: string, schema: string, owned: boolean, options: PostgresOptions) {
    this.#pool = pool;
    this.url = url;
    this.schema = schema;
    this.#isOwned = owned;
    // One connection may listen and one writes: a third is needed for everything else.
    const size = pool.options?.max ?? 10;
    this.hasSpareConnection = size > 1;
    this.#hasWriter = owned && size > 2;
    this.busyTimeout = busyTimeoutOf(options);
    this.#patience = toMilliseconds(options.patience ?? 30_000, "patience");
    // While the database is unreachable, every waiting statement adds a listener.
    setMaxListeners(0, this.#closing.signal);
    // If an idle connection breaks, the pool opens a new one when it next needs a connection, so the error can be ignored.
    pool.on("error", ignoreIdleError);
    // The errors of the caller's own clients are handled by the caller.
    pool.on("acquire", owned ? guardClient : guardBriefly);
  }

  async rows<Row>(sql: string, values: PostgresValue[] = [], purpose: Purpose = "Reading"): Promise<Row[]> {
    return (await this.query(sql, values, purpose)).rows as Row[];
  }

  /** Runs one statement. */
  query(sql: string, values: PostgresValue[], purpose: Purpose): Promise<PostgresResult> {
    return this.#retry(purpose, () => this.#pool.query({ text: sql, values }));
  }

  /**
   * Runs statements that change something as one transaction. If one of them fails because of the data that it finds or writes,
   * nothing is changed, and the result is the error of that statement.
   *
   * @param onUncertain called before a retry if an earlier attempt may have been applied
   */
  write(
    statements: readonly Statement[],
    purpose: Purpose,
    onUncertain?: () => void,
  ): Promise<StatementError | undefined> {
    if (statements.length === 0) return Promise.resolve(undefined);
    return this.#retry(purpose, () => this.#writeOnce(statements, purpose), onUncertain);
  }

  /** @returns the error of a statement that has failed because of its data */
  async #writeOnce(statements: readonly Statement[], purpose: Purpose): Promise<StatementError | undefined> {
    // Commits are sent one after another over a connection of their own, because acquiring one from the pool each time costs
    // more than the statement. With a pool of the caller, and for all other writes, a connection is acquired each time.
    const hasOwn = this.#hasWriter && purpose === "Writing to";
    const writer = hasOwn ? (this.#writer ?? (await this.#connectWriter())) : undefined;
    try {
      if (writer) await this.#send(writer, statements);
      else await this.#useClient((client) => this.#send(client, statements));
      return undefined;
    } catch (error) {
      const cause = error instanceof StatementError ? error.cause : error;
      if (writer && isTransient(cause)) {
        this.#writer = undefined;
        writer.release(true);
      }
      if (error instanceof StatementError && isDataError(cause)) return error;
      throw cause;
    }
  }

  async #connectWriter(): Promise<PostgresClient> {
    const writer = (this.#writer = await this.#pool.connect());
    // If it breaks while idle, the next statement fails.
    writer.on("error", ignoreIdleError);
    return writer;
  }

  /** Retries work while the database is unreachable, and after a deadlock. */
  async #retry<T>(purpose: Purpose, work: () => Promise<T>, onUncertain?: () => void): Promise<T> {
    const deadline = performance.now() + (purpose === "Opening" ? 0 : this.#patience);
    for (let [failures, deadlocks] = [0, 0]; ;) {
      const prepares = this.#canPrepare;
      try {
        if (this.#isEnded) throw storeClosed(this.url);
        this.#begin();
        try {
          return await work();
        } finally {
          this.#end();
        }
      } catch (error) {
        // A pooler has changed the connection, and does not support prepared statements. Nothing was executed.
        if (prepares && isStatementMissing(error)) {
          this.#canPrepare = false;
          continue;
        }
        if (isDeadlock(error) && deadlocks++ < MAX_DEADLOCKS) {
          await sleep(Math.random() * 5 * deadlocks);
          continue;
        }
        const pause = PAUSES[Math.min(failures++, PAUSES.length - 1)] as number;
        const stop = this.#closing.signal.aborted || performance.now() + pause > deadline;
        if (!isTransient(error) || stop) throw postgresFailure(error, this.url, purpose);
        onUncertain?.();
        // Closing the store ends the pause.
        await sleep(pause, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** Sends statements as one transaction: in one round trip if the client is one of `pg`. */
  #send(client: PostgresClient, statements: readonly Statement[]): Promise<void> {
    if (canBatch(client)) return sendBatch(client, statements, this.#canPrepare);
    return this.#sendEach(client, statements);
  }

  async #sendEach(client: PostgresClient, statements: readonly Statement[]): Promise<void> {
    await client.query("BEGIN");
    for (const [index, { name, text, values }] of statements.entries()) {
      const isNamed = this.#canPrepare && name !== undefined;
      try {
        await client.query(isNamed ? { name, text, values } : { text, values });
      } catch (error) {
        if (!isUnreachable(error)) await client.query("ROLLBACK");
        throw new StatementError(error, index);
      }
    }
    await client.query("COMMIT");
  }

  /** Reserves one connection for a transaction of several statements. */
  async withClient<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    this.#begin();
    try {
      return await this.#useClient(work);
    } finally {
      this.#end();
    }
  }

  async #useClient<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    if (this.#isEnded) throw storeClosed(this.url);
    const client = await this.connect();
    let broken = false;
    // Without a listener, the error event of a broken connection would end the process. The event can be ignored, because the next
    // statement on the connection fails anyway.
    client.on("error", ignoreIdleError);
    try {
      return await work(client);
    } catch (error) {
      broken = isUnreachable(error instanceof StatementError ? error.cause : error);
      throw error;
    } finally {
      client.release(broken);
      client.off("error", ignoreIdleError);
    }
  }

  connect(): Promise<PostgresClient> {
    return this.#pool.connect();
  }

  #begin(): void {
    this.#inProgress++;
  }

  #end(): void {
    if (--this.#inProgress > 0) return;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }

  /** Ends all pauses between attempts: statements that fail are no longer retried. */
  abortWaits(): void {
    this.#closing.abort();
  }

  async close(): Promise<void> {
    this.abortWaits();
    // Ending a pool drops callers that wait for a connection.
    while (this.#inProgress > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
    this.#isEnded = true;
    this.#writer?.release();
    if (this.#isOwned) await this.#pool.end();
    // The listener stays on a pool that belongs to the store: the server may still send errors while connections end.
    if (this.#isOwned) return;
    this.#pool.off("error", ignoreIdleError);
    this.#pool.off("acquire", guardBriefly);
  }
}

function ignoreIdleError(): void {}

const guarded = new WeakSet<PostgresClient>();

/** Handles errors of a connection that breaks right after it was acquired, before the caller can add a listener. */
function guardClient(client: PostgresClient): void {
  if (guarded.has(client)) return;
  guarded.add(client);
  client.on("error", ignoreIdleError);
}

/**
 * Like {@link guardClient}, but only until the code that waits for the connection continues, so that no listener stays on a
 * client of the user.
 */
function guardBriefly(client: PostgresClient): void {
  client.on("error", ignoreIdleError);
  process.nextTick(() => client.off("error", ignoreIdleError));
}
