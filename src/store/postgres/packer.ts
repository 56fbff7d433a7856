/**
 * Packs the small chunks that commits write into large ones, and frees dead items.
 *
 * Chunks are read, packed in this process, and then replaced with one statement, which fails if an old chunk has changed.
 * No lock is held in between, and readers see either the old chunks or the new one. A damaged item is never packed again
 * under a new checksum: its chunk is left as it is.
 */
import { createFailureReporter, type Frame, type Freed } from "../contract/index.js";
import { type NumberedItems, type RetainOptions, testHooksOf } from "../shared/index.js";
import type { Span } from "../../util/index.js";
import {
  liveSpans,
  PackBacklog,
  packGroup,
  planHealing,
  planPacking,
  type ChunkRow,
  findFirstUnpacked,
  type ChunkSize,
  cutChunk,
  freedPart,
} from "../chunks/index.js";
import { integerArray } from "./arrays.js";
import { columns, CHUNK_ARRAYS } from "./columns.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresValue, Statement } from "./driver.js";
import { isConditionFailure } from "./errors.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import { type Raw, CHUNK_COLUMNS, toNumbers } from "./rows.js";
import { DIV, EQ, GE, LT } from "./operators.js";

/** The number of full chunks that are packed together: most of the cost is the round trip. */
const CHUNKS_AT_ONCE = 4;
/** The number of rows that are read with one statement. */
const BATCH_ROWS = 512;
/** How often rows are read again after another process has changed them. */
const MAX_TRIES = 20;

/** Makes a transaction not wait for the disk. */
const WITHOUT_SYNC: Statement = {
  text: "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)",
  values: [],
};

/** The size of a chunk, without its items. */
type ChunkInfo = ChunkSize & Pick<ChunkRow, "sum">;

export class PostgresPacker {
  readonly #connection: PostgresConnection;
  readonly #table: string;
  readonly #compress: boolean;
  /** What makes background packing not wait for the disk. */
  readonly #lazily: readonly Statement[];
  readonly #probe: (point: PostgresWritePoint) => void;
  readonly #backlog: PackBacklog;

  constructor(connection: PostgresConnection, options: PostgresOptions) {
    this.#connection = connection;
    this.#table = `${connection.schema}.savepoint_chunk`;
    this.#compress = options.compress ?? true;
    this.#lazily = options.portable === true ? [] : [WITHOUT_SYNC];
    this.#probe = testHooksOf(options).probe ?? (() => {});
    const report = createFailureReporter(options);
    this.#backlog = new PackBacklog({
      chunks: CHUNKS_AT_ONCE,
      pack: (tape, from) => this.#packInBackground(tape, from),
      onFailure: (error) => report("items could not be packed, and were not changed", error),
    });
  }

  /** Records items that were committed. Packs their tape in the background once they fill several chunks. */
  noteItems(batch: NumberedItems): void {
    this.#backlog.add(batch);
  }

  async #packInBackground(tape: string, from: number | undefined): Promise<number> {
    const first = from ?? findFirstUnpacked(await this.#chunkInfos("ORDER BY first DESC LIMIT $2", [tape, BATCH_ROWS]));
    return (await this.#packFrom(tape, first, false)).from;
  }

  /** Stops packing, and waits for what is in progress. */
  close(): Promise<void> {
    return this.#backlog.close();
  }

  /** Packs and compresses all tapes. */
  async packAll(): Promise<void> {
    await this.#backlog.idle();
    const tapes = await this.#connection.rows<{ tape: string }>(
      `SELECT DISTINCT tape FROM ${this.#table} ORDER BY tape`,
    );
    for (const { tape } of tapes) {
      for (let next = { from: 0, more: true }; next.more;) next = await this.#packFrom(tape, next.from, true);
    }
  }

  /** Frees dead items below a number: entire chunks always, parts of chunks only if `repack` is set. */
  async retain(tape: string, live: readonly Span[], { below, repack = false }: RetainOptions): Promise<Freed> {
    const freed = { items: 0, bytes: 0 };
    await this.#backlog.idle();
    const spansIn = liveSpans(live, below);
    let tries = 0;
    for (let from: number | undefined = 0; from !== undefined;) {
      const infos: readonly ChunkInfo[] = await this.#chunkInfos(
        `AND first ${GE} $2 AND first ${LT} $3 ORDER BY first LIMIT $4`,
        [tape, from, below, BATCH_ROWS],
      );
      const isUnchanged = await this.#retainChunks(tape, infos, spansIn, repack, freed);
      // Another process is packing the same chunks: they are read again.
      if (!isUnchanged && tries++ < MAX_TRIES) continue;
      tries = 0;
      const last = infos.at(-1);
      from = last && infos.length === BATCH_ROWS ? last.first + last.count : undefined;
    }
    return freed;
  }

  /** @returns whether no chunk has changed since it was read */
  async #retainChunks(
    tape: string,
    infos: readonly ChunkInfo[],
    spansIn: ReturnType<typeof liveSpans>,
    repack: boolean,
    freed: { items: number; bytes: number },
  ): Promise<boolean> {
    const dead: ChunkInfo[] = [];
    let isUnchanged = true;
    for (const info of infos) {
      const spans = spansIn(info);
      const kept = spans.reduce((sum, { count }) => sum + count, 0);
      if (kept === 0) dead.push(info);
      if (kept === 0 || kept === info.count || !repack) continue;
      const cut = await this.#cut(tape, info, spans);
      if (cut === "changed") isUnchanged = false;
      if (cut !== "done") continue;
      const { items, bytes } = freedPart(info, kept);
      freed.items += items;
      freed.bytes += bytes;
    }
    const removed = await this.#remove(tape, dead);
    for (const { count, bytes } of removed) {
      freed.items += count;
      freed.bytes += bytes;
    }
    return isUnchanged && removed.length === dead.length;
  }

  /** Replaces unreadable items. Returns how many were replaced. */
  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    const rows = await this.#rows(tape, 0, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    let count = 0;
    for (const { row, rows: healing, healed } of planHealing(tape, rows, items)) {
      if (await this.#replace(tape, row ? [row] : [], healing)) count += healed;
    }
    return count;
  }

  /** Reduces a chunk to these spans. A damaged chunk is not changed. */
  async #cut(tape: string, info: ChunkInfo, spans: readonly Span[]): Promise<"done" | "changed" | "damaged"> {
    const [row] = await this.#rows(tape, info.first, info.first + 1, 1);
    if (row?.sum !== info.sum) return "changed";
    const parts = cutChunk(row, spans);
    if (!parts) return "damaged";
    return (await this.#replace(tape, [row], parts)) ? "done" : "changed";
  }

  async #remove(tape: string, infos: readonly ChunkInfo[]): Promise<{ count: number; bytes: number }[]> {
    if (infos.length === 0) return [];
    const sql = `DELETE FROM ${this.#table} r USING unnest($2::bigint[], $3::bigint[]) AS o (first, sum)
      WHERE r.tape ${EQ} $1 AND r.first ${EQ} o.first AND r.sum ${EQ} o.sum
      RETURNING r.count, pg_catalog.octet_length(r.body) AS bytes`;
    const [firsts, sums] = [infos.map(({ first }) => first), infos.map(({ sum }) => sum)];
    return this.#connection.rows(sql, [tape, integerArray(firsts), integerArray(sums)], "Freeing items in");
  }

  /** Packs the chunks of a tape from a number on. Returns where to continue, and whether there are more chunks. */
  async #packFrom(tape: string, from: number, all: boolean): Promise<{ from: number; more: boolean }> {
    this.#probe("pack:begin");
    const rows = await this.#rows(tape, from, Number.MAX_SAFE_INTEGER, BATCH_ROWS);
    const { groups, ...next } = planPacking(rows, from, rows.length === BATCH_ROWS, all);
    const old: ChunkRow[] = [];
    const packed: ChunkRow[] = [];
    for (const group of groups) {
      const row = await packGroup(group, this.#compress);
      if (!row) continue;
      old.push(...group);
      packed.push(row);
    }
    // Background packing does not wait for the disk: after a crash of the server, the small chunks are there again.
    const done = packed.length === 0 || (await this.#replace(tape, old, packed, all));
    // If another process has packed some of these chunks, the others are packed with those that follow.
    return done || all ? next : { from, more: false };
  }

  /** Replaces chunks. Returns false, and changes nothing, if another process has changed one of the old ones. */
  async #replace(
    tape: string,
    old: readonly ChunkRow[],
    rows: readonly ChunkRow[],
    isDurable = true,
  ): Promise<boolean> {
    const firsts = integerArray(old.map(({ first }) => first));
    const sums = integerArray(old.map(({ sum }) => sum));
    const statements: Statement[] = [
      {
        text: `WITH removed AS (
            DELETE FROM ${this.#table} r USING unnest($2::bigint[], $3::bigint[]) AS o (first, sum)
            WHERE r.tape ${EQ} $1 AND r.first ${EQ} o.first AND r.sum ${EQ} o.sum RETURNING 1
          ) SELECT 1 ${DIV} ((SELECT pg_catalog.count(*) FROM removed) ${EQ} $4::bigint)::integer AS done`,
        values: [tape, firsts, sums, old.length],
      },
      {
        text: `INSERT INTO ${this.#table} (tape, first, count, codec, sum, head, body)
          SELECT $1, n.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::pg_catalog.bytea[], $7::pg_catalog.bytea[])
            AS n (first, count, codec, sum, head, body)`,
        values: [tape, ...columns(rows, CHUNK_ARRAYS)],
      },
    ];
    // The old chunks have changed; or, after the connection was cut, the new ones exist already.
    const failing = this.#connection.write([...(isDurable ? [] : this.#lazily), ...statements], "Packing");
    this.#probe("pack:sent");
    const failure = await failing;
    if (failure && !isConditionFailure(failure.cause)) throw failure.cause;
    if (!failure) this.#probe("pack:committed");
    return !failure;
  }

  async #rows(tape: string, from: number, below: number, limit: number): Promise<ChunkRow[]> {
    const sql = `SELECT ${CHUNK_COLUMNS} FROM ${this.#table}
      WHERE tape ${EQ} $1 AND first ${GE} $2 AND first ${LT} $3 ORDER BY first LIMIT $4`;
    return (await this.#connection.rows<Raw<ChunkRow>>(sql, [tape, from, below, limit])).map(toNumbers);
  }

  /** The sizes of chunks of a tape. @param selection further conditions, the order and the limit; $1 is the tape */
  async #chunkInfos(selection: string, values: PostgresValue[]): Promise<ChunkInfo[]> {
    const sql = `SELECT first, count, codec, sum, pg_catalog.octet_length(body) AS bytes FROM ${this.#table}
      WHERE tape ${EQ} $1 ${selection}`;
    return (await this.#connection.rows<Raw<ChunkInfo>>(sql, values)).map(toNumbers);
  }
}
