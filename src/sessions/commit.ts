/** Builds the commit of a change to a session. */
import type { Frame } from "../state/index.js";
import type { BlobUse, Check, Commit, ItemBatch, Put } from "../store/index.js";
import {
  agentSessionKey,
  branchKey,
  type BranchRecord,
  encodeBranch,
  encodeRow,
  encodeSession,
  earliestExpiryOf,
  idKey,
  labelKey,
  sessionNumberKey,
  type CheckpointRow,
  rowKey,
  encodesPlace,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { checkIdUnused, checkRowExists, tagExtension } from "./conflicts.js";
import type { LoadedRecord } from "./reader.js";

/** The change of a session and one of its branches. */
export interface SessionChange {
  readonly sessionId: string;
  readonly sessionBefore: LoadedRecord<SessionRecord> | undefined;
  readonly session: SessionRecord;
  readonly branchBefore: LoadedRecord<BranchRecord> | undefined;
  readonly branch: BranchRecord;
  readonly rows: readonly CheckpointRow[];
  /** New items on the tape of the branch. */
  readonly items?: readonly Frame[];
  readonly blobs?: ReadonlyMap<string, Uint8Array>;
  /** Whether the caller chose the ids of the rows. Chosen ids are indexed, and checked to be new. */
  readonly hasChosenId?: boolean;
  /** Seqs of checkpoints other than the head that the change refers to. The commit checks that these exist. */
  readonly requiredRows?: readonly number[];
  /** Further parts of the commit. */
  readonly extension?: CommitParts | undefined;
}

/** Parts of a commit that runs, agents and other callers add. The blobs are by hash. */
export interface CommitParts extends Omit<Commit, "blobs"> {
  readonly blobs?: ReadonlyMap<string, Uint8Array>;
}

/** A commit, and the records as they are after it. */
export interface SessionCommit {
  readonly commit: Commit;
  readonly session: LoadedRecord<SessionRecord>;
  readonly branch: LoadedRecord<BranchRecord>;
}

/**
 * Builds the one commit of a change. The commit checks the session, the branch, new ids and required rows, and writes
 * the new records.
 */
export function buildCommit(change: SessionChange): SessionCommit {
  const { sessionId, sessionBefore, branchBefore, rows, items = [], extension = {} } = change;
  const { number, agent } = change.session;
  const record = {
    ...change.session,
    checkpoints: (sessionBefore?.record.checkpoints ?? 0) + rows.length,
    earliestExpiry: earliestExpiryOf(rows, change.session.earliestExpiry),
  };
  const session = { record, value: encodeSession(record) };
  const branch = { record: change.branch, value: encodeBranch(change.branch) };
  const ofSession = sessionKey(sessionId);
  const ofBranch = branchKey(sessionId, change.branch.name);
  const checks: Check[] = [
    { key: ofSession, value: sessionBefore?.value },
    { key: ofBranch, value: branchBefore?.value },
  ];
  const puts: Put[] = [
    { key: ofSession, value: session.value },
    { key: ofBranch, value: branch.value },
  ];
  if (!sessionBefore) puts.push({ key: sessionNumberKey(number), value: sessionId });
  const isNewOfAgent = agent !== undefined && sessionBefore?.record.agent === undefined;
  if (isNewOfAgent) puts.push({ key: agentSessionKey(agent, number), value: sessionId });
  for (const row of rows) {
    puts.push({ key: rowKey(number, row.seq), value: encodeRow(row), refs: row.skeleton.refs });
    if (row.label !== undefined) puts.push({ key: labelKey(number, row.label, row.seq), value: String(row.seq) });
    // Generated ids encode their place. An id that a caller chose can encode any place, and can be chosen twice.
    if (!change.hasChosenId && encodesPlace(row.id, number, row.seq)) continue;
    checks.push(checkIdUnused(row.id, number));
    puts.push({ key: idKey(row.id, number), value: String(row.seq) });
  }
  for (const seq of change.requiredRows ?? []) checks.push(checkRowExists(number, seq));
  if (extension.checks) checks.push(...tagExtension(extension.checks));
  if (extension.puts) puts.push(...extension.puts);
  const batches: ItemBatch[] = [...(extension.items ?? [])];
  if (items.length > 0) {
    batches.unshift({ tape: tapeName(number, change.branch.tape), first: branchBefore?.record.nextItem ?? 0, items });
  }
  const blobs = [...toBlobUses(change.blobs), ...toBlobUses(extension.blobs)];
  const { deletes, notBefore, wakes } = extension;
  const commit: Commit = {
    checks,
    puts,
    items: batches,
    blobs,
    ...(deletes && { deletes }),
    ...(notBefore !== undefined && { notBefore }),
    ...(wakes && { wakes }),
  };
  return { commit, session, branch };
}

/** Turns parts of a commit into a complete one. */
export function toCommit({ blobs, ...parts }: CommitParts): Commit {
  return { ...parts, blobs: toBlobUses(blobs) };
}

function toBlobUses(blobs: ReadonlyMap<string, Uint8Array> | undefined): BlobUse[] {
  if (!blobs || blobs.size === 0) return [];
  return [...blobs].map(([hash, bytes]) => ({ hash, bytes }));
}
