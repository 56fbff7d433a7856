/** Loading the newest intact checkpoint of a branch. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Shadow } from "../state/index.js";
import type { BranchCursor } from "./branch-cursor.js";
import { type CheckpointInfo, MAIN, type CheckpointRow, type SkippedCheckpoint } from "../records/index.js";
import { loadShadow } from "./load-state.js";
import { describeSession } from "./errors.js";
import type { Heads, SessionReader } from "./reader.js";

/** A checkpoint with its state, and the damaged ones that were skipped on the way to it. */
export interface IntactCheckpoint {
  readonly info: CheckpointInfo;
  readonly shadow: Shadow;
  readonly skipped: readonly SkippedCheckpoint[];
}

/**
 * Walks from the head back along the parents, never to a sibling, to the newest intact checkpoint. Returns `undefined` if
 * nothing was ever saved; throws `DAMAGED` if there are checkpoints and none is intact.
 *
 * @param see called with the heads that were read
 */
export async function loadLatestIntact(
  reader: SessionReader,
  cursor: BranchCursor,
  see: (heads: Heads) => void,
): Promise<IntactCheckpoint | undefined> {
  for (let missingHead: string | undefined; ;) {
    const start = await findHead(reader, cursor, see);
    if (!start) return undefined;
    try {
      return await walkBack(reader, cursor, start, start.head.id === missingHead);
    } catch (error) {
      // Removed during the read: read the new head, if there is one.
      if (!isSavepointError(error, "CHECKPOINT_NOT_FOUND") || start.head.id === missingHead) throw error;
      missingHead = start.head.id;
    }
  }
}

/** @param isHeadMissing the head was read twice and its items are gone although it is still the head: that is damage too */
async function walkBack(
  reader: SessionReader,
  cursor: BranchCursor,
  start: Start,
  isHeadMissing: boolean,
): Promise<IntactCheckpoint> {
  const { number, agent, head } = start;
  const skipped: SkippedCheckpoint[] = [];
  for await (const row of reader.lineage(number, head)) {
    if ("unreadable" in row) {
      skip(reader, skipped, { id: undefined, seq: row.seq, reason: row.unreadable });
      continue;
    }
    try {
      const cached = row === head ? cursor.shadow : undefined;
      const shadow = cached ?? (await loadShadow(reader, number, row));
      if (row === head) cursor.keepShadow(row, shadow);
      if (row !== head || !start.parent) {
        return { info: await reader.loadInfo(number, row, agent), shadow, skipped };
      }
      const notes = await reader.notes(number, row.seq, row.seq);
      return { info: reader.toInfo(row, agent, start.parent.id, notes.get(row.seq)), shadow, skipped };
    } catch (error) {
      const isLost = isHeadMissing && row === head && isSavepointError(error, "CHECKPOINT_NOT_FOUND");
      if (!isLost && !isSavepointError(error, "DAMAGED")) throw error;
      skip(reader, skipped, { id: row.id, seq: row.seq, reason: error.message });
    }
  }
  throw new SavepointError(
    "DAMAGED",
    `${describeSession(reader.sessionId)} has no intact checkpoint: ${skipped[0]?.reason ?? ""} Load one with { partial: true } to read its intact parts.`,
    { details: { skipped } },
  );
}

interface Start {
  readonly number: number;
  readonly agent: string | undefined;
  readonly head: CheckpointRow;
  /** The head's parent, if it is known without a read. */
  readonly parent?: { readonly id: string | undefined };
}

async function findHead(
  reader: SessionReader,
  cursor: BranchCursor,
  see: (heads: Heads) => void,
): Promise<Start | undefined> {
  try {
    const heads = await cursor.refresh();
    see(heads);
    const { session, branch } = heads;
    if (!session || !branch?.record.head) return undefined;
    const { head, headParentId } = branch.record;
    return { number: session.record.number, agent: session.record.agent, head, parent: { id: headParentId } };
  } catch (error) {
    // The records that name the head are damaged. On `main`, the newest row of its tape is the head.
    if (!isSavepointError(error, "DAMAGED") || cursor.branchName !== MAIN) throw error;
    const salvaged = await salvageHead(reader);
    if (!salvaged) throw error;
    return salvaged;
  }
}

async function salvageHead(reader: SessionReader): Promise<Start | undefined> {
  const number = await reader.scanForNumber();
  if (number === undefined) return undefined;
  for await (const row of reader.allRows(number, true)) {
    // An unreadable row may be the head, and older rows of the tape may belong to an abandoned line of history.
    if ("unreadable" in row) return undefined;
    if (row.branch === MAIN) return { number, agent: undefined, head: row };
  }
  return undefined;
}

function skip(reader: SessionReader, skipped: SkippedCheckpoint[], damaged: SkippedCheckpoint): void {
  skipped.push(damaged);
  reader.reportDamage(damaged.id, damaged.seq, damaged.reason);
}
