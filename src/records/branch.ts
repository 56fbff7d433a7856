/**
 * The record of a branch: a named head in the checkpoint tree of a session.
 *
 * Every save on a branch checks and replaces its record. The record contains a copy of the head's row, so reading the
 * latest state takes one record and its items.
 */
import { renameBlobs } from "../state/index.js";
import { type KeyRange, prefixRange } from "../store/index.js";
import { either, isCounter, isNumber, isString, objectOf, oneOf, optional, tupleOf } from "../util/index.js";
import { type CheckpointRow, decodeRow, encodeRow } from "./checkpoint-row.js";
import { isId } from "./ids.js";
import { parseRecord } from "./parse-record.js";

/** A branch: its tape, its head, and the number of the next item on its tape. */
export interface BranchRecord {
  readonly name: string;
  readonly tape: number;
  readonly nextItem: number;
  /** The fencing number: rises whenever the right to write the branch changes hands. */
  readonly epoch: number;
  /** Whether a run has the right to write the branch. Other writers are rejected until the lease of the run expires. */
  readonly held: boolean;
  /** The head has no row of its own, and the next checkpoint replaces it in the history. */
  readonly hidden: boolean;
  readonly createdAt: number;
  /** The seq of the checkpoint that the branch was forked from. */
  readonly forkedFrom: number | undefined;
  /** The row of the newest checkpoint; `undefined` for an empty branch. */
  readonly head: CheckpointRow | undefined;
  /** The id of the head's parent. */
  readonly headParentId: string | undefined;
}

interface StoredBranch {
  b: string;
  p: number;
  i: number;
  e: number;
  t: number;
  f?: number;
  /** held */
  l?: 1;
  /** hidden */
  x?: 1;
  /** The head's seq, its refs, and the id of its parent. */
  h?: [number, string, (string | null)?];
}

const isStoredBranch = objectOf({
  b: isId,
  p: isCounter,
  i: isCounter,
  e: isCounter,
  t: isNumber,
  f: optional(isCounter),
  h: optional(tupleOf(isCounter, isString, optional(either(isString, oneOf(null))))),
});

/** A branch without checkpoints. */
export function newBranchRecord(name: string, tape: number, createdAt: number): BranchRecord {
  const claim = { epoch: 0, held: false };
  const head = { hidden: false, head: undefined, headParentId: undefined };
  return { name, tape, nextItem: 0, createdAt, forkedFrom: undefined, ...claim, ...head };
}

/** The branch's fields on the first line, then the encoded row of its head. */
export function encodeBranch(record: BranchRecord): string {
  const { name, tape, nextItem, epoch, createdAt, forkedFrom, held, hidden, head, headParentId } = record;
  const stored: StoredBranch = { b: name, p: tape, i: nextItem, e: epoch, t: createdAt };
  if (forkedFrom !== undefined) stored.f = forkedFrom;
  if (held) stored.l = 1;
  if (hidden) stored.x = 1;
  if (head) stored.h = [head.seq, head.skeleton.refs, headParentId ?? null];
  const fields = JSON.stringify(stored);
  return head ? `${fields}\n${encodeRow(head)}` : fields;
}

export function decodeBranch(value: string): BranchRecord {
  const end = value.indexOf("\n");
  const fields = end < 0 ? value : value.slice(0, end);
  const { b, p, i, e, t, f, l, x, h } = parseRecord<StoredBranch>(fields, isStoredBranch, "branch");
  return {
    name: b,
    tape: p,
    nextItem: i,
    epoch: e,
    createdAt: t,
    forkedFrom: f,
    held: l === 1,
    hidden: x === 1,
    head: h && decodeRow(h[0], value.slice(end + 1), h[1]),
    headParentId: h?.[2] ?? undefined,
  };
}

export const branchKey = (session: string, branch: string): string => `s\t${session}\t${branch}`;
export const branchesOf = (session: string): KeyRange => prefixRange(`s\t${session}\t`);

/** The record of a branch with other names for the blobs that its head references. @throws DAMAGED if the record is invalid */
export function renameBlobsInBranch(value: string, nameOf: (name: string) => string): string {
  if (!value.includes("#")) return value;
  const branch = decodeBranch(value);
  const { head } = branch;
  if (!head) return value;
  const { skeleton } = head;
  return encodeBranch({
    ...branch,
    head: { ...head, skeleton: { ...skeleton, refs: renameBlobs(skeleton.refs, nameOf) } },
  });
}
