/** Where a claimed branch resumes: the checkpoint at which its step started, and the journal since then. */
import { SavepointError } from "../../errors.js";
import { rebaseFrame, type SessionReader } from "../../sessions/index.js";
import { type CheckpointRow, emptyJournal, type JournalRecord, rowKey } from "../../records/index.js";
import type { Frame } from "../../state/index.js";
import type { RecordResult } from "../../store/index.js";
import { encodeEntries, type JournalOperation, readEntries, RecordedEffects } from "../journal/index.js";

export interface ResumePoint {
  readonly journal: JournalRecord;
  /** Whether the journal needs a tape of its own. */
  readonly isNewTape: boolean;
  /** The items that the claim writes to the journal's tape. */
  readonly items: {
    readonly tape: number;
    readonly first: number;
    readonly frames: readonly Frame[];
    readonly blobs: ReadonlyMap<string, Uint8Array>;
  };
}

/**
 * Finds where a branch resumes. If its journal belongs to its head, that is used as it is. Otherwise the branch is new or was
 * moved, and the journal of its head is copied.
 *
 * @param restartStep keep only the tool calls of the journal, by their ids
 */
export async function findResumePoint(
  reader: SessionReader,
  number: number,
  current: JournalRecord | undefined,
  head: CheckpointRow,
  restartStep: boolean,
  nextTape: number,
): Promise<ResumePoint> {
  const base = current ?? emptyJournal(number, nextTape, head.seq);
  const end = base.first + base.count;
  const isOfHead = current?.head === head.seq;
  const noItems = { tape: base.tape, first: end, frames: [], blobs: new Map<string, Uint8Array>() };
  if (isOfHead && !restartStep) return { journal: current, isNewTape: false, items: noItems };
  const recorded = isOfHead
    ? { tape: current.tape, start: current.first, count: current.count }
    : head.run?.midStep
      ? head.run.journal
      : undefined;
  const { entries, frames } = recorded
    ? await readEntries(reader, number, recorded)
    : { entries: [] as readonly JournalOperation[], frames: [] as readonly Frame[] };
  const { items, blobs } = restartStep
    ? encodeEntries(keepToolCalls(entries), base.tape, end)
    : { items: frames.map((frame) => moveEntry(frame, recorded?.tape ?? 0, base.tape)), blobs: noItems.blobs };
  return {
    journal: {
      ...base,
      first: end,
      count: items.length,
      boundary: isOfHead ? base.boundary : stepBoundary(head),
      head: head.seq,
      origin: isOfHead ? base.origin : head.seq,
      failures: 0,
      loop: isOfHead ? base.loop : "",
      // A restarted step keeps its entries in the list of effects. Copied entries are listed by the checkpoint that has them.
      listedFrom: isOfHead ? (base.listedFrom ?? base.first) : end + items.length,
    },
    isNewTape: current === undefined,
    items: { ...noItems, frames: items, blobs },
  };
}

/** The checkpoint at which the step of a head started: the head itself, unless it is in the middle of a step. */
function stepBoundary(head: CheckpointRow): number {
  return head.run?.midStep ? head.run.boundary : head.seq;
}

/** Moves an entry to another tape. The items that belong to it stay where they are. */
function moveEntry(frame: Frame, from: number, to: number): Frame {
  return rebaseFrame({ json: frame.json.replace(/^\{"m":\d+/, '{"m":0'), refs: frame.refs }, from, to);
}

/** The started tool calls of a step that is restarted, with their results. */
function keepToolCalls(entries: readonly JournalOperation[]): JournalOperation[] {
  const { byIndex, kept } = new RecordedEffects(entries);
  const tools = [...kept, ...byIndex.values()].filter(
    ({ started, outcome, isUnknown }) => started.kind === "tool" && (outcome !== undefined || isUnknown),
  );
  return tools.map(({ started, outcome }, index) => ({ op: "kept", index, started, ...(outcome && { outcome }) }));
}

/**
 * Reads the checkpoint at which a step started. Throws `DAMAGED` if it is missing or unreadable.
 *
 * @param read a record that was read before, and may be its row
 */
export async function readBoundary(
  reader: SessionReader,
  number: number,
  seq: number,
  head: CheckpointRow,
  read?: RecordResult,
): Promise<CheckpointRow> {
  if (seq === head.seq) return head;
  const row = read?.key === rowKey(number, seq) ? reader.decodeRow(read) : await reader.row(number, seq);
  if (row && !("unreadable" in row)) return row;
  throw new SavepointError(
    "DAMAGED",
    `Checkpoint ${reader.sessionId}#${seq}, at which the current step started, is ${row ? `damaged: ${row.unreadable}` : "missing"}. Rewind to an intact checkpoint and run the session from there.`,
  );
}
