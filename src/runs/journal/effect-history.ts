/**
 * The effects of all steps of a branch, for people: read from the entries that each checkpoint of its history lists, and from
 * the journal of the current step. Damaged entries become holes.
 */
import {
  type CheckpointRef,
  type CheckpointRow,
  decodeJournal,
  entriesSince,
  journalKey,
  type JournalRecord,
  unlistedEntries,
} from "../../records/index.js";
import { checkpointNotFound, isIntact, type Heads, type SessionReader } from "../../sessions/index.js";
import { readBranchStatuses } from "../status/index.js";
import { describeCurrentStep } from "./current-step.js";
import { EffectTracker, type EntrySource, type Listed, toHole } from "./effect-tracker.js";
import { readEntryPages } from "./entry-pages.js";
import type { JournalOptions } from "./journal-entry.js";

/** The entries of a branch that no checkpoint lists yet; `undefined` if there are none. */
export async function readCurrentSource(
  reader: SessionReader,
  branch: string,
  heads: Heads,
): Promise<EntrySource | undefined> {
  return toCurrentSource(await readJournalRecord(reader, branch, heads), heads);
}

function toCurrentSource(journal: JournalRecord | undefined, { branch }: Heads): EntrySource | undefined {
  const head = branch?.record.head;
  const piece = journal && unlistedEntries(journal, head);
  return piece && { row: undefined, piece, turn: head?.run?.turn ?? 0 };
}

/** The record of the journal of a branch; `undefined` if there is none. A damaged one is reported. */
async function readJournalRecord(
  reader: SessionReader,
  branch: string,
  heads: Heads,
): Promise<JournalRecord | undefined> {
  const [record] = await reader.context.store.get([journalKey(reader.sessionId, branch)]);
  if (!record || !heads.branch?.record.head) return undefined;
  if (!("value" in record)) {
    reader.reportDamage(undefined, undefined, record.unreadable);
    return undefined;
  }
  const journal = decodeJournal(record.value);
  return journal.number === heads.session?.record.number ? journal : undefined;
}

/** Lists the effects of all steps of a branch. */
export async function* readEffectHistory(
  reader: SessionReader,
  branch: string,
  heads: Heads,
  options: JournalOptions,
): AsyncGenerator<Listed> {
  const number = heads.session?.record.number;
  const head = heads.branch?.record.head;
  if (number === undefined || !head) return;
  const { from } = options;
  const last = from === undefined ? head : await reader.find(number, from, head);
  if (!last) throw checkpointNotFound(reader.sessionId, from as CheckpointRef);
  const journal = await readJournalRecord(reader, branch, heads);
  const source = from === undefined ? toCurrentSource(journal, heads) : undefined;
  const [status] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const isRunning = from === undefined && status?.status === "running";
  const current = describeCurrentStep(reader.sessionId, heads, journal, status);
  const groups = options.order === "newest" ? newestFirst(reader, number, last) : oldestFirst(reader, number, last);
  const tracker = new EffectTracker(reader, options, isRunning, current);
  const reading = { values: options.values === "none" ? "none" : "all" } as const;
  async function* read(from: EntrySource): AsyncGenerator<Listed> {
    if (from.unreadable !== undefined) yield* [...tracker.end(), toHole(from, from.unreadable)];
    if (!from.piece) return;
    for await (const page of readEntryPages(reader, number as number, from.piece, reading))
      yield* tracker.add(from, page);
  }
  if (options.order !== "newest") {
    for await (const group of groups) for (const each of group) yield* read(each);
    if (source) yield* read(source);
    yield* tracker.end(true);
    return;
  }
  // The newest step continues that of the head, if the head is inside a step.
  let pending = source ? [source] : [];
  let isNewest = true;
  for await (const group of groups) {
    const listed: Listed[] = [];
    for (const each of [...group, ...pending]) for await (const entry of read(each)) listed.push(entry);
    listed.push(...tracker.end(isNewest));
    pending = [];
    isNewest = false;
    yield* listed.reverse();
  }
}

/** The sources of a branch from the root to the head. Reads all rows first, and keeps only their numbers. */
async function* oldestFirst(reader: SessionReader, number: number, head: CheckpointRow): AsyncGenerator<EntrySource[]> {
  const seqs: number[] = [];
  /** The damaged checkpoints, by the seq of the next intact one. */
  const lost = new Map<number, RowDamage[]>();
  let child = head.seq;
  for await (const row of reader.lineage(number, head)) {
    if (isIntact(row)) {
      child = row.seq;
      if (row.seq !== head.seq) seqs.push(row.seq);
    } else {
      reader.reportDamage(undefined, row.seq, row.unreadable);
      lost.set(child, [row, ...(lost.get(child) ?? [])]);
    }
  }
  seqs.reverse();
  let parent: CheckpointRow | undefined;
  for (let at = 0; at <= seqs.length; at += ROWS) {
    const rows = (await reader.rows(number, seqs.slice(at, at + ROWS))).filter(isIntact);
    if (at + ROWS > seqs.length) rows.push(head);
    const sources: EntrySource[] = [];
    for (const row of rows) {
      for (const damage of lost.get(row.seq) ?? []) sources.push(toLostSource(damage, row));
      sources.push(toSource(row, parent));
      parent = row;
    }
    yield sources;
  }
}

/** Rows that are read with one request. */
const ROWS = 256;

/** The sources of a branch from the head to the root, in groups of checkpoints that share a step; each group oldest first. */
async function* newestFirst(reader: SessionReader, number: number, head: CheckpointRow): AsyncGenerator<EntrySource[]> {
  let group: EntrySource[] = [];
  let lost: RowDamage[] = [];
  let child: CheckpointRow | undefined;
  for await (const row of reader.lineage(number, head)) {
    if (!isIntact(row)) {
      reader.reportDamage(undefined, row.seq, row.unreadable);
      lost.push(row);
      continue;
    }
    if (child) group.push(...withLost(child, row, lost));
    lost = [];
    if (child && !row.run?.midStep) {
      yield group.reverse();
      group = [];
    }
    child = row;
  }
  if (child) group.push(...withLost(child, undefined, lost));
  yield group.reverse();
}

/** A checkpoint whose row cannot be read. */
interface RowDamage {
  readonly seq: number;
  readonly unreadable: string;
}

/** The source of a checkpoint, and those of the damaged ones between it and its nearest intact ancestor, newest first. */
function withLost(
  row: CheckpointRow,
  parent: CheckpointRow | undefined,
  lost: readonly RowDamage[],
): readonly EntrySource[] {
  return [toSource(row, parent), ...lost.map((damage) => toLostSource(damage, row))];
}

function toLostSource({ seq, unreadable }: RowDamage, child: CheckpointRow): EntrySource {
  const reason = `checkpoint #${seq}: ${unreadable}`;
  return { row: undefined, piece: undefined, turn: child.run?.turn ?? 0, unreadable: reason };
}

/** The entries that a checkpoint adds to its parent's. */
export function toSource(row: CheckpointRow, parent: CheckpointRow | undefined): EntrySource {
  return { row, piece: entriesSince(row, parent), turn: row.run?.turn ?? 0 };
}
