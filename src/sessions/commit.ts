/** Builds the commit of a change to a session. */
import type { Frame } from "../state/index.js";
import type { Check, Commit, ItemBatch, KeyRange, Put } from "../store/index.js";
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
  readonly extension?: CommitParts;
}

/** Parts of a commit that runs, agents and other callers add. */
export interface CommitParts {
  readonly checks?: readonly Check[];
  readonly puts?: readonly Put[];
  readonly deletes?: readonly (string | KeyRange)[];
  readonly items?: readonly ItemBatch[];
  readonly blobs?: ReadonlyMap<string, Uint8Array>;
  readonly notBefore?: number;
  readonly wakes?: readonly string[];
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
  const { sessionId, sessionBefore, branchBefore, rows, extension = {} } = change;
  const { number, agent } = change.session;
  const counted = {
    ...change.session,
    checkpoints: (sessionBefore?.record.checkpoints ?? 0) + rows.length,
    earliestExpiry: earlier(change.session.earliestExpiry, earliestExpiryOf(rows)),
  };
  const session = { record: counted, value: encodeSession(counted) };
  const branch = { record: change.branch, value: encodeBranch(change.branch) };
  const ofSession = sessionKey(sessionId);
  const ofBranch = branchKey(sessionId, change.branch.name);

  // Generated ids encode their place. An id that a caller chose can encode any place, and can be chosen twice.
  const indexed = change.hasChosenId ? rows : rows.filter((row) => !encodesPlace(row.id, number, row.seq));
  const checks: Check[] = [
    { key: ofSession, value: sessionBefore?.value },
    { key: ofBranch, value: branchBefore?.value },
    ...indexed.map((row) => checkIdUnused(row.id, number)),
    ...(change.requiredRows ?? []).map((seq) => checkRowExists(number, seq)),
    ...tagExtension(extension.checks ?? []),
  ];
  const puts: Put[] = [
    { key: ofSession, value: session.value },
    { key: ofBranch, value: branch.value },
    ...(sessionBefore ? [] : [{ key: sessionNumberKey(number), value: sessionId }]),
    ...(agent === undefined || sessionBefore?.record.agent !== undefined
      ? []
      : [{ key: agentSessionKey(agent, number), value: sessionId }]),
    ...rows.flatMap((row) => putsOfRow(row, number)),
    ...indexed.map((row) => ({ key: idKey(row.id, number), value: String(row.seq) })),
    ...(extension.puts ?? []),
  ];
  const items = change.items ?? [];
  const first = branchBefore?.record.nextItem ?? 0;
  const runs = items.length === 0 ? [] : [{ tape: tapeName(number, change.branch.tape), first, items }];
  const blobs = [...(change.blobs ?? []), ...(extension.blobs ?? [])].map(([hash, bytes]) => ({ hash, bytes }));
  const commit: Commit = {
    checks,
    puts,
    items: [...runs, ...(extension.items ?? [])],
    blobs,
    ...(extension.deletes && { deletes: extension.deletes }),
    ...(extension.notBefore !== undefined && { notBefore: extension.notBefore }),
    ...(extension.wakes && { wakes: extension.wakes }),
  };
  return { commit, session, branch };
}

/** Turns parts of a commit into a complete one. */
export function toCommit({ blobs = new Map<string, Uint8Array>(), ...parts }: CommitParts): Commit {
  return { ...parts, blobs: [...blobs].map(([hash, bytes]) => ({ hash, bytes })) };
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

function putsOfRow(row: CheckpointRow, number: number): Put[] {
  return [
    { key: rowKey(number, row.seq), value: encodeRow(row), refs: row.skeleton.refs },
    ...(row.label === undefined ? [] : [{ key: labelKey(number, row.label, row.seq), value: String(row.seq) }]),
  ];
}
