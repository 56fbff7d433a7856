/**
 * Packs the small runs that commits leave behind into large ones, and frees what is dead.
 *
 * Packing happens in the background, in three steps: rows are read and verified, their bodies are compressed off the main
 * thread, and one short transaction puts the packed row in their place if they are all still there. Readers and writers
 * of any process see the old rows or the new one. A damaged item is never packed again under a fresh checksum: its row is
 * left as it is.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError } from "../../errors.js";
import { createFailureReporter, type Frame, type Freed, type ItemBatch } from "../contract/index.js";
import {
  HAS_FAST_COMPRESSION,
  liveSpans,
  PackBacklog,
  packGroup,
  packChunk,
  planPacking,
  CHUNK_ITEMS,
  type ChunkRow,
  findFirstUnpacked,
  type ChunkSize,
  unpackChunk,
} from "../chunks/index.js";
import { testHooksOf } from "../shared/index.js";
import type { Connection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { insertChunk } from "./rows.js";

/** Rows looked at in one transaction, so that a long tape does not hold the write lock for long. */
const BATCH_ROWS = 256;
/** Bytes of rows that are read together: saves have to wait for that. */
const BATCH_BYTES = 1 << 20;
/** Rows that are repacked in one transaction, without some of their items. */
const MAX_REPACKED = 8;
const COLUMNS = "id, tape, first, count, codec, sum, head, body";

export class Packer {
  readonly #connection: Connection;
  readonly #probe: (point: WritePoint) => void;
  readonly #compress: boolean;
  readonly #compressesAtOnce: boolean;
  readonly #report: (message: string, error: unknown) => void;
  readonly #loose = new PackBacklog();
  #work: Promise<void> = Promise.resolve();

  constructor(connection: Connection, options: SqliteOptions) {
    this.#connection = connection;
    this.#probe = testHooksOf(options).probe ?? (() => {});
    this.#compress = options.compress ?? true;
    this.#compressesAtOnce = this.#compress && HAS_FAST_COMPRESSION;
    this.#report = createFailureReporter(options);
  }

  /** Notes items that were committed; packs their tape in the background once a full run has gathered. */
  noteItems(run: ItemBatch): void {
    if (run.items.length >= CHUNK_ITEMS && !this.#compressesAtOnce) return;
    if (this.#loose.add(run)) this.#work = this.#work.then(() => this.#sealTail(run.tape));
  }

  /** Packing is never urgent: a failure leaves small rows, and the next full run tries again. */
  async #sealTail(tape: string): Promise<void> {
    try {
      await nextTurn();
      const from = this.#loose.firstUnpacked(tape) ?? this.#startOfTail(tape);
      const next = await this.#seal(tape, from, { all: false, compressing: this.#compressesAtOnce });
      this.#loose.setFirstUnpacked(tape, next.from);
    } catch (error) {
      // Others who write, and closing, come first. Anything else will soon be a failure of somebody's commit as well.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED")) return;
      this.#report("items could not be packed, and stay as they are", error);
    }
  }

  async idle(): Promise<void> {
    await this.#work;
  }

  /** Packs and compresses every tape, a little at a time, so that saves can run in between. */
  async packAll(): Promise<void> {
    await this.idle();
    for (let tape = this.#tapeAfter(""); tape !== undefined; tape = this.#tapeAfter(tape)) {
      for (let next = { from: 0, more: true }; next.more;) {
        await nextTurn();
        next = await this.#seal(tape, next.from, { all: true, compressing: this.#compress });
      }
    }
  }

  #tapeAfter(tape: string): string | undefined {
    const sql = "SELECT tape FROM savepoint_run WHERE tape > ? ORDER BY tape LIMIT 1";
    return this.#connection.row<{ tape: string }>(sql, tape)?.tape;
  }

  /** Frees dead items below a number: whole rows at once, parts of rows only when `repack` is set. */
  async retain(
    tape: string,
    live: readonly { start: number; count: number }[],
    { below, repack = false }: { below: number; repack?: boolean },
  ): Promise<Freed> {
    const freed = { items: 0, bytes: 0 };
    const spansIn = liveSpans(live, below);
    for (let from: number | undefined = 0; from !== undefined;) {
      const start: number = from;
      const batch = await this.#connection.transaction("Freeing items in", () => {
        const places = this.#places(tape, start, below);
        const ofPlaces = { items: 0, bytes: 0 };
        let repacked = 0;
        for (const place of places) {
          if (repacked === MAX_REPACKED) return { ...ofPlaces, next: place.first };
          if (this.#retainRow(place, spansIn(place), repack, ofPlaces)) repacked++;
        }
        return { ...ofPlaces, next: nextStart(places) };
      });
      freed.items += batch.items;
      freed.bytes += batch.bytes;
      from = batch.next;
      if (from !== undefined) await nextTurn();
    }
    return freed;
  }

  /** @returns whether the row was repacked without some of its items */
  #retainRow(
    place: Place,
    spans: readonly { start: number; end: number }[],
    repack: boolean,
    freed: { items: number; bytes: number },
  ): boolean {
    const kept = spans.reduce((count, span) => count + span.end - span.start, 0);
    if (kept >= place.count || (kept > 0 && !repack)) return false;
    if (kept > 0 && !this.#cut(place, spans)) return true;
    if (kept === 0) this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", place.id);
    freed.items += place.count - kept;
    // Their share: what is left may take more than before, because it is not compressed yet.
    freed.bytes += Math.round((place.bytes * (place.count - kept)) / place.count);
    return kept > 0;
  }

  /** Removes all items of a row that are not in these spans. A damaged row stays unchanged. */
  #cut({ id }: Place, spans: readonly { start: number; end: number }[]): boolean {
    const row = this.#connection.row<StoredRun>(`SELECT ${COLUMNS} FROM savepoint_run WHERE id = ?`, id);
    const items = row ? unpackChunk(row) : [];
    if (!row || "unreadable" in items || !items.every((item): item is Frame => "json" in item)) return false;
    this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", id);
    for (const { start, end } of spans) {
      insertChunk(this.#connection, packChunk(row.tape, start, items.slice(start - row.first, end - row.first)));
    }
    return true;
  }

  /**
   * Packs the rows of a tape from a number on; returns where to go on, and whether there is more already.
   *
   * @param options.all also pack what does not fill a run yet
   */
  async #seal(
    tape: string,
    from: number,
    options: { readonly all: boolean; readonly compressing: boolean },
  ): Promise<{ from: number; more: boolean }> {
    this.#probe("seal:begin");
    const { rows, more } = this.#rows(tape, from);
    const { groups, ...next } = planPacking(rows, from, more, options.all);
    for (const group of groups) await this.#pack(group, options.compressing);
    return next;
  }

  /** The first of the small rows at the end of a tape: all before it has been packed. */
  #startOfTail(tape: string): number {
    const rows = this.#connection.rows<ChunkSize>(
      `SELECT first, count, codec, length(body) AS bytes FROM savepoint_run WHERE tape = ? ORDER BY first DESC LIMIT ?`,
      tape,
      BATCH_ROWS,
    );
    return findFirstUnpacked(rows);
  }

  /** Puts one row in the place of these. */
  async #pack(group: readonly StoredRun[], compressing: boolean): Promise<void> {
    const row = await packGroup(group, compressing);
    if (!row) return;
    await this.#connection.transaction("Packing", () => {
      if (this.#replace(group, row)) this.#probe("seal:written");
      this.#probe("seal:commit");
    });
    this.#probe("seal:committed");
  }

  /** Whoever packed or freed some of these rows meanwhile was first: then nothing is done. */
  #replace(group: readonly StoredRun[], row: ChunkRow): boolean {
    const place = [row.tape, row.first, row.first + row.count] as const;
    const where = "WHERE tape = ? AND first >= ? AND first < ?";
    const ids = this.#connection.rows<{ id: number }>(`SELECT id FROM savepoint_run ${where} ORDER BY first`, ...place);
    if (ids.length !== group.length || ids.some(({ id }, index) => id !== group[index]?.id)) return false;
    this.#connection.run(`DELETE FROM savepoint_run ${where}`, ...place);
    insertChunk(this.#connection, row);
    return true;
  }

  /** The next batch of rows of a tape, limited by their number and their bytes. */
  #rows(tape: string, from: number): { rows: StoredRun[]; more: boolean } {
    const places = this.#places(tape, from, Number.MAX_SAFE_INTEGER);
    let bytes = 0;
    const cut = places.findIndex((place, index) => (bytes += place.bytes) > BATCH_BYTES && index > 0);
    const below = places[cut]?.first ?? Number.MAX_SAFE_INTEGER;
    const rows = this.#connection.rows<StoredRun>(
      `SELECT ${COLUMNS} FROM savepoint_run WHERE tape = ? AND first >= ? AND first < ? ORDER BY first LIMIT ?`,
      tape,
      from,
      below,
      BATCH_ROWS,
    );
    return { rows, more: cut >= 0 || rows.length === BATCH_ROWS };
  }

  #places(tape: string, from: number, below: number): Place[] {
    return this.#connection.rows<Place>(
      `SELECT id, first, count, length(body) AS bytes FROM savepoint_run
       WHERE tape = ? AND first >= ? AND first < ? ORDER BY first LIMIT ?`,
      tape,
      from,
      below,
      BATCH_ROWS,
    );
  }
}

/** A row without its items. */
interface Place {
  readonly id: number;
  readonly first: number;
  readonly count: number;
  readonly bytes: number;
}

type StoredRun = ChunkRow & { readonly id: number };

/** Where the next batch begins; `undefined` when this was the last. */
function nextStart(places: readonly Place[]): number | undefined {
  const last = places.at(-1);
  return last && places.length === BATCH_ROWS ? last.first + last.count : undefined;
}
