/** Listing the checkpoints of a session. Reads rows, never states. */
import { FIRST_PAGE_SIZE, nextPageSize } from "../store/index.js";
import type { CheckpointInfo, CheckpointRef, CheckpointRow } from "../records/index.js";
import { invalidArgument, toArray, validateCount } from "../util/index.js";
import { checkpointNotFound } from "./errors.js";
import { type Heads, isIntact, type RowResult, type SessionReader } from "./reader.js";

/** Which checkpoints are listed, and in which order. */
export interface HistoryOptions {
  /** The maximum number of checkpoints. @default all */
  readonly limit?: number;
  /**
   * `"oldest"` reads all rows back to the root before it returns the first checkpoint.
   * @default "newest"
   */
  readonly order?: "newest" | "oldest";
  /**
   * Lists all checkpoints of the session in the order of saving, instead of the ancestors of this branch's head.
   * @default false
   */
  readonly allBranches?: boolean;
  /**
   * Lists this checkpoint and its ancestors.
   * @default the branch's head
   */
  readonly from?: CheckpointRef;
  /** With `allBranches`: only checkpoints with a smaller `seq`, for paging. */
  readonly before?: number;
  /** With `allBranches`: only checkpoints with a larger `seq`. */
  readonly after?: number;
}

/** Lists checkpoints without their states. Rows are read in pages while the list is consumed; damaged ones are skipped and reported. */
export async function* walkHistory(
  reader: SessionReader,
  options: HistoryOptions,
  readHeads: () => Promise<Heads>,
): AsyncGenerator<CheckpointInfo> {
  const { limit = Number.POSITIVE_INFINITY, order = "newest", allBranches = false, from, before, after } = options;
  validateCount(before, "`before`");
  validateCount(after, "`after`");
  if (!allBranches && (before ?? after) !== undefined) {
    throw invalidArgument("`before` and `after` need `allBranches: true`. Use `from` for the history of one branch.");
  }
  const span = { from: after === undefined ? 0 : after + 1, to: before };
  const { session, branch } = await readHeads();
  if (!session || limit <= 0) return;
  const { number, agent } = session.record;
  const newest = branch?.record.head;
  const head = from === undefined ? newest : await reader.find(number, from, newest);
  if (from !== undefined && !head) throw checkpointNotFound(reader.sessionId, from);
  const rows = allBranches
    ? reader.allRows(number, order === "newest", span.from, span.to)
    : rowsInOrder(reader, number, head, order);
  for await (const batch of batches(readable(reader, rows), limit)) {
    const seqs = batch.map((row) => row.seq);
    const notes = await reader.notes(number, Math.min(...seqs), Math.max(...seqs));
    const ids = await parentIds(reader, number, batch);
    for (const row of batch) {
      yield reader.toInfo(row, agent, row.parent === undefined ? undefined : ids.get(row.parent), notes.get(row.seq));
    }
  }
}

async function* rowsInOrder(
  reader: SessionReader,
  number: number,
  head: CheckpointRow | undefined,
  order: "newest" | "oldest",
): AsyncGenerator<RowResult> {
  if (!head) return;
  if (order === "newest") yield* reader.lineage(number, head);
  else yield* (await toArray(reader.lineage(number, head))).reverse();
}

/** Skips and reports unreadable rows. */
async function* readable(reader: SessionReader, rows: AsyncIterable<RowResult>): AsyncGenerator<CheckpointRow> {
  for await (const row of rows) {
    if (isIntact(row)) yield row;
    else reader.reportDamage(undefined, row.seq, row.unreadable);
  }
}

async function* batches(rows: AsyncIterable<CheckpointRow>, limit: number): AsyncGenerator<CheckpointRow[]> {
  let batch: CheckpointRow[] = [];
  let left = limit;
  let size = FIRST_PAGE_SIZE;
  for await (const row of rows) {
    batch.push(row);
    if (batch.length < Math.min(size, left)) continue;
    yield batch;
    left -= batch.length;
    if (left <= 0) return;
    batch = [];
    size = nextPageSize(size);
  }
  if (batch.length > 0) yield batch;
}

/** The ids of the parents, by seq. Most are in the same batch; the others are read together. */
async function parentIds(
  reader: SessionReader,
  number: number,
  rows: readonly CheckpointRow[],
): Promise<Map<number, string>> {
  const ids = new Map(rows.map((row) => [row.seq, row.id]));
  const parents = new Set(rows.flatMap((row) => row.parent ?? []));
  const missing = [...parents].filter((seq) => !ids.has(seq));
  const found = missing.length > 0 ? await reader.rows(number, missing) : [];
  for (const row of found) if (isIntact(row)) ids.set(row.seq, row.id);
  return ids;
}
