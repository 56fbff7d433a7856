/** Where a checkpoint with an explicit parent is saved. */
import { type CheckpointInfo, type CheckpointRow, MAIN } from "../records/index.js";
import {
  type Author,
  type BranchCursor,
  branchNotFound,
  type Cursors,
  forkWithState,
  type Heads,
  saveAsRoot,
  saveOnHead,
  type SaveRequest,
  saveWithReset,
  sessionDeleted,
  type SessionReader,
} from "../sessions/index.js";

/** One place where a checkpoint can be saved. */
export type SaveTarget =
  /** On top of the head of the handle's branch; also as the first checkpoint of an empty one. */
  | { readonly kind: "head" }
  /** As the first checkpoint of the handle's branch, which does not exist yet. */
  | { readonly kind: "create" }
  /** On top of the parent, provided that it still is the head of `branch`. */
  | { readonly kind: "extend"; readonly branch: string; readonly parent: CheckpointRow }
  /** On the handle's branch, which continues from the parent, or from nothing, instead of from its head. */
  | { readonly kind: "reset"; readonly parent: CheckpointRow | undefined }
  /** On a new unnamed branch that starts after the parent. */
  | { readonly kind: "fork"; readonly parent: CheckpointRow }
  /** On a new unnamed branch that starts from nothing. */
  | { readonly kind: "root" };

/** The handle that saves. */
export interface SaveOrigin {
  readonly branch: string;
  /** Whether the caller named the branch. If so, the checkpoint is saved on that branch or not at all. */
  readonly isNamed: boolean;
  /** Whether the branch may be reset to the parent. */
  readonly resetBranch: boolean;
}

/**
 * Decides where a checkpoint is saved.
 *
 * @param parent the checkpoint that it follows; `undefined` for one that follows none
 * @returns the targets in the order in which they are tried: only `extend` can fail, if the branch has moved. If all of them
 *   fail, or there are none, the parent is in conflict with the branch.
 */
export function planSaveTargets(
  heads: Heads,
  parent: CheckpointRow | undefined,
  { branch, isNamed, resetBranch }: SaveOrigin,
): readonly SaveTarget[] {
  const head = heads.branch?.record.head;
  const newBranch: SaveTarget = parent ? { kind: "fork", parent } : { kind: "root" };
  const elsewhere: SaveTarget[] = resetBranch ? [{ kind: "reset", parent }] : isNamed ? [] : [newBranch];
  if (!parent) {
    if (head) return elsewhere;
    return [{ kind: heads.branch || branch === MAIN ? "head" : "create" }];
  }
  if (parent.branch === branch || parent.seq === head?.seq) return [{ kind: "extend", branch, parent }, ...elsewhere];
  // A named branch, or one that is to be reset, takes the checkpoint itself instead of the branch of the parent.
  if (isNamed || resetBranch) return elsewhere;
  return [{ kind: "extend", branch: parent.branch, parent }, ...elsewhere];
}

/** What {@link saveAt} works with. */
export interface SaveScene {
  readonly cursors: Cursors;
  readonly reader: SessionReader;
  /** The cursor of the handle's branch, which does nothing else meanwhile. */
  readonly cursor: BranchCursor;
  /** What the targets were planned from. */
  readonly heads: Heads;
  readonly author: Author;
}

/** Saves at a target; `undefined` if the branch to extend has moved on from the parent. */
export async function saveAt(
  target: SaveTarget,
  { cursors, reader, cursor, heads: { session, branch }, author }: SaveScene,
  request: SaveRequest,
): Promise<CheckpointInfo | undefined> {
  const { copy, options, agent } = request;
  if (target.kind === "head") return cursor.save({ copy }, options, author);
  if (target.kind === "create") return saveAsRoot(reader, cursors, cursor, request);
  if (target.kind === "root") return saveAsRoot(reader, cursors, undefined, request);
  // The other targets have a parent, or a branch with a head.
  if (!session) throw sessionDeleted(reader.sessionId);
  const { number } = session.record;
  switch (target.kind) {
    case "extend": {
      if (target.branch === cursor.branchName) return saveOnHead(cursor, number, target.parent, copy, options, agent);
      const other = cursors.get(reader, target.branch);
      return other.exclusive(() => saveOnHead(other, number, target.parent, copy, options, agent));
    }
    case "reset":
      if (!branch) throw branchNotFound(reader.sessionId, cursor.branchName);
      return saveWithReset(reader, cursor, number, target.parent, request);
    case "fork":
      return forkWithState(reader, cursors, number, target.parent, undefined, copy, options, agent);
  }
}
