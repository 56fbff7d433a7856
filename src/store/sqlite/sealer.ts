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
import type { Freed, ItemRun } from "../store.js";
import { COMPRESSES_WELL } from "../packing/compression.js";
import { LooseItems, startOfTail, type TailRow } from "../packing/loose-items.js";
import { packGroup, planSealing } from "../packing/pack-group.js";
import type { Connection } from "./connection.js";
import { backgroundReport } from "../options.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { packRun, type RunRow, unpackRun } from "../packing/run-codec.js";
import { RUN_ITEMS, spansInRow } from "../packing/run-groups.js";
import { insertRun } from "./rows.js";

/** Rows looked at in one transaction, so that a long tape does not hold the write lock for long. */
const BATCH_ROWS = 256;

export class Sealer {
  readonly #connection: Connection;
  readonly #probe: (point: WritePoint) => void;
  readonly #compress: boolean;
  readonly #compressesAtOnce: boolean;
  readonly #report: (message: string, error: unknown) => void;
  readonly #loose = new LooseItems();
  #work: Promise<void> = Promise.resolve();

  constructor(connection: Connection, options: SqliteOptions) {
    this.#connection = connection;
    this.#probe = options.probe ?? (() => {});
    this.#compress = options.compress ?? true;
    this.#compressesAtOnce = this.#compress && COMPRESSES_WELL;
    this.#report = backgroundReport(options);
  }

  /** Notes items that were committed; packs their tape in the background once a full run has gathered. */
  noteNew(run: ItemRun): void {
    if (run.items.length >= RUN_ITEMS && !this.#compressesAtOnce) return;
    if (this.#loose.note(run)) this.#work = this.#work.then(() => this.#sealTail(run.tape));
  }

  /** Packing is never urgent: a failure leaves small rows, and the next full run tries again. */
  async #sealTail(tape: string): Promise<void> {
    try {
      await nextTurn();
      const from = this.#loose.start(tape) ?? this.#startOfTail(tape);
      const next = await this.#seal(tape, from, { all: false, compressing: this.#compressesAtOnce });
      this.#loose.setStart(tape, next.from);
    } catch (error) {
      // Others who write, and closing, come first. Anything else will soon be a failure of somebody's commit as well.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CLOSED")) return;
      this.#report("items could not be packed, and stay as they are", error);
    }
  }

  async idle(): Promise<void> {
    await this.#work;
  }

  /** Packs and compresses every tape. */
  async sealAll(): Promise<void> {
    await this.idle();
    const tapes = this.#connection.rows<{ tape: string }>("SELECT DISTINCT tape FROM savepoint_run ORDER BY tape");
    for (const { tape } of tapes) {
      for (let next = { from: 0, more: true }; next.more;) {
        next = await this.#seal(tape, next.from, { all: true, compressing: this.#compress });
      }
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
    const spans = spansInRow(row, live, below);
    const kept = spans.reduce((count, span) => count + span.end - span.start, 0);
    if (kept >= row.count || (kept > 0 && !repack)) return;
    if (kept > 0) {
      const items = unpackRun(row);
      if ("unreadable" in items || !items.every((item) => "json" in item)) return;
      this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
      for (const span of spans) {
        const part = packRun(row.tape, span.start, items.slice(span.start - row.first, span.end - row.first));
        insertRun(this.#connection, part);
      }
    } else this.#connection.run("DELETE FROM savepoint_run WHERE id = ?", row.id);
    freed.items += row.count - kept;
    // Their share: what is left may take more than before, because it is not compressed yet.
    freed.bytes += Math.round((row.body.length * (row.count - kept)) / row.count);
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
    const rows = this.#rows(tape, from, Number.MAX_SAFE_INTEGER);
    const { groups, ...next } = planSealing(rows, from, BATCH_ROWS, options.all);
    for (const group of groups) await this.#pack(group, options.compressing);
    return next;
  }

  /** The first of the small rows at the end of a tape: all before it has been packed. */
  #startOfTail(tape: string): number {
    const rows = this.#connection.rows<TailRow>(
      `SELECT first, count, codec, length(body) AS bytes FROM savepoint_run WHERE tape = ? ORDER BY first DESC LIMIT ?`,
      tape,
      BATCH_ROWS,
    );
    return startOfTail(rows);
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
  #replace(group: readonly StoredRun[], row: RunRow): boolean {
    const place = [row.tape, row.first, row.first + row.count] as const;
    const where = "WHERE tape = ? AND first >= ? AND first < ?";
    const ids = this.#connection.rows<{ id: number }>(`SELECT id FROM savepoint_run ${where} ORDER BY first`, ...place);
    if (ids.length !== group.length || ids.some(({ id }, index) => id !== group[index]?.id)) return false;
    this.#connection.run(`DELETE FROM savepoint_run ${where}`, ...place);
    insertRun(this.#connection, row);
    return true;
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

/** Where the next batch begins; `undefined` when this was the last. */
function nextStart(rows: readonly StoredRun[]): number | undefined {
  const last = rows.at(-1);
  return last && rows.length === BATCH_ROWS ? last.first + last.count : undefined;
}
