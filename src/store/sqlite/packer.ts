/**
 * Packs the small chunks that commits write into large ones, frees dead items, and replaces damaged ones.
 *
 * Packing runs in the background, in three steps: chunks are read and verified, their bodies are compressed off the main thread,
 * and one short transaction replaces them if they are all still there. Readers and writers of any process see the old chunks or
 * the new one. A damaged item is never packed again under a new checksum: its chunk stays as it is.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  CHUNK_ITEMS,
  cutChunk,
  freedPart,
  type ChunkRow,
  type ChunkSize,
  findFirstUnpacked,
  HAS_FAST_COMPRESSION,
  liveSpans,
  PackBacklog,
  packGroup,
  planHealing,
  planPacking,
} from "../chunks/index.js";
import { createFailureReporter, type Frame, type Freed } from "../contract/index.js";
import { type NumberedItems, type RetainOptions, testHooksOf } from "../shared/index.js";
import type { Span } from "../../util/index.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { CHUNK_COLUMNS, insertChunk, type StoredChunk } from "./rows.js";

/** The most chunks of one transaction, so that a long tape does not hold the write lock for long. */
const BATCH_CHUNKS = 256;
/** The most bytes of chunks that are read together: saves wait for it. */
const BATCH_BYTES = 1 << 20;
/** The most chunks of one transaction that are rewritten without some of their items. */
const MAX_REWRITTEN = 8;

const SELECT_CHUNKS = `SELECT ${CHUNK_COLUMNS} FROM savepoint_chunk`;
const DELETE_CHUNK = "DELETE FROM savepoint_chunk WHERE id = ?";

export class SqlitePacker {
  readonly #connection: SqliteConnection;
  readonly #probe: (point: WritePoint) => void;
  readonly #compress: boolean;
  readonly #compressesAtOnce: boolean;
  readonly #backlog: PackBacklog;

  constructor(connection: SqliteConnection, options: SqliteOptions) {
    this.#connection = connection;
    this.#probe = testHooksOf(options).probe ?? (() => {});
    this.#compress = options.compress ?? true;
    this.#compressesAtOnce = this.#compress && HAS_FAST_COMPRESSION;
    const report = createFailureReporter(options);
    this.#backlog = new PackBacklog({
      chunks: 1,
      pack: (tape, from) => this.#packInBackground(tape, from),
      onFailure: (error) => report("items could not be packed, and stay as they are", error),
    });
  }

  /** Records committed items, and packs their tape in the background when they fill a chunk. */
  noteItems(batch: NumberedItems): void {
    if (batch.items.length >= CHUNK_ITEMS && !this.#compressesAtOnce) return;
    this.#backlog.add(batch);
  }

  async #packInBackground(tape: string, from: number | undefined): Promise<number> {
    await nextTurn();
    const first = from ?? findFirstUnpacked(this.#sizes("ORDER BY first DESC", tape));
    return (await this.#packTape(tape, first, { all: false, compressing: this.#compressesAtOnce })).from;
  }

  /** Resolves when no packing is in progress. */
  idle(): Promise<void> {
    return this.#backlog.idle();
  }

  /** Packs and compresses every tape, a little at a time, so that saves can run in between. */
  async packAll(): Promise<void> {
    await this.idle();
    for (let tape = this.#tapeAfter(""); tape !== undefined; tape = this.#tapeAfter(tape)) {
      for (let next = { from: 0, more: true }; next.more;) {
        await nextTurn();
        next = await this.#packTape(tape, next.from, { all: true, compressing: this.#compress });
      }
    }
  }

  #tapeAfter(tape: string): string | undefined {
    const sql = "SELECT tape FROM savepoint_chunk WHERE tape > ? ORDER BY tape LIMIT 1";
    return this.#connection.row<{ tape: string }>(sql, tape)?.tape;
  }

  /** Frees dead items below a number: complete chunks always, parts of chunks only if `repack` is set. */
  async retain(tape: string, live: readonly Span[], { below, repack = false }: RetainOptions): Promise<Freed> {
    const freed = { items: 0, bytes: 0 };
    const spansIn = liveSpans(live, below);
    for (let from: number | undefined = 0; from !== undefined;) {
      const start: number = from;
      const batch = await this.#connection.transaction("Freeing items in", () => {
        const places = this.#sizes("AND first >= ? AND first < ? ORDER BY first", tape, start, below);
        const freedInBatch = { items: 0, bytes: 0 };
        let rewritten = 0;
        for (const place of places) {
          if (rewritten === MAX_REWRITTEN) return { ...freedInBatch, next: place.first };
          if (this.#retainInChunk(place, spansIn(place), repack, freedInBatch)) rewritten++;
        }
        return { ...freedInBatch, next: nextStart(places) };
      });
      freed.items += batch.items;
      freed.bytes += batch.bytes;
      from = batch.next;
      if (from !== undefined) await nextTurn();
    }
    return freed;
  }

  /** @returns whether the chunk was read to be rewritten without some of its items */
  #retainInChunk(
    place: StoredSize,
    spans: readonly Span[],
    repack: boolean,
    freed: { items: number; bytes: number },
  ): boolean {
    const kept = spans.reduce((sum, { count }) => sum + count, 0);
    if (kept >= place.count || (kept > 0 && !repack)) return false;
    if (kept > 0 && !this.#rewrite(place, spans)) return true;
    if (kept === 0) this.#connection.run(DELETE_CHUNK, place.id);
    const { items, bytes } = freedPart(place, kept);
    freed.items += items;
    freed.bytes += bytes;
    return kept > 0;
  }

  /** Removes all items of a chunk that are not in these spans. Returns `false` for a damaged chunk, which stays unchanged. */
  #rewrite({ id }: StoredSize, spans: readonly Span[]): boolean {
    const row = this.#connection.row<StoredChunk>(`${SELECT_CHUNKS} WHERE id = ?`, id);
    const parts = row && cutChunk(row, spans);
    if (!parts) return false;
    this.#connection.run(DELETE_CHUNK, id);
    for (const part of parts) insertChunk(this.#connection, part);
    return true;
  }

  /** Replaces damaged and missing items, and returns how many. Must be called inside a transaction. */
  heal(tape: string, items: ReadonlyMap<number, Frame>): number {
    const rows = this.#connection.rows<StoredChunk>(`${SELECT_CHUNKS} WHERE tape = ? ORDER BY first`, tape);
    let count = 0;
    for (const { row, rows: replacements, healed } of planHealing(tape, rows, items)) {
      if (row) this.#connection.run(DELETE_CHUNK, row.id);
      for (const replacement of replacements) insertChunk(this.#connection, replacement);
      count += healed;
    }
    return count;
  }

  /**
   * Packs one batch of chunks of a tape.
   *
   * @param from the first item to pack
   * @param options.all also pack a group that does not fill a chunk yet
   * @returns where to continue, and whether there is more to pack already
   */
  async #packTape(
    tape: string,
    from: number,
    options: { readonly all: boolean; readonly compressing: boolean },
  ): Promise<{ from: number; more: boolean }> {
    this.#probe("pack:begin");
    const { rows, more } = this.#readBatch(tape, from);
    const { groups, ...next } = planPacking(rows, from, more, options.all);
    for (const group of groups) await this.#packGroup(group, options.compressing);
    return next;
  }

  /** Packs a group of chunks into one. */
  async #packGroup(group: readonly StoredChunk[], compressing: boolean): Promise<void> {
    const row = await packGroup(group, compressing);
    if (!row) return;
    await this.#connection.transaction("Packing", () => {
      if (this.#replace(group, row)) this.#probe("pack:written");
      this.#probe("pack:commit");
    });
    this.#probe("pack:committed");
  }

  /** Replaces a group of chunks. Does nothing if another process has packed or freed some of them meanwhile. */
  #replace(group: readonly StoredChunk[], row: ChunkRow): boolean {
    const place = [row.tape, row.first, row.first + row.count] as const;
    const where = "WHERE tape = ? AND first >= ? AND first < ?";
    const select = `SELECT id FROM savepoint_chunk ${where} ORDER BY first`;
    const ids = this.#connection.rows<{ id: number }>(select, ...place);
    if (ids.length !== group.length || ids.some(({ id }, index) => id !== group[index]?.id)) return false;
    this.#connection.run(`DELETE FROM savepoint_chunk ${where}`, ...place);
    insertChunk(this.#connection, row);
    return true;
  }

  /** The next chunks of a tape, limited by their number and their bytes. */
  #readBatch(tape: string, from: number): { rows: StoredChunk[]; more: boolean } {
    const places = this.#sizes("AND first >= ? ORDER BY first", tape, from);
    let bytes = 0;
    const cut = places.findIndex((place, index) => (bytes += place.bytes) > BATCH_BYTES && index > 0);
    const below = places[cut]?.first ?? Number.MAX_SAFE_INTEGER;
    const sql = `${SELECT_CHUNKS} WHERE tape = ? AND first >= ? AND first < ? ORDER BY first LIMIT ?`;
    const rows = this.#connection.rows<StoredChunk>(sql, tape, from, below, BATCH_CHUNKS);
    return { rows, more: cut >= 0 || rows.length === BATCH_CHUNKS };
  }

  /** Up to a batch of chunks of a tape, without their contents. @param selection further conditions, and the order */
  #sizes(selection: string, tape: string, ...values: number[]): StoredSize[] {
    const sql = `SELECT id, first, count, codec, length(body) AS bytes FROM savepoint_chunk WHERE tape = ? ${selection} LIMIT ?`;
    return this.#connection.rows<StoredSize>(sql, tape, ...values, BATCH_CHUNKS);
  }
}

/** A chunk without its contents. */
type StoredSize = ChunkSize & Pick<StoredChunk, "id">;

/** Where the next batch begins; `undefined` if this was the last. */
function nextStart(places: readonly StoredSize[]): number | undefined {
  const last = places.at(-1);
  return last && places.length === BATCH_CHUNKS ? last.first + last.count : undefined;
}
