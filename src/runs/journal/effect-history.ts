/**
 * The effects of all steps of a branch, for people: read from the entries that each checkpoint of its history lists, and from
 * the journal of the current step. Damaged entries become holes.
 */
import { decodeJournal, entriesSince, journalKey, unlistedEntries, type CheckpointRow } from "../../records/index.js";
import { isIntact, type Heads, type SessionReader } from "../../sessions/index.js";
import { readBranchStatuses } from "../status/index.js";
import type { Hole, Piece } from "../../state/index.js";
import { type EntryResult, readEntryPages } from "./entry-pages.js";
import type { JournalOperation } from "./entry.js";
import { describeEffect, type JournalEntry, type JournalHole, type JournalOptions } from "./journal-entry.js";

/** Entries that belong together, and the checkpoint that lists them. */
export interface EntrySource {
  /** `undefined` for the entries of the current step that no checkpoint lists yet. */
  readonly row: CheckpointRow | undefined;
  readonly piece: Piece | undefined;
  readonly turn: number;
  /** Why the checkpoint that lists them cannot be read. */
  readonly unreadable?: string;
}

/** What is known of an effect while its entries are read. */
interface EffectRecord {
  readonly index: number;
  readonly operations: JournalOperation[];
  readonly holes: Hole[];
  source: EntrySource;
  readonly step: number | undefined;
  readonly turn: number | undefined;
  worker: string | undefined;
}

type Listed = JournalEntry | JournalHole;

/** Puts the entries of consecutive checkpoints together to effects. */
export class EffectTracker {
  readonly #reader: SessionReader;
  readonly #options: JournalOptions;
  readonly #isRunning: boolean;
  #effects = new Map<number, EffectRecord>();
  #step: number | undefined;
  #turn: number | undefined;
  #worker: string | undefined;

  /** @param isRunning whether effects without a result at the end are in progress */
  constructor(reader: SessionReader, options: JournalOptions, isRunning: boolean) {
    this.#reader = reader;
    this.#options = options;
    this.#isRunning = isRunning;
  }

  /** Adds entries of one source. Returns the effects that are complete, in the order of their numbers. */
  add(source: EntrySource, results: readonly EntryResult[]): Listed[] {
    const done: Listed[] = [];
    for (const result of results) {
      if ("unreadable" in result) {
        done.push(...this.end(), toHole(source, result.unreadable));
        continue;
      }
      const { mark, worker } = result.entry;
      if (mark && !mark.continues) done.push(...this.end());
      if (mark) [this.#step, this.#turn, this.#worker] = [mark.step, mark.turn, worker];
      // A tool call that is kept when its step is restarted is listed already.
      if (!isRepeated(result.entry)) this.#apply(source, result.entry, result.holes);
    }
    return [...done, ...this.#takeSettled()];
  }

  /** Ends the step. Returns the remaining effects. */
  end(isLast = false): Listed[] {
    const rest = [...this.#effects.values()].sort((a, b) => a.index - b.index);
    this.#effects = new Map();
    return rest.flatMap((effect) => this.#describe(effect, isLast));
  }

  #apply(source: EntrySource, entry: JournalOperation, holes: readonly Hole[]): void {
    const { index } = entry;
    let effect = this.#effects.get(index);
    if (!effect) {
      effect = { index, operations: [], holes: [], source, step: this.#step, turn: this.#turn, worker: this.#worker };
      this.#effects.set(index, effect);
    }
    effect.operations.push(entry);
    effect.holes.push(...holes);
    effect.source = source;
    effect.worker = this.#worker ?? effect.worker;
  }

  /** Removes and describes the effects with results that no effect without a result precedes. */
  #takeSettled(): Listed[] {
    const settled: Listed[] = [];
    for (const effect of [...this.#effects.values()].sort((a, b) => a.index - b.index)) {
      if (effect.operations.at(-1)?.op !== "end") break;
      this.#effects.delete(effect.index);
      settled.push(...this.#describe(effect, false));
    }
    return settled;
  }

  #describe({ index, operations, holes, source, step, turn, worker }: EffectRecord, isLast: boolean): Listed[] {
    const { row } = source;
    const entry = describeEffect(index, operations, {
      registry: this.#reader.context.registry,
      open: isLast && this.#isRunning ? "running" : "unknown",
      values: this.#options.values ?? "full",
      turn: turn ?? source.turn,
      step: step ?? row?.step,
      worker,
      holes,
      checkpoint: row && { seq: row.seq, id: row.id },
    });
    return entry ? [entry] : [];
  }
}

function isRepeated(entry: JournalOperation): boolean {
  return entry.op === "kept" || (entry.op === "end" && entry.isKept === true);
}

function toHole({ row, turn }: EntrySource, reason: string): JournalHole {
  return { kind: "hole", turn, reason, checkpoint: row && { seq: row.seq, id: row.id } };
}

/** The entries of a branch that no checkpoint lists yet; `undefined` if there are none. */
export async function readCurrentSource(
  reader: SessionReader,
  branch: string,
  heads: Heads,
): Promise<EntrySource | undefined> {
  const [record] = await reader.context.store.get([journalKey(reader.sessionId, branch)]);
  const head = heads.branch?.record.head;
  if (!record || !head) return undefined;
  if (!("value" in record)) {
    reader.reportDamage(undefined, undefined, record.unreadable);
    return undefined;
  }
  const journal = decodeJournal(record.value);
  if (journal.number !== heads.session?.record.number) return undefined;
  const piece = unlistedEntries(journal, head);
  return piece && { row: undefined, piece, turn: head.run?.turn ?? 0 };
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
  const source = await readCurrentSource(reader, branch, heads);
  const [status] = await readBranchStatuses(reader.context, [{ sessionId: reader.sessionId, branch, heads }]);
  const isRunning = status?.status === "running";
  const groups = options.order === "newest" ? newestFirst(reader, number, head) : oldestFirst(reader, number, head);
  const tracker = new EffectTracker(reader, options, isRunning);
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
