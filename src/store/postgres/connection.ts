/**
 * The way to the database: statements over a pool, each a transaction of its own. While no database is to be had, a
 * statement is tried again, for as long as the options say.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { storeClosed } from "../shared/index.js";
import { toMilliseconds } from "../../util/index.js";
import { busyTimeoutOf } from "../contract/index.js";
import type { PostgresClient, PostgresPool, PostgresResult, PostgresValue, Statement } from "./driver.js";
import { isUnreachable, isDeadlock, isStatementMissing, isTransient, postgresFailure } from "./errors.js";
import type { PostgresOptions } from "./options.js";

/** Pauses between attempts, in milliseconds: the last one is repeated. */
const PAUSES = [20, 50, 100, 200, 500];
/** How often a statement that crossed others is tried again. */
const MAX_CROSSED = 20;

/** What a statement is for, for messages. */
export type Purpose =
  | "Reading"
  | "Writing to"
  | "Packing"
  | "Freeing items in"
  | "Searching"
  | "Opening"
  | "Compacting";

export class Connection {
  readonly url: string;
  /** The schema, quoted. */
  readonly schema: string;
  /** May one connection be kept from the others? */
  readonly hasSpareConnection: boolean;
  /** How long transactions of several statements wait for a lock, in milliseconds. */
  readonly busyTimeout: number;
  readonly #pool: PostgresPool;
  readonly #owned: boolean;
  /** Do commits have a connection of their own? */
  readonly #dedicates: boolean;
  readonly #patience: number;
  #ended = false;
  #prepares = true;
  #writer: PostgresClient | undefined;
  readonly #closing = new AbortController();
  /** Statements that were asked for and not answered. */
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(pool: PostgresPool, url: string, schema: string, owned: boolean, options: PostgresOptions) {
    this.#pool = pool;
    this.url = url;
    this.schema = schema;
    this.#owned = owned;
    // One may listen, and one writes: there must be another for all the rest, or that waits for ever.
    const size = pool.options?.max ?? 10;
    this.hasSpareConnection = size > 1;
    this.#dedicates = owned && size > 2;
    this.busyTimeout = busyTimeoutOf(options);
    this.#patience = toMilliseconds(options.patience ?? 30_000, "patience");
    // While no database is to be had, as many wait for it as there are statements.
    setMaxListeners(0, this.#closing.signal);
    // A connection that breaks while nobody uses it is replaced when one is next needed.
    pool.on("error", ignoreIdleError);
    // A pool of the caller's own is the caller's to guard.
    if (owned) pool.on("acquire", guard);
  }

  async rows<Row>(sql: string, values: PostgresValue[] = [], purpose: Purpose = "Reading"): Promise<Row[]> {
    return (await this.query(sql, values, purpose)).rows as Row[];
  }

  /**
   * Runs one statement.
   *
   * @param name by which the server may keep it prepared, so that it need not be understood anew each time
   * @param onUncertain told, before it is tried again, that an earlier attempt may have been done
   */
  async query(
    sql: string,
    values: PostgresValue[],
    purpose: Purpose,
    { name, onUncertain }: { name?: string; onUncertain?: () => void } = {},
  ): Promise<PostgresResult> {
    const deadline = performance.now() + (purpose === "Opening" ? 0 : this.#patience);
    for (let [away, crossed] = [0, 0]; ;) {
      const named = name !== undefined && this.#prepares;
      try {
        if (this.#ended) throw storeClosed(this.url);
        const statement = named ? { name, text: sql, values } : { text: sql, values };
        return await this.#track(purpose === "Writing to" ? this.#write(statement) : this.#pool.query(statement));
      } catch (error) {
        // A pooler that changes connections between statements and does not know of it. Nothing was done.
        if (named && isStatementMissing(error)) {
          this.#prepares = false;
          continue;
        }
        if (isDeadlock(error) && crossed++ < MAX_CROSSED) {
          await sleep(Math.random() * 5 * crossed);
          continue;
        }
        const pause = PAUSES[Math.min(away++, PAUSES.length - 1)] as number;
        const stop = this.#closing.signal.aborted || performance.now() + pause > deadline;
        if (!isTransient(error) || stop) throw postgresFailure(error, this.url, purpose);
        onUncertain?.();
        // A store that is being closed does not wait any more.
        await sleep(pause, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** Reserves one connection for a transaction of several statements. */
  withClient<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    return this.#track(this.#exclusive(work));
  }

  async #exclusive<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    if (this.#ended) throw storeClosed(this.url);
    const client = await this.connect();
    let broken = false;
    // A connection that is cut says so also to nobody, which would end the process; the next statement fails as well.
    client.on("error", ignoreIdleError);
    try {
      return await work(client);
    } catch (error) {
      broken = isUnreachable(error);
      throw error;
    } finally {
      client.release(broken);
      client.off("error", ignoreIdleError);
    }
  }

  connect(): Promise<PostgresClient> {
    return this.#pool.connect();
  }

  /**
   * Commits come one after another, and so have a connection of their own: handing one out each time costs more than it
   * does. A pool of the caller's own is left to its ways.
   */
  async #write(statement: Statement): Promise<PostgresResult> {
    if (!this.#dedicates) return this.#pool.query(statement);
    let writer = this.#writer;
    if (!writer) {
      writer = this.#writer = await this.#pool.connect();
      // What breaks it while nothing is sent is met by the next statement.
      writer.on("error", ignoreIdleError);
    }
    try {
      return await writer.query(statement);
    } catch (error) {
      if (isTransient(error)) {
        this.#writer = undefined;
        writer.release(true);
      }
      throw error;
    }
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  /** From now on nothing is waited for. */
  abortWaits(): void {
    this.#closing.abort();
  }

  async close(): Promise<void> {
    this.abortWaits();
    // A pool that is ended forgets who waits for a connection.
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    this.#ended = true;
    this.#writer?.release();
    if (this.#owned) await this.#pool.end();
    // Of its own connections the server may still say something, to nobody.
    if (!this.#owned) this.#pool.off("error", ignoreIdleError);
  }
}

function ignoreIdleError(): void {}

const guarded = new WeakSet<PostgresClient>();

/** One may be cut in the very moment in which it is handed out: before whoever gets it could listen. */
function guard(client: PostgresClient): void {
  if (guarded.has(client)) return;
  guarded.add(client);
  client.on("error", ignoreIdleError);
}
