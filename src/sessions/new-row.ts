/** Building the rows of new checkpoints. */
import { type EncodedState, formatRefs, type Frame, parseRefs, type Ref } from "../state/index.js";
import {
  type BranchRecord,
  type CheckpointPlace,
  type CheckpointRow,
  defaultStatus,
  itemsOfRun,
  type RunPosition,
} from "../records/index.js";
import type { SaveFields } from "./save-options.js";

/** The approximate bytes of a row without its skeleton: its id twice, its fields, keys and checksums. */
const ROW_OVERHEAD = 120;

/** The row of a checkpoint that follows the head of a branch. */
export function buildRow(
  place: CheckpointPlace & { readonly branch: BranchRecord },
  encoded: EncodedState,
  options: SaveFields,
  newId: (place: CheckpointPlace) => string,
  now: number,
  run: RunPosition | undefined,
): CheckpointRow {
  const { seq, branch } = place;
  const parent = parentOf(branch, run);
  const { items, blobs, stateBytes } = encoded;
  const skeleton = { json: encoded.skeleton.json, refs: addRefs(encoded.skeleton.refs, run, branch.tape) };
  let storedBytes = Buffer.byteLength(skeleton.json) + skeleton.refs.length;
  for (const { json, refs } of items) storedBytes += Buffer.byteLength(json) + refs.length;
  for (const bytes of blobs.values()) storedBytes += bytes.length;
  return {
    seq,
    id: options.id ?? newId(place),
    tape: branch.tape,
    branch: branch.name,
    parent: parent?.seq,
    grandparent: parent?.grandparent,
    createdAt: now,
    step: options.step ?? (branch.head ? branch.head.step + 1 : 0),
    kind: options.kind ?? "manual",
    status: options.status ?? defaultStatus(run),
    reason: options.reason,
    label: options.label,
    description: options.description,
    trigger: options.trigger,
    resumeHint: options.resumeHint,
    tasksCompleted: options.tasksCompleted ?? 0,
    usage: options.usage,
    metadata: options.metadata,
    pinned: options.pinned ?? false,
    ttl: options.ttl,
    stateBytes,
    storedBytes: storedBytes + ROW_OVERHEAD,
    skeleton,
    version: options.version ?? branch.head?.version,
    run,
  };
}

/** A hidden head is replaced by its successor, unless that is a checkpoint inside the step that starts at the head. */
function parentOf(
  { head, hidden }: BranchRecord,
  run: RunPosition | undefined,
): { seq: number; grandparent: number | undefined } | undefined {
  if (!head) return undefined;
  if (!hidden || run?.midStep) return { seq: head.seq, grandparent: head.parent };
  return head.parent === undefined ? undefined : { seq: head.parent, grandparent: head.grandparent };
}

/** Appends the refs of the run's journal and output, which keeps them as long as the checkpoint. The skeleton does not use them. */
function addRefs(refs: string, run: RunPosition | undefined, tape: number): string {
  const pieces = [run && itemsOfRun(run), run?.output].filter((piece) => piece !== undefined);
  if (pieces.length === 0) return refs;
  const more: Ref[] = [{ pieces }];
  return refs === "" ? formatRefs(more, tape) : `${refs};${formatRefs(more, tape)}`;
}

/** A new row of a branch with the state of another row. It shares the items; refs are rewritten for the tape of the branch. */
export function copyRow(
  row: CheckpointRow,
  branch: BranchRecord,
  as: Pick<CheckpointRow, "seq" | "id" | "kind" | "createdAt" | "trigger">,
): CheckpointRow {
  return {
    ...row,
    ...as,
    tape: branch.tape,
    branch: branch.name,
    parent: row.seq,
    grandparent: row.parent,
    label: undefined,
    description: undefined,
    pinned: false,
    ttl: undefined,
    storedBytes: Buffer.byteLength(row.skeleton.json) + row.skeleton.refs.length,
    skeleton: rebaseFrame(row.skeleton, row.tape, branch.tape),
  };
}

/** Rewrites the refs of a frame that moves to another tape. */
export function rebaseFrame(frame: Frame, from: number, to: number): Frame {
  return from === to ? frame : { json: frame.json, refs: formatRefs(parseRefs(frame.refs, from), to) };
}
