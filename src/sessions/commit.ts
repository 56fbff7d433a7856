/** Builds the commit of a change to a session. */
import type { Frame } from "../state/index.js";
import type { Commit, Put } from "../store/index.js";
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
  const { sessionId, sessionBefore, branchBefore, rows, items = [] } = change;
  const { deletes, notBefore, wakes, ...more } = change.extension ?? {};
  const { number, agent } = change.session;
  const counted = {
    ...change.session,
    checkpoints: (sessionBefore?.record.checkpoints ?? 0) + rows.length,
    earliestExpiry: earliestExpiryOf(rows, change.session.earliestExpiry),
  };
  const session = { record: counted, value: encodeSession(counted) };
  const branch = { record: change.branch, value: encodeBranch(change.branch) };
  const ofSession = sessionKey(sessionId);
  const ofBranch = branchKey(sessionId, change.branch.name);

  // Generated ids encode their place. An id that a caller chose can encode any place, and can be chosen twice.
  const indexed = change.hasChosenId ? rows : rows.filter((row) => !encodesPlace(row.id, number, row.seq));
  const isNewOfAgent = agent !== undefined && sessionBefore?.record.agent === undefined;
  const batch = { tape: tapeName(number, change.branch.tape), first: branchBefore?.record.nextItem ?? 0, items };
  const commit = toCommit({
    ...(deletes && { deletes }),
    ...(notBefore !== undefined && { notBefore }),
    ...(wakes && { wakes }),
    checks: [
      { key: ofSession, value: sessionBefore?.value },
      { key: ofBranch, value: branchBefore?.value },
      ...indexed.map((row) => checkIdUnused(row.id, number)),
      ...(change.requiredRows ?? []).map((seq) => checkRowExists(number, seq)),
      ...tagExtension(more.checks ?? []),
    ],
    puts: [
      { key: ofSession, value: session.value },
      { key: ofBranch, value: branch.value },
      ...(sessionBefore ? [] : [{ key: sessionNumberKey(number), value: sessionId }]),
      ...(isNewOfAgent ? [{ key: agentSessionKey(agent, number), value: sessionId }] : []),
      ...rows.flatMap((row) => putsOfRow(row, number)),
      ...indexed.map((row) => ({ key: idKey(row.id, number), value: String(row.seq) })),
      ...(more.puts ?? []),
    ],
    items: [...(items.length === 0 ? [] : [batch]), ...(more.items ?? [])],
    blobs: new Map([...(change.blobs ?? []), ...(more.blobs ?? [])]),
  });
  return { commit, session, branch };
}

/** Turns parts of a commit into a complete one. */
export function toCommit({ blobs = new Map<string, Uint8Array>(), ...parts }: CommitParts): Commit {
  return { ...parts, blobs: [...blobs].map(([hash, bytes]) => ({ hash, bytes })) };
}

function putsOfRow(row: CheckpointRow, number: number): Put[] {
  return [
    { key: rowKey(number, row.seq), value: encodeRow(row), refs: row.skeleton.refs },
    ...(row.label === undefined ? [] : [{ key: labelKey(number, row.label, row.seq), value: String(row.seq) }]),
  ];
}
