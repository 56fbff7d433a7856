/**
 * Removes a conversation from the checkpoints of its agent, so that none of them keeps its messages. Each checkpoint is stored
 * again without the conversation, under its seq and id, and lists the conversation as erased. No other operation changes existing
 * checkpoints.
 */
import { isSavepointError } from "../errors.js";
import {
  branchKey,
  type BranchRecord,
  type CheckpointRow,
  encodeBranch,
  encodeMetadata,
  encodeRow,
  rowKey,
  tapeName,
} from "../records/index.js";
import { type BranchCursor, isIntact, type LoadedRecord, loadShadow, type SessionReader } from "../sessions/index.js";
import { encodeShadow, reviseShadow, shadowToValue } from "../state/index.js";
import type { Commit } from "../store/index.js";
import { retryOnConflict } from "../util/index.js";
import { type AgentState, decodeAgentMetadata, withoutStamp } from "./repository.js";

/** What was removed. */
export interface RemovedConversation {
  /** The number of checkpoints from which the conversation was removed. */
  readonly checkpoints: number;
  /** The seqs of damaged checkpoints, which may still contain it. */
  readonly damaged: readonly number[];
}

/** Removes a conversation from all checkpoints in the history of an agent; repeats it if another process saves the agent. */
export async function removeConversation(
  reader: SessionReader,
  cursor: BranchCursor,
  conversation: string,
): Promise<RemovedConversation> {
  let checkpoints = 0;
  return retryOnConflict(() =>
    cursor.exclusive(async () => {
      const damaged: number[] = [];
      const { session, branch: first } = await cursor.refresh();
      if (!session || !first) return { checkpoints, damaged };
      const { number } = session.record;
      let branch = first;
      for await (const row of rowsToSearch(reader, number, first.record)) {
        const plan = isIntact(row) ? await planRemoval(reader, number, branch, row, conversation) : "damaged";
        if (plan === "damaged") damaged.push(row.seq);
        if (typeof plan !== "object") continue;
        await reader.context.store.commit(plan.commit);
        if (plan.hasRow) checkpoints++;
        branch = plan.branch;
        cursor.adoptCommit({ ...plan, session });
      }
      return { checkpoints, damaged };
    }),
  );
}

/** The checkpoints of an agent, and the head if that has no row. */
async function* rowsToSearch(reader: SessionReader, number: number, { head, hidden }: BranchRecord) {
  yield* reader.allRows(number, false);
  if (hidden && head) yield head;
}

interface RemovalPlan {
  readonly commit: Commit;
  readonly branch: LoadedRecord<BranchRecord>;
  /** Whether it is a checkpoint, and not a head that the next save replaces. */
  readonly hasRow: boolean;
}

/** Plans the commit that stores a checkpoint without a conversation; `undefined` if it does not contain it. */
async function planRemoval(
  reader: SessionReader,
  number: number,
  { record, value }: LoadedRecord<BranchRecord>,
  row: CheckpointRow,
  conversation: string,
): Promise<RemovalPlan | "damaged" | undefined> {
  const { registry } = reader.context;
  const shadow = await loadShadow(reader, number, row).catch((error: unknown) => {
    // A damaged head without a row looks like one that was replaced meanwhile.
    const isHiddenHead = record.hidden && record.head?.seq === row.seq;
    if (isSavepointError(error, "DAMAGED")) return undefined;
    if (isHiddenHead && isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
    throw error;
  });
  if (!shadow) return "damaged";
  const state = shadowToValue(shadow, registry) as AgentState;
  if (!(state.conversations instanceof Map)) return "damaged";
  if (!state.conversations.has(conversation)) return undefined;
  const conversations = new Map([...state.conversations].filter(([id]) => id !== conversation));
  const encoded = encodeShadow(
    reviseShadow(shadow, { ...state, conversations }, registry),
    record.tape,
    record.nextItem,
  );
  const metadata = decodeAgentMetadata(row, reader);
  const next: CheckpointRow = {
    ...row,
    tape: record.tape,
    skeleton: encoded.skeleton,
    stateBytes: encoded.stateBytes,
    metadata: encodeMetadata(
      { ...metadata, agent: withoutStamp(metadata), erased: [...(metadata.erased ?? []), conversation] },
      registry,
    ),
  };
  const isHead = record.head?.seq === row.seq;
  const hasRow = !isHead || !record.hidden;
  const branch = {
    ...record,
    nextItem: record.nextItem + encoded.items.length,
    ...(isHead && { head: next }),
  };
  const key = branchKey(reader.sessionId, record.name);
  const encodedBranch = encodeBranch(branch);
  const ofRow = rowKey(number, row.seq);
  return {
    hasRow,
    branch: { record: branch, value: encodedBranch },
    commit: {
      checks: [{ key, value }, ...(hasRow ? [{ key: ofRow, exists: true } as const] : [])],
      puts: [
        { key, value: encodedBranch },
        ...(hasRow ? [{ key: ofRow, value: encodeRow(next), refs: next.skeleton.refs }] : []),
      ],
      items: [{ tape: tapeName(number, record.tape), first: record.nextItem, items: encoded.items }],
      blobs: [...encoded.blobs].map(([hash, bytes]) => ({ hash, bytes })),
    },
  };
}
