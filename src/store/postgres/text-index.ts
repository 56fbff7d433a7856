/** The search index of a PostgreSQL store, in tables of its own. */
import { SavepointError } from "../../errors.js";
import {
  DOCUMENTS_PER_SOURCE,
  isSameSource,
  type KeyRange,
  type Mark,
  type SourceUpdate,
  type TextIndex,
  type TextSource,
  type TextUpdate,
} from "../contract/index.js";
import { toIndexableText, toSearchableText } from "../shared/index.js";
import { pickByKey } from "../../util/index.js";
import { integerArray, textArray } from "./arrays.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresClient, PostgresValue } from "./driver.js";
import { postgresFailure, sqlStateOf } from "./errors.js";
import { runTransaction } from "./transaction.js";
import { createTextTables, hasTextTables } from "./text-schema.js";
import { CONCAT, EQ, GE, LIKE, LT } from "./operators.js";

/** Identifies the content of a record: 48 bits of its tag, and the checksum of its references. */
const RECORD_SUM = `('x' ${CONCAT} pg_catalog.encode(pg_catalog.substr(tag, 1, 6), 'hex'))::bit(48)::bigint
  OPERATOR(pg_catalog.#) coalesce(refs_sum, 0)::bigint`;

interface SourceRow extends Omit<TextSource, "id"> {
  readonly id: string;
}

/** SQLSTATEs of missing tables, columns and functions. */
const MISSING_STATES = new Set(["42P01", "42703", "42883"]);

export class PostgresTextIndex implements TextIndex {
  readonly #connection: PostgresConnection;
  readonly #checkOpen: () => void;
  #prepared: Promise<void> | undefined;
  /** The snapshot and the ranges for which `changes` last returned nothing. */
  #unchangedAt: string | undefined;

  /** @param checkOpen throws if the store is closed */
  constructor(connection: PostgresConnection, checkOpen: () => void) {
    this.#connection = connection;
    this.#checkOpen = checkOpen;
  }

  async changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]> {
    await this.#prepare();
    // If the snapshot is the same, no transaction has written anything since.
    const [now] = await this.#rows<{ snapshot: string }>(
      "SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text AS snapshot",
    );
    const moment = `${now?.snapshot} ${JSON.stringify(ranges)}`;
    if (moment === this.#unchangedAt) return [];
    const { schema: s } = this.#connection;
    const marks: Mark[] = [];
    for (const { from, to } of ranges) {
      const rows = await this.#rows<{ key: string; sum: string | null }>(
        `SELECT coalesce(r.key, m.key) AS key, r.sum
         FROM (SELECT key, ${RECORD_SUM} AS sum FROM ${s}.savepoint_record WHERE key ${GE} $1 AND key ${LT} $2) AS r
         FULL JOIN (SELECT key, sum FROM ${s}.savepoint_text_mark WHERE key ${GE} $1 AND key ${LT} $2) AS m ON m.key ${EQ} r.key
         WHERE (m.sum ${EQ} r.sum) IS NOT TRUE ORDER BY 1 LIMIT $3`,
        [from, to, Math.max(0, limit - marks.length)],
      );
      for (const { key, sum } of rows) marks.push({ key, sum: sum === null ? undefined : Number(sum) });
    }
    if (marks.length === 0 && limit > 0) this.#unchangedAt = moment;
    return marks;
  }

  async sources(names: readonly string[]): Promise<(TextSource | undefined)[]> {
    const rows = await this.#sourceRows(`name ${EQ} ANY ($1::pg_catalog.text[])`, textArray(names));
    return pickByKey(names, rows, ({ name }) => name);
  }

  async sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]> {
    const rows = await this.#sourceRows(`id ${EQ} ANY ($1::bigint[])`, integerArray(ids));
    return pickByKey(ids, rows, ({ id }) => id);
  }

  async update({ sources, marks }: TextUpdate): Promise<boolean> {
    await this.#prepare();
    this.#unchangedAt = undefined;
    const { schema: s } = this.#connection;
    return this.#transaction(async (client) => {
      // In a fixed order, so that two updates of the same sources wait for each other and do not deadlock.
      const names = sources.map(({ name }) => name).sort();
      await client.query(
        `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(name, 2::bigint))
         FROM pg_catalog.unnest($1::pg_catalog.text[]) AS n (name) ORDER BY name`,
        [textArray(names)],
      );
      const { rows } = await client.query(
        `SELECT id, name, count, note FROM ${s}.savepoint_text_source WHERE name ${EQ} ANY ($1::pg_catalog.text[])`,
        [textArray(names)],
      );
      const found = new Map((rows as SourceRow[]).map((row) => [row.name, toSource(row)]));
      if (!sources.every(({ name, before }) => isSameSource(found.get(name), before))) return false;
      for (const source of sources) await writeSource(client, s, source);
      await writeMarks(client, s, marks);
      return true;
    });
  }

  async find(text: string, { below, limit }: { below: number; limit: number }): Promise<number[]> {
    await this.#prepare();
    const sought = toSearchableText(text);
    const { schema: s } = this.#connection;
    const like = sought === "" ? "" : `text ${LIKE} $3 AND`;
    const pattern = `%${sought.replace(/[\\%_]/g, (character) => `\\${character}`)}%`;
    const rows = await this.#rows<{ number: string }>(
      `SELECT number FROM ${s}.savepoint_text WHERE ${like} number ${LT} $1 ORDER BY number DESC LIMIT $2`,
      [below, limit, ...(sought === "" ? [] : [pattern])],
    );
    return rows.map(({ number }) => Number(number));
  }

  async remove(names: readonly string[]): Promise<void> {
    this.#checkOpen();
    if (!(await hasTextTables(this.#connection))) return;
    const { schema: s } = this.#connection;
    this.#unchangedAt = undefined;
    await this.#transaction(async (client) => {
      const { rows } = await client.query(
        `DELETE FROM ${s}.savepoint_text_source WHERE name ${EQ} ANY ($1::pg_catalog.text[]) RETURNING id`,
        [textArray(names)],
      );
      for (const { id } of rows as { id: string }[]) {
        await client.query(`DELETE FROM ${s}.savepoint_text WHERE number ${GE} $1 AND number ${LT} $2`, [
          Number(id) * DOCUMENTS_PER_SOURCE,
          (Number(id) + 1) * DOCUMENTS_PER_SOURCE,
        ]);
      }
      const unmark = `DELETE FROM ${s}.savepoint_text_mark WHERE key ${EQ} ANY ($1::pg_catalog.text[])`;
      await client.query(unmark, [textArray(names)]);
    });
  }

  /** Vacuums the tables, so that they contain no removed texts. */
  async vacuum(): Promise<void> {
    this.#checkOpen();
    if (!(await hasTextTables(this.#connection))) return;
    const { schema: s } = this.#connection;
    for (const table of ["savepoint_text", "savepoint_text_mark", "savepoint_text_source"]) {
      await this.#connection.query(`VACUUM ${s}.${table}`, [], "Compacting");
    }
  }

  async clear(): Promise<void> {
    this.#checkOpen();
    const { schema: s } = this.#connection;
    this.#unchangedAt = undefined;
    await createTextTables(this.#connection);
    await this.#transaction(async (client) => {
      await client.query(`TRUNCATE ${s}.savepoint_text, ${s}.savepoint_text_mark, ${s}.savepoint_text_source`);
    });
  }

  async #prepare(): Promise<void> {
    this.#checkOpen();
    const preparing = (this.#prepared ??= createTextTables(this.#connection));
    try {
      await preparing;
    } catch (error) {
      this.#prepared = undefined;
      throw postgresFailure(error, this.#connection.url, "Searching");
    }
  }

  async #sourceRows(where: string, value: PostgresValue): Promise<TextSource[]> {
    await this.#prepare();
    const { schema: s } = this.#connection;
    const rows = await this.#rows<SourceRow>(
      `SELECT id, name, count, note FROM ${s}.savepoint_text_source WHERE ${where}`,
      [value],
    );
    return rows.map(toSource);
  }

  async #rows<Row>(sql: string, values: PostgresValue[] = []): Promise<Row[]> {
    try {
      return await this.#connection.rows<Row>(sql, values, "Searching");
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** Does not wait for an unreachable server and does not retry: the index can be rebuilt. */
  async #transaction<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    try {
      const wait = { purpose: "Searching", timeout: this.#connection.busyTimeout } as const;
      return await runTransaction(this.#connection, wait, async (client) => {
        await client.query("SELECT pg_catalog.set_config('synchronous_commit', 'off', true)");
        return work(client);
      });
    } catch (error) {
      throw this.#failure(error);
    }
  }

  #failure(error: unknown): SavepointError {
    const failure = postgresFailure(error, this.#connection.url, "Searching");
    const state = sqlStateOf(failure.cause) ?? "";
    if (!MISSING_STATES.has(state) && failure.code !== "DAMAGED") return failure;
    this.#prepared = undefined;
    return new SavepointError(
      "DAMAGED",
      `The search index of ${this.#connection.url} is damaged. Nothing that was saved is lost. Clear the index; it is then rebuilt.`,
      { cause: error },
    );
  }
}

async function writeSource(client: PostgresClient, s: string, source: SourceUpdate): Promise<void> {
  const { name, before, from, texts, note } = source;
  const table = `${s}.savepoint_text_source`;
  const remove = `DELETE FROM ${s}.savepoint_text WHERE number ${GE} $1 AND number ${LT} $2`;
  if (before)
    await client.query(remove, [
      before.id * DOCUMENTS_PER_SOURCE + (note === undefined ? 0 : from),
      (before.id + 1) * DOCUMENTS_PER_SOURCE,
    ]);
  if (note === undefined) {
    await client.query(`DELETE FROM ${table} WHERE name ${EQ} $1`, [name]);
    return;
  }
  const count = from + texts.length;
  let id = before?.id;
  if (id === undefined) {
    const insert = `INSERT INTO ${table} (name, count, note) VALUES ($1, $2, $3) RETURNING id`;
    id = Number(((await client.query(insert, [name, count, note])).rows[0] as SourceRow).id);
  } else await client.query(`UPDATE ${table} SET count = $2, note = $3 WHERE name ${EQ} $1`, [name, count, note]);
  if (texts.length === 0) return;
  const first = id * DOCUMENTS_PER_SOURCE + from;
  await client.query(
    `INSERT INTO ${s}.savepoint_text (number, text) SELECT n.number, n.text
     FROM unnest($1::bigint[], $2::pg_catalog.text[]) AS n (number, text)`,
    [integerArray(texts.map((_, index) => first + index)), textArray(texts.map(toIndexableText))],
  );
}

async function writeMarks(client: PostgresClient, s: string, marks: readonly Mark[]): Promise<void> {
  const present = new Map(marks.flatMap(({ key, sum }) => (sum === undefined ? [] : [[key, sum]])));
  const removed = marks.filter(({ sum }) => sum === undefined).map(({ key }) => key);
  const table = `${s}.savepoint_text_mark`;
  // In the order of keys, so that two processes that mark the same records do not deadlock.
  const sorted = [...present].sort(([a], [b]) => (a < b ? -1 : 1));
  if (sorted.length > 0) {
    await client.query(
      `INSERT INTO ${table} (key, sum) SELECT n.key, n.sum FROM unnest($1::pg_catalog.text[], $2::bigint[]) AS n (key, sum)
       ON CONFLICT (key) DO UPDATE SET sum = excluded.sum`,
      [textArray(sorted.map(([key]) => key)), integerArray(sorted.map(([, sum]) => sum))],
    );
  }
  if (removed.length > 0)
    await client.query(`DELETE FROM ${table} WHERE key ${EQ} ANY ($1::pg_catalog.text[])`, [textArray(removed)]);
}

function toSource({ id, name, count, note }: SourceRow): TextSource {
  return { id: Number(id), name, count, note };
}
