/**
 * `postgres:`, the store that many machines share.
 *
 * Every read and every write is one statement and a transaction of its own: nothing is locked between two round trips, and
 * any connection can be used. Commits that wait at the same time are sent together. Times are those of the database.
 */
import { createHash } from "node:crypto";
import { isSavepointError, SavepointError } from "../../errors.js";
import { pickByKey, type Span } from "../../util/index.js";
import {
  CloseableStore,
  GroupCommit,
  type ListOptions,
  overrideStore,
  type RecordResult,
  type ReserveOptions,
  type RetainOptions,
} from "../shared/index.js";
import {
  type Commit,
  type CommitResult,
  covers,
  type Frame,
  type Freed,
  type ItemRefs,
  type ItemSpan,
  type KeyRange,
  type ScrubResult,
  type Store,
  type StoredRanges,
  type Unreadable,
} from "../contract/index.js";
import { type ChunkRow, type CompressedBody, readBlob, readRefs } from "../chunks/index.js";
import { textArray } from "./arrays.js";
import { columns, RANGE_ARRAYS } from "./columns.js";
import { PostgresConnection } from "./connection.js";
import { openPool } from "./driver.js";
import { postgresFailure } from "./errors.js";
import { NotificationListener } from "./listener.js";
import type { PostgresOptions, PostgresTarget } from "./options.js";
import { type PostgresRecordRow, type Raw, recordColumns, toNumbers, toRecord } from "./rows.js";
import { readItems, chunkQuery, chunkQueryValues } from "./chunk-reader.js";
import { readOpening } from "./opening.js";
import { checkServer, readServerSettings } from "./server-check.js";
import { migrate, quoteName } from "./schema.js";
import { PostgresPacker } from "./packer.js";
import { tablesOf } from "./parts.js";
import { printCompact, printPortable } from "./printer.js";
import { ServerClock } from "./server-clock.js";
import { PostgresTextIndex } from "./text-index.js";
import { parsePostgresUrl } from "./url.js";
import { PostgresWriter } from "./writer.js";
import { ADD, CLOCK, EQ, GE, GT, LE, LIKE, LT } from "./operators.js";

/** Opens a PostgreSQL store. Creates its schema and tables if they do not exist, unless `create` is false or `readOnly` is set. */
export async function openPostgresStore(target: PostgresTarget, options: PostgresOptions = {}): Promise<Store> {
  const parsed = typeof target === "string" ? parsePostgresUrl(target) : undefined;
  const url = parsed?.displayUrl ?? "postgres: (your pool)";
  const schema = quoteName(options.schema ?? parsed?.schema ?? "savepoint");
  const { connections = 4 } = options;
  if (!Number.isInteger(connections) || connections < 1) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `\`connections\` must be a positive integer, got ${String(connections)}.`,
    );
  }
  const pool = typeof target === "string" ? await openPool(parsed?.connectionString ?? target, connections) : target;
  const connection = new PostgresConnection(pool, url, schema, pool !== target, options);
  try {
    const { readOnly = false, create = true } = options;
    const portable = options.portable ?? parsed?.portable ?? false;
    const serverClock = new ServerClock(() => queryTime(connection));
    const askedAt = performance.now();
    // The owner of a store that is only read is not trusted: its tables are checked before anything is read from them.
    const opening = readOnly || portable ? undefined : await readOpening(connection);
    if (opening) serverClock.note(opening.now, askedAt);
    const settings = opening?.settings ?? (await readServerSettings(connection));
    const syncs = checkServer(url, settings, { ...options, portable });
    if (!opening) await migrate(connection, { create: !readOnly && create, readOnly, portable });
    const store = new PostgresStore(connection, serverClock, { ...options, portable, syncs });
    return portable ? overrideStore(store, { texts: undefined, reserve: undefined, listen: undefined }) : store;
  } catch (error) {
    await connection.close();
    throw postgresFailure(error, url, "Opening");
  }
}

async function queryTime(connection: PostgresConnection): Promise<number> {
  const [row] = await connection.rows<{ now: string }>(`SELECT ${CLOCK} AS now`);
  return Number(row?.now);
}

/** All keys, except for those that begin with the last characters of Unicode. */
const EVERYTHING: KeyRange = { from: "", to: "\u{10ffff}" };

const lengthOf = (column: string): string => `pg_catalog.octet_length(${column})`;

class PostgresStore extends CloseableStore implements Store {
  readonly url: string;
  readonly capabilities = { durable: true, shared: true };
  readonly texts: PostgresTextIndex;
  readonly #connection: PostgresConnection;
  readonly #records: string;
  readonly #chunks: string;
  readonly #blobs: string;
  /** The clock of the options; `undefined` for the server's. */
  readonly #ownClock: (() => number) | undefined;
  readonly #serverClock: ServerClock;
  readonly #packer: PostgresPacker;
  readonly #commits: GroupCommit;
  readonly #listener: NotificationListener;
  readonly #isPortable: boolean;

  constructor(
    connection: PostgresConnection,
    serverClock: ServerClock,
    options: PostgresOptions & { readonly syncs: boolean },
  ) {
    super();
    const { schema } = connection;
    this.url = connection.url;
    this.#connection = connection;
    this.#records = `${schema}.savepoint_record`;
    this.#chunks = `${schema}.savepoint_chunk`;
    this.#blobs = `${schema}.savepoint_blob`;
    this.#ownClock = options.now;
    this.#serverClock = serverClock;
    this.#packer = new PostgresPacker(connection, options);
    // A hash: with the prefix, the name of a schema may be too long for a channel.
    const channel = `savepoint_${createHash("sha256").update(schema).digest("hex").slice(0, 16)}`;
    this.#listener = new NotificationListener(connection, channel);
    this.texts = new PostgresTextIndex(connection, () => this.assertOpen());
    const { portable = false, durability, syncs } = options;
    this.#isPortable = portable;
    const isDurable = durability !== "process";
    // A server that does not sync by default has the setting `synchronous_commit`. The portable profile never turns it off,
    // because other databases may not have it.
    const sync = syncs === isDurable ? undefined : isDurable ? "on" : portable ? undefined : "off";
    const writer = new PostgresWriter(connection, options, {
      print: portable ? printPortable : printCompact,
      printing: { tables: tablesOf(schema), channel, sync },
      onApplied: (batches) => {
        for (const batch of batches) this.#packer.noteItems(batch);
      },
    });
    this.#commits = new GroupCommit((commits) => writer.apply(commits));
  }

  async get(keys: readonly string[]): Promise<(RecordResult | undefined)[]> {
    this.assertOpen();
    if (keys.length === 0) return [];
    const rows = await this.#connection.rows<PostgresRecordRow>(
      `SELECT ${recordColumns()} FROM ${this.#records} WHERE key ${EQ} ANY ($1::pg_catalog.text[])`,
      [textArray(keys)],
    );
    return pickByKey(keys, rows.map(toRecord), ({ key }) => key);
  }

  async list(range: KeyRange, { limit, reverse = false }: ListOptions): Promise<RecordResult[]> {
    this.assertOpen();
    const rows = await this.#connection.rows<PostgresRecordRow>(
      `SELECT ${recordColumns()} FROM ${this.#records} WHERE key ${GE} $1 AND key ${LT} $2
       ORDER BY key ${reverse ? "DESC" : "ASC"} LIMIT $3`,
      [range.from, range.to, limit],
    );
    return rows.map(toRecord);
  }

  async items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    this.assertOpen();
    return readItems(this.#connection, spans);
  }

  async blob(hash: string): Promise<Uint8Array | Unreadable> {
    this.assertOpen();
    const sql = `SELECT codec, body FROM ${this.#blobs} WHERE hash ${EQ} $1`;
    const [row] = await this.#connection.rows<CompressedBody>(sql, [hash]);
    return readBlob(hash, row);
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.assertOpen();
    try {
      const result = await this.#commits.commit(commit);
      // The server noted its time as the last use of the blobs, and the computed time may be a little earlier.
      if (commit.blobs?.length) this.#serverClock.forget();
      return result;
    } catch (error) {
      // The commit was sent because the computed time had reached notBefore: the server disagrees.
      if (commit.notBefore !== undefined && isSavepointError(error, "CONFLICT")) this.#serverClock.forget();
      throw error;
    }
  }

  async now(): Promise<number> {
    this.assertOpen();
    return this.#ownClock?.() ?? this.#serverClock.now();
  }

  async itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    this.assertOpen();
    const heads = `tape, first, count, codec, sum, head, CASE WHEN count ${EQ} 1 THEN body END AS body`;
    const sql = chunkQuery(this.#connection.schema, heads, [span]);
    const rows = await this.#connection.rows<Raw<ChunkRow>>(sql, chunkQueryValues([span]));
    return readRefs(rows.map(toNumbers), span);
  }

  async tapes(range: KeyRange): Promise<string[]> {
    this.assertOpen();
    // Skips from one tape to the next, because a tape has many rows.
    const rows = await this.#connection.rows<{ tape: string | null }>(
      `WITH RECURSIVE t AS (
        (SELECT tape FROM ${this.#chunks} WHERE tape ${GE} $1 AND tape ${LT} $2 ORDER BY tape LIMIT 1)
        UNION ALL
        SELECT (SELECT r.tape FROM ${this.#chunks} r WHERE r.tape ${GT} t.tape AND r.tape ${LT} $2 ORDER BY r.tape LIMIT 1)
        FROM t WHERE t.tape IS NOT NULL
      ) SELECT tape FROM t WHERE tape IS NOT NULL`,
      [range.from, range.to],
    );
    return rows.map(({ tape }) => tape as string);
  }

  async retain(tape: string, live: readonly Span[], options: RetainOptions): Promise<Freed> {
    this.assertOpen();
    return this.#packer.retain(tape, live, options);
  }

  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    this.assertOpen();
    return this.#packer.heal(tape, items);
  }

  async blobs({ after, limit }: { after: string; limit: number }): Promise<string[]> {
    this.assertOpen();
    const rows = await this.#connection.rows<{ hash: string }>(
      `SELECT hash FROM ${this.#blobs} WHERE hash ${GT} $1 ORDER BY hash LIMIT $2`,
      [after, limit],
    );
    return rows.map(({ hash }) => hash);
  }

  async dropBlobs(hashes: readonly string[], { unusedSince }: { unusedSince: number }): Promise<Freed> {
    this.assertOpen();
    const rows = await this.#connection.rows<{ bytes: number }>(
      `DELETE FROM ${this.#blobs} WHERE hash ${EQ} ANY ($1::pg_catalog.text[]) AND used_at ${LT} $2
       RETURNING pg_catalog.octet_length(body) AS bytes`,
      [textArray(hashes), Math.floor(unusedSince)],
      "Freeing items in",
    );
    return { items: rows.length, bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  /** Packs all tapes and vacuums the tables. Freed space is reused; the server returns only the free end of its files. */
  async compact(): Promise<void> {
    this.assertOpen();
    await this.#packer.packAll();
    if (!this.#isPortable) await this.#vacuum();
  }

  async #vacuum(): Promise<void> {
    for (const table of [this.#records, this.#chunks, this.#blobs]) {
      await this.#connection.query(`VACUUM (ANALYZE) ${table}`, [], "Compacting");
    }
  }

  /** Vacuums the tables of the search index too; {@link compact} has vacuumed the others. */
  async scrub(): Promise<ScrubResult> {
    this.assertOpen();
    const elsewhere = `the write-ahead log, its archives and the replicas of ${this.url} may contain erased data until the server has replaced them`;
    try {
      if (this.#isPortable) await this.#vacuum();
      await this.texts.vacuum();
      return { elsewhere };
    } catch (error) {
      if (!this.#isPortable || !isSavepointError(error, "STORE_FAILED")) throw error;
      // A database other than PostgreSQL, which removes old versions of rows automatically.
      return {
        elsewhere,
        pending: `${this.url} may contain erased data in old versions of rows, which the database removes later`,
      };
    }
  }

  async bytes(): Promise<number> {
    this.assertOpen();
    if (this.#isPortable) return this.#contentBytes();
    const [row] = await this.#connection.rows<{ bytes: string }>(
      `SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_catalog.pg_class c
       WHERE c.relnamespace ${EQ} pg_catalog.to_regnamespace($1) AND c.relkind ${EQ} 'r' AND c.relname ${LIKE} 'savepoint\\_%'`,
      [this.#connection.schema],
    );
    return Number(row?.bytes);
  }

  /** The bytes of everything in the tables. */
  async #contentBytes(): Promise<number> {
    const [row] = await this.#connection.rows<{ bytes: string }>(
      `SELECT coalesce(pg_catalog.sum(${lengthOf("body")}), 0) AS bytes FROM ${this.#blobs}`,
    );
    return Number(row?.bytes) + (await this.bytesOf({ records: [EVERYTHING], tapes: [EVERYTHING] }));
  }

  async bytesOf({ records, tapes }: StoredRanges): Promise<number> {
    this.assertOpen();
    const [row] = await this.#connection.rows<{ bytes: string }>(
      `SELECT (SELECT coalesce(pg_catalog.sum(${lengthOf("r.key")} ${ADD} ${lengthOf("r.refs")} ${ADD} ${lengthOf("r.value")}), 0)
        FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[]) AS w (low, high)
        JOIN ${this.#records} r ON r.key ${GE} w.low AND r.key ${LT} w.high)
      ${ADD} (SELECT coalesce(pg_catalog.sum(${lengthOf("r.head")} ${ADD} ${lengthOf("r.body")}), 0)
        FROM unnest($3::pg_catalog.text[], $4::pg_catalog.text[]) AS w (low, high)
        JOIN ${this.#chunks} r ON r.tape ${GE} w.low AND r.tape ${LT} w.high) AS bytes`,
      [...columns(records, RANGE_ARRAYS), ...columns(tapes, RANGE_ARRAYS)],
    );
    return Number(row?.bytes);
  }

  async reserve(ranges: readonly KeyRange[], { limit, forMs }: ReserveOptions): Promise<RecordResult[]> {
    this.assertOpen();
    const rows = await this.#connection.rows<PostgresRecordRow>(
      `WITH picked AS (
        SELECT r.key FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[]) WITH ORDINALITY AS w (low, high, place)
        CROSS JOIN LATERAL (
          SELECT key FROM ${this.#records} WHERE key ${GE} w.low AND key ${LT} w.high
            AND coalesce(reserved, 0) ${LE} coalesce($5, ${CLOCK})
          ORDER BY key LIMIT $3 FOR UPDATE SKIP LOCKED
        ) AS r ORDER BY w.place, r.key LIMIT $3
      ) UPDATE ${this.#records} r SET reserved = coalesce($5, ${CLOCK}) ${ADD} $4 FROM picked
      WHERE r.key ${EQ} picked.key RETURNING ${recordColumns("r.")}`,
      [...columns(ranges, RANGE_ARRAYS), limit, Math.ceil(forMs), this.#ownClock ? Math.floor(this.#ownClock()) : null],
    );
    const placeOf = (key: string): number => ranges.findIndex((range) => covers(range, key));
    return rows.map(toRecord).sort((a, b) => placeOf(a.key) - placeOf(b.key) || (a.key < b.key ? -1 : 1));
  }

  async listen(listener: (name: string) => void): Promise<() => Promise<void>> {
    this.assertOpen();
    return this.#listener.add(listener);
  }

  protected async release(): Promise<void> {
    await this.#commits.idle();
    await this.#packer.close();
    await this.#listener.close();
    await this.#connection.close();
  }
}
