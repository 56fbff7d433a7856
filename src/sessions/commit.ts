/** Puts together the one commit by which a session changes. */
import type { Frame } from "../state/index.js";
import type { Check, Commit, ItemRun, KeyRange, Put } from "../store/index.js";
import {
  agentSessionKey,
  branchKey,
  type BranchRecord,
  encodeBranch,
  encodeRow,
  encodeSession,
  firstExpiry,
  idKey,
  labelKey,
  numberKey,
  type Row,
  rowKey,
  saysItsPlace,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import type { Known } from "./reader.js";

/** What becomes of a session and one of its branches. */
export interface SessionChange {
  readonly sessionId: string;
  readonly sessionBefore: Known<SessionRecord> | undefined;
  readonly session: SessionRecord;
  readonly branchBefore: Known<BranchRecord> | undefined;
  readonly branch: BranchRecord;
  readonly rows: readonly Row[];
  /** New items of the branch's tape. */
  readonly items?: readonly Frame[];
  readonly blobs?: ReadonlyMap<string, Uint8Array>;
  /** Did the caller choose the ids of the rows? */
  readonly chosenId?: boolean;
  /** Checkpoints that are built upon without being the head: they must still be there. */
  readonly builtOn?: readonly number[];
  /** What else belongs to the commit. */
  readonly more?: CommitParts;
}

/** Parts of a commit that the layer above adds. */
export interface CommitParts {
  readonly checks?: readonly Check[];
  readonly puts?: readonly Put[];
  readonly deletes?: readonly (string | KeyRange)[];
  readonly items?: readonly ItemRun[];
  readonly blobs?: ReadonlyMap<string, Uint8Array>;
  readonly notBefore?: number;
  readonly wakes?: readonly string[];
}

export interface BuiltCommit {
  readonly commit: Commit;
  readonly session: Known<SessionRecord>;
  readonly branch: Known<BranchRecord>;
}

export function buildCommit(change: SessionChange): BuiltCommit {
  const { sessionId, sessionBefore, branchBefore, rows, more = {} } = change;
  const { number, agent } = change.session;
  const counted = {
    ...change.session,
    checkpoints: (sessionBefore?.record.checkpoints ?? 0) + rows.length,
    expires: earlier(change.session.expires, firstExpiry(rows)),
  };
  const session = { record: counted, value: encodeSession(counted) };
  const branch = { record: change.branch, value: encodeBranch(change.branch) };
  const ofSession = sessionKey(sessionId);
  const ofBranch = branchKey(sessionId, change.branch.name);

  // The others are found by what their ids say. One that a caller chose may say anything, and be chosen twice.
  const indexed = change.chosenId ? rows : rows.filter((row) => !saysItsPlace(row.id, number, row.seq));
  const checks: Check[] = [
    { key: ofSession, value: sessionBefore?.value },
    { key: ofBranch, value: branchBefore?.value },
    ...indexed.map((row) => ({ key: idKey(row.id, number), value: undefined })),
    ...(change.builtOn ?? []).map((seq) => ({ key: rowKey(number, seq), exists: true as const })),
    ...(more.checks ?? []),
  ];
  const puts: Put[] = [
    { key: ofSession, value: session.value },
    { key: ofBranch, value: branch.value },
    ...(sessionBefore ? [] : [{ key: numberKey(number), value: sessionId }]),
    ...(agent === undefined || sessionBefore?.record.agent !== undefined
      ? []
      : [{ key: agentSessionKey(agent, number), value: sessionId }]),
    ...rows.flatMap((row) => putsOfRow(row, number)),
    ...indexed.map((row) => ({ key: idKey(row.id, number), value: String(row.seq) })),
    ...(more.puts ?? []),
  ];
  const items = change.items ?? [];
  const first = branchBefore?.record.nextItem ?? 0;
  const runs = items.length === 0 ? [] : [{ tape: tapeName(number, change.branch.tape), first, items }];
  const blobs = [...(change.blobs ?? []), ...(more.blobs ?? [])].map(([hash, bytes]) => ({ hash, bytes }));
  const commit: Commit = {
    checks,
    puts,
    items: [...runs, ...(more.items ?? [])],
    blobs,
    ...(more.deletes && { deletes: more.deletes }),
    ...(more.notBefore !== undefined && { notBefore: more.notBefore }),
    ...(more.wakes && { wakes: more.wakes }),
  };
  return { commit, session, branch };
}

/** Parts of a commit as one of their own. */
export function toCommit({ blobs = new Map<string, Uint8Array>(), ...parts }: CommitParts): Commit {
  return { ...parts, blobs: [...blobs].map(([hash, bytes]) => ({ hash, bytes })) };
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

function putsOfRow(row: Row, number: number): Put[] {
  return [
    { key: rowKey(number, row.seq), value: encodeRow(row), refs: row.skeleton.refs },
    ...(row.label === undefined ? [] : [{ key: labelKey(number, row.label, row.seq), value: String(row.seq) }]),
  ];
}
