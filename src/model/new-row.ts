/** The row of a new checkpoint. */
import type { EncodedState } from "../state/encode.js";
import type { Place } from "./ids.js";
import type { BranchRecord, Row } from "./records.js";
import type { TakenOptions } from "./save-options.js";

/** What a row takes beside its skeleton: its id twice, its fields, keys and checksums. */
const ROW_OVERHEAD = 120;

/** A checkpoint that follows the head of a branch. */
export function newRow(
  place: Place & { readonly branch: BranchRecord },
  encoded: EncodedState,
  options: TakenOptions,
  newId: (place: Place) => string,
  now: number,
): Row {
  const { seq, branch } = place;
  const parent = branch.head;
  const { skeleton, items, blobs, stateBytes } = encoded;
  let storedBytes = Buffer.byteLength(skeleton.json) + skeleton.refs.length;
  for (const { json, refs } of items) storedBytes += Buffer.byteLength(json) + refs.length;
  for (const bytes of blobs.values()) storedBytes += bytes.length;
  return {
    seq,
    id: options.id ?? newId(place),
    tape: branch.tape,
    branch: branch.name,
    parent: parent?.seq,
    grandparent: parent?.parent,
    createdAt: now,
    step: options.step ?? (parent ? parent.step + 1 : 0),
    kind: options.kind ?? "manual",
    status: options.status ?? "running",
    reason: options.reason,
    label: options.label,
    description: options.description,
    trigger: options.trigger,
    resumeHint: options.resumeHint,
    tasksCompleted: options.tasksCompleted ?? 0,
    usage: options.usage,
    metadata: options.metadata,
    pinned: options.pinned ?? false,
    stateBytes,
    storedBytes: storedBytes + ROW_OVERHEAD,
    skeleton,
  };
}
