/**
 * Packs the small runs that commits leave behind into large ones, and frees what is dead.
 *
 * Each step is one transaction that reads, verifies and replaces rows, so readers and writers of any process see the old
 * rows or the new ones. A damaged item is never packed again under a fresh checksum: its row is left as it is.
 */
import { isSavepointError } from "../../errors.js";
import type { Frame, Freed, ItemRun } from "../store.js";
import type { Connection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { packRun, type RunRow, unpackRun } from "./run-codec.js";
import { insertRun, RUN_BYTES, RUN_ITEMS } from "./rows.js";

/** Rows looked at in one transaction, so that a long tape does not hold the write lock for long. */
const BATCH_ROWS = 256;

export class Sealer {
  readonly #connection: Connection;
  readonly #probe: (point: WritePoint) => void;
  readonly #loose = new Map<string, { items: number; bytes: number }>();
  #work: Promise<void> = Promise.resolve();

  constructor(connection: Connection, options: SqliteOptions) {
    this.#connection = connection;
    this.#probe = options.probe ?? (() => {});
  }

  /** Notes items that were committed; packs their tape in the background once a full run has gathered. */
  noteNew(run: ItemRun): void {
    const loose = this.#loose.get(run.tape) ?? { items: 0, bytes: 0 };
    loose.items += run.items.length;
    for (const frame of run.items) loose.bytes += frame.json.length;
    this.#loose.set(run.tape, loose);
    if (loose.items < RUN_ITEMS && loose.bytes < RUN_BYTES) return;
    this.#loose.delete(run.tape);
    this.#work = this.#work.then(() => this.#sealTail(run.tape));
  }

  /** Packing is never urgent: a failure leaves small rows, and the next full run tries again. */
  async #sealTail(tape: string): Promise<void> {
    try {
      await this.#seal(tape);
    } catch (error) {
      // Others who write, and closing, come first. Anything else will soon be a failure of somebody's commit as well.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED")) return;
      console.warn("savepoint: items could not be packed, and stay as they are:", error);
    }
  }

  async idle(): Promise<void> {
    await this.#work;
  }

  /** Packs every tape. */
  async sealAll(): Promise<void> {
    await this.idle();
    const tapes = this.#connection.rows<{ tape: string }>("SELECT DISTINCT tape FROM savepoint_run ORDER BY tape");
    for (const { tape } of tapes) {
      let from = 0;
      for (let next = await this.#seal(tape, from); next !== undefined; next = await this.#seal(tape, from))
        from = next;
    }
  }

  /** Frees dead items below a number: whole rows at once, parts of rows only when `repack` is set. */
  async retain(
    tape: string,
    live: readonly { start: number; count: number }[],
    { below, repack = false }: { below: number; repack?: boolean },
  ): Promise<Freed> {
    const freed = { items: 0, bytes: 0 };
    for (let from: number | undefined = 0; from !== undefined;) {
      const start: number = from;
      from = await this.#connection.transaction("Freeing items in", () => {
        const rows = this.#rows(tape, start, below);
        for (const row of rows) this.#retainRow(row, live, below, repack, freed);
        return nextStart(rows);
      });
    }
    return freed;
  }

  #retainRow(
    row: StoredRun,
    live: readonly { start: number; count: number }[],
    below: number,
    repack: boolean,
    freed: { items: number; bytes: number },
  ): void {
    const end = row.first + row.count;
    const spans = merged(
      live
        .concat({ start: below, count: Math.max(0, end - below) })
        .map((span) => ({ start: Math.max(span.start, row.first), end: Math.min(span.start + span.count, end) }))
        .filter((span) => span.end > span.start),
    );
    const kept = spans.reduce((count, span) => count + span.end - span.start, 0);
    if (kept >= row.count || (kept > 0 && !repack)) return;
    let keptBytes = 0;
    if (kept > 0) {
      const items = unpackRun(row);
      if ("unreadable" in items || !items.every(isFrame)) return;
      this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
      for (const span of spans) {
        const part = packRun(row.tape, span.start, items.slice(span.start - row.first, span.end - row.first));
        insertRun(this.#connection, part);
        keptBytes += part.body.length;
      }
    } else this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
    freed.items += row.count - kept;
    freed.bytes += row.body.length - keptBytes;
  }

  /** Packs the rows of a tape from a number on; returns where to go on, or `undefined` at the end of the tape. */
  #seal(tape: string, from?: number): Promise<number | undefined> {
    return this.#connection
      .transaction("Packing", () => {
        this.#probe("seal:begin");
        const rows = this.#rows(tape, from ?? this.#startOfTail(tape), Number.MAX_SAFE_INTEGER);
        let group: StoredRun[] = [];
        for (const row of rows) {
          const last = group.at(-1);
          if (last && (last.first + last.count !== row.first || isFull(group))) {
            this.#pack(group);
            group = [];
          }
          group.push(row);
        }
        const more = rows.length === BATCH_ROWS;
        const open = more && !isFull(group) && group.length < rows.length ? group[0] : undefined;
        if (!open) this.#pack(group);
        this.#probe("seal:commit");
        // A group that is not full yet goes on with the rows that follow.
        return open ? open.first : nextStart(rows);
      })
      .then((next) => {
        this.#probe("seal:committed");
        return next;
      });
  }

  /** The first of the small rows at the end of a tape: all before it has been packed. */
  #startOfTail(tape: string): number {
    const rows = this.#connection.rows<{ first: number; count: number; bytes: number }>(
      "SELECT first, count, length(body) AS bytes FROM savepoint_run WHERE tape = ? ORDER BY first DESC LIMIT ?",
      tape,
      BATCH_ROWS,
    );
    const packed = rows.find((row) => row.count >= RUN_ITEMS || row.bytes >= RUN_BYTES / 2);
    return packed ? packed.first + packed.count : (rows.at(-1)?.first ?? 0);
  }

  #pack(group: readonly StoredRun[]): void {
    const first = group[0];
    if (!first || group.length < 2) return;
    const items = group.flatMap((row) => unpackRun(row));
    if (!items.every(isFrame)) return;
    for (const row of group) this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
    insertRun(this.#connection, packRun(first.tape, first.first, items as Frame[]));
    this.#probe("seal:written");
  }

  #rows(tape: string, from: number, below: number): StoredRun[] {
    return this.#connection.rows<StoredRun>(
      `SELECT id, tape, first, count, codec, sum, head, body FROM savepoint_run
       WHERE tape = ? AND first >= ? AND first < ? ORDER BY first LIMIT ?`,
      tape,
      from,
      below,
      BATCH_ROWS,
    );
  }
}

type StoredRun = RunRow & { readonly id: number };

function isFull(group: readonly StoredRun[]): boolean {
  const items = group.reduce((sum, row) => sum + row.count, 0);
  const bytes = group.reduce((sum, row) => sum + row.body.length, 0);
  return items >= RUN_ITEMS || bytes >= RUN_BYTES;
}

/** The same numbers in spans that neither overlap nor touch: each becomes a row, and no item may be in two. */
function merged(spans: { start: number; end: number }[]): { start: number; end: number }[] {
  const apart: { start: number; end: number }[] = [];
  for (const span of spans.sort((a, b) => a.start - b.start)) {
    const last = apart.at(-1);
    if (last && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else apart.push(span);
  }
  return apart;
}

function isFrame(item: object): item is Frame {
  return "json" in item;
}

/** Where the next batch begins; `undefined` when this was the last. */
function nextStart(rows: readonly StoredRun[]): number | undefined {
  const last = rows.at(-1);
  return last && rows.length === BATCH_ROWS ? last.first + last.count : undefined;
}
