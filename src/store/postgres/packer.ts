/**
 * Packs the small rows that commits leave behind into large ones, and frees what is dead.
 *
 * Rows are read, packed here, and put in the place of the old ones by one statement, if those are all still there. Nothing
 * is locked in between, and readers see the old rows or the new one. A damaged item is never packed again under a fresh
 * checksum: its row is left as it is.
 */
import { isSavepointError, SavepointError } from "../../errors.js";
import { createFailureReporter, type Frame, type Freed, type ItemBatch } from "../contract/index.js";
import { testHooksOf } from "../shared/index.js";
import {
  liveSpans,
  PackBacklog,
  packGroup,
  packChunk,
  planHealing,
  planPacking,
  type ChunkRow,
  findFirstUnpacked,
  type ChunkSize,
  unpackChunk,
} from "../chunks/index.js";
import { integerArray } from "./arrays.js";
import { columns, CHUNK_ARRAYS } from "./columns.js";
import type { Connection } from "./connection.js";
import { sqlStateOf } from "./errors.js";
import { ROWS_CHANGED_STATE } from "./functions.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import { type RawChunk, CHUNK_COLUMNS, toChunk } from "./rows.js";

/** Full runs that are packed together: what that costs is mostly the way to the server and back. */
const RUNS_AT_ONCE = 4;
/** Rows that are looked at with one statement. */
const BATCH_ROWS = 512;
/** How often rows are looked at again that others have changed meanwhile. */
const MAX_TRIES = 20;

/** A row of items, without the items. */
interface Place {
  readonly first: number;
  readonly count: number;
  readonly sum: number;
  readonly bytes: number;
}

export class Packer {
  readonly #connection: Connection;
  readonly #table: string;
  readonly #compress: boolean;
  readonly #probe: (point: PostgresWritePoint) => void;
  readonly #report: (message: string, error: unknown) => void;
  readonly #loose = new PackBacklog(RUNS_AT_ONCE);
  #work: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(connection: Connection, options: PostgresOptions) {
    this.#connection = connection;
    this.#table = `${connection.schema}.savepoint_run`;
    this.#compress = options.compress ?? true;
    this.#probe = testHooksOf(options).probe ?? (() => {});
    this.#report = createFailureReporter(options);
  }

  /** Notes items that were committed; packs their tape in the background once full runs have gathered. */
  noteItems(run: ItemBatch): void {
    if (this.#loose.add(run)) this.#work = this.#work.then(() => this.#sealTail(run.tape));
  }

  /** Packing is never urgent: a failure leaves small rows, and the next full run tries again. */
  async #sealTail(tape: string): Promise<void> {
    if (this.#closed) return;
    try {
      const from = this.#loose.firstUnpacked(tape) ?? (await this.#startOfTail(tape));
      const next = await this.#seal(tape, from, false);
      this.#loose.setFirstUnpacked(tape, next.from);
    } catch (error) {
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED") || this.#closed) return;
      this.#report("items could not be packed, and stay as they are", error);
    }
  }

  async idle(): Promise<void> {
    await this.#work;
  }

  /** Starts nothing any more, and waits for what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#work;
  }

  /** Packs and compresses every tape. */
  async packAll(): Promise<void> {
    await this.idle();
    const tapes = await this.#connection.rows<{ tape: string }>(
      `SELECT DISTINCT tape FROM ${this.#table} ORDER BY tape`,
    );
    for (const { tape } of tapes) {
      for (let next = { from: 0, more: true }; next.more;) next = await this.#seal(tape, next.from, true);
    }
  }

  /** Frees dead items below a number: whole rows at once, parts of rows only when `repack` is set. */
  async retain(
    tape: string,
    live: readonly { start: number; count: number }[],
    { below, repack = false }: { below: number; repack?: boolean },
  ): Promise<Freed> {
    const freed = { items: 0, bytes: 0 };
    await this.idle();
    const spansIn = liveSpans(live, below);
    let tries = 0;
    for (let from: number | undefined = 0; from !== undefined;) {
      const places: readonly Place[] = await this.#places(tape, from, below);
      const whole = await this.#retainPlaces(tape, places, spansIn, repack, freed);
      // Somebody packs the same rows just now: they are looked at again.
      if (!whole && tries++ < MAX_TRIES) continue;
      tries = 0;
      const last = places.at(-1);
      from = last && places.length === BATCH_ROWS ? last.first + last.count : undefined;
    }
    return freed;
  }

  /** @returns whether they were all what they were when they were looked at */
  async #retainPlaces(
    tape: string,
    places: readonly Place[],
    spansIn: ReturnType<typeof liveSpans>,
    repack: boolean,
    freed: { items: number; bytes: number },
  ): Promise<boolean> {
    const dead: Place[] = [];
    let whole = true;
    for (const place of places) {
      const spans = spansIn(place);
      const kept = spans.reduce((count, span) => count + span.end - span.start, 0);
      if (kept === 0) dead.push(place);
      if (kept === 0 || kept === place.count || !repack) continue;
      const cut = await this.#cut(tape, place, spans);
      if (cut === "gone") whole = false;
      if (cut !== "done") continue;
      freed.items += place.count - kept;
      // Their share: what is left may take more than before, because it is not compressed yet.
      freed.bytes += Math.round((place.bytes * (place.count - kept)) / place.count);
    }
    const removed = await this.#remove(tape, dead);
    for (const { count, bytes } of removed) {
      freed.items += count;
      freed.bytes += bytes;
    }
    return whole && removed.length === dead.length;
  }

  /** Puts items in the place of those that cannot be read. Returns how many. */
  async heal(tape: string, items: ReadonlyMap<number, Frame>): Promise<number> {
    const rows = await this.#rows(tape, 0, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    let count = 0;
    for (const { row, rows: healing, healed } of planHealing(tape, rows, items)) {
      if (await this.#replace(tape, row ? [row] : [], healing)) count += healed;
    }
    return count;
  }

  /** Leaves of a row only what is in these spans. A damaged one stays as it is. */
  async #cut(
    tape: string,
    place: Place,
    spans: readonly { start: number; end: number }[],
  ): Promise<"done" | "gone" | "damaged"> {
    const [row] = await this.#rows(tape, place.first, place.first + 1, 1);
    if (row?.sum !== place.sum) return "gone";
    const items = unpackChunk(row);
    if ("unreadable" in items || !items.every((item): item is Frame => "json" in item)) return "damaged";
    const parts = spans.map(({ start, end }) =>
      packChunk(tape, start, items.slice(start - row.first, end - row.first)),
    );
    return (await this.#replace(tape, [row], parts)) ? "done" : "gone";
  }

  async #remove(tape: string, places: readonly Place[]): Promise<{ count: number; bytes: number }[]> {
    if (places.length === 0) return [];
    const sql = `DELETE FROM ${this.#table} r USING unnest($2::bigint[], $3::bigint[]) AS o (first, sum)
      WHERE r.tape = $1 AND r.first = o.first AND r.sum = o.sum RETURNING r.count, octet_length(r.body) AS bytes`;
    const [firsts, sums] = [places.map(({ first }) => first), places.map(({ sum }) => sum)];
    return this.#connection.rows(sql, [tape, integerArray(firsts), integerArray(sums)], "Freeing items in");
  }

  /** Packs the rows of a tape from a number on; returns where to go on, and whether there is more already. */
  async #seal(tape: string, from: number, all: boolean): Promise<{ from: number; more: boolean }> {
    this.#probe("seal:begin");
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
    // What is packed by the way need not be on disk: should the server go down, the small rows are there again.
    const done = packed.length === 0 || (await this.#replace(tape, old, packed, all));
    // Where somebody was faster with some of them, the others are looked at again with those that follow.
    return done || all ? next : { from, more: false };
  }

  /** The first of the small rows at the end of a tape: all before it has been packed. */
  async #startOfTail(tape: string): Promise<number> {
    const rows = await this.#connection.rows<Omit<ChunkSize, "first"> & { readonly first: string }>(
      `SELECT first, count, codec, octet_length(body) AS bytes FROM ${this.#table}
       WHERE tape = $1 ORDER BY first DESC LIMIT $2`,
      [tape, BATCH_ROWS],
    );
    return findFirstUnpacked(rows.map((row) => ({ ...row, first: Number(row.first) })));
  }

  /** Whoever packed or freed some of these rows meanwhile was first: then nothing is done. */
  async #replace(tape: string, old: readonly ChunkRow[], rows: readonly ChunkRow[], durably = true): Promise<boolean> {
    const values = [
      String(durably),
      tape,
      integerArray(old.map(({ first }) => first)),
      integerArray(old.map(({ sum }) => sum)),
      ...columns(rows, CHUNK_ARRAYS),
    ];
    const sql = `SELECT ${this.#connection.schema}.savepoint_replace_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;
    const running = this.#connection.query(sql, values, "Packing");
    this.#probe("seal:sent");
    try {
      await running;
      this.#probe("seal:committed");
      return true;
    } catch (error) {
      // Rows that are gone, or, after the connection was cut, our own that are there already.
      const state = sqlStateOf(error instanceof SavepointError ? error.cause : error);
      if (state === ROWS_CHANGED_STATE || state === "23505") return false;
      throw error;
    }
  }

  async #rows(tape: string, from: number, below: number, limit: number): Promise<ChunkRow[]> {
    const sql = `SELECT ${CHUNK_COLUMNS} FROM ${this.#table}
      WHERE tape = $1 AND first >= $2 AND first < $3 ORDER BY first LIMIT $4`;
    return (await this.#connection.rows<RawChunk>(sql, [tape, from, below, limit])).map(toChunk);
  }

  async #places(tape: string, from: number, below: number): Promise<Place[]> {
    const sql = `SELECT first, count, sum, octet_length(body) AS bytes FROM ${this.#table}
      WHERE tape = $1 AND first >= $2 AND first < $3 ORDER BY first LIMIT $4`;
    const rows = await this.#connection.rows<{ first: string; count: number; sum: string; bytes: number }>(sql, [
      tape,
      from,
      below,
      BATCH_ROWS,
    ]);
    return rows.map(({ first, count, sum, bytes }) => ({ first: Number(first), sum: Number(sum), count, bytes }));
  }
}
