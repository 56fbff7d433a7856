/** Tools for comparing moments of a session, and for trying something else from one of them. */
import { z } from "zod";
import { type Checkpoint, type CheckpointRef, SavepointError, type Session } from "../../index.js";
import { applyPatch, type PatchOperation } from "../json-patch.js";
import { decodeCursor, encodeCursor } from "../cursor.js";
import { checkpointNotFound } from "../not-found.js";
import { NEXT_CURSOR, PAGE_ARGUMENTS, fitEntries } from "../paging.js";
import { CHANGE, CHECKPOINT_INFO, toChange, toCheckpointInfo } from "../result-schemas.js";
import { CHANGES, CHECKPOINT_REF, defineTool, JSON_VALUE, type Tool } from "../tool.js";
import { CHECKPOINT_FIELDS, toSaveOptions } from "./session-save.js";

const checkpointDiff = defineTool({
  name: "checkpoint_diff",
  title: "Compare two checkpoints",
  description:
    "Says what changed in the state of a session from one checkpoint to another: a list of changes by JSON pointers, to be read in order. Large values are cut; session_resume with `checkpoint` and `pointer` shows them.",
  input: z.strictObject({
    session: z.string().min(1),
    from: CHECKPOINT_REF,
    to: CHECKPOINT_REF.optional().describe("Default: the newest one."),
    ...PAGE_ARGUMENTS,
  }),
  output: z.object({ changes: z.array(CHANGE), changeCount: z.number(), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ session: id, from, to, limit, cursor }, scope) {
    const session = await scope.openSession(id);
    await scope.loadSession(id);
    const list = ["checkpoint_diff", id, from, to];
    // The page that follows is of the same two checkpoints, also if there is a newer one by then.
    const [place = 0, newest] = cursor === undefined ? [] : decodeCursor(list, cursor, ["number", "string"]);
    const until = to ?? (newest as string | undefined) ?? (await newestOf(session));
    const changes = await session.diff(from, until);
    const start = place as number;
    const shown = fitEntries(changes.slice(start, start + limit), toChange);
    const next = start + shown.length;
    return {
      changes: shown,
      changeCount: changes.length,
      nextCursor:
        next < changes.length ? encodeCursor(list, [next, typeof until === "string" ? until : ""]) : undefined,
    };
  },
});

const checkpointFork = defineTool({
  name: "checkpoint_fork",
  title: "Branch from a checkpoint",
  description:
    "Opens a branch at a checkpoint of a session, to try something else from there; what was saved before stays as it is. Optionally the branch begins with another `state`, or with `changes` to that of the checkpoint. Go on with session_save and session_resume and the name of the branch.",
  input: z.strictObject({
    session: z.string().min(1),
    checkpoint: CHECKPOINT_REF,
    branch: z.string().optional().describe("Its name. Default: one that comes back."),
    state: JSON_VALUE.optional().describe("A state to begin the branch with."),
    changes: CHANGES.optional().describe("Instead of `state`: changes to the state of the checkpoint."),
    ...CHECKPOINT_FIELDS,
  }),
  output: z.object({ session: z.string(), branch: z.string(), checkpoint: CHECKPOINT_INFO }),
  writes: true,
  async run(input, scope) {
    const { session: id, checkpoint: ref, branch } = input;
    const session = await scope.openSession(id);
    await scope.loadSession(id);
    const state = await stateFor(session, ref, input);
    const fork = await session.fork(ref, {
      ...(branch !== undefined && { branch }),
      ...(state !== undefined && { ...toSaveOptions(input), state }),
    });
    const head = await fork.head();
    if (!head) throw checkpointNotFound(ref);
    return { session: id, branch: fork.branch, checkpoint: toCheckpointInfo(head) };
  },
});

export const BRANCH_TOOLS: readonly Tool[] = [checkpointDiff, checkpointFork];

async function newestOf(session: Session): Promise<string> {
  const head = await session.head();
  if (!head) throw checkpointNotFound("newest");
  return head.id;
}

/** What the branch begins with; `undefined` where that is the checkpoint itself. */
async function stateFor(
  session: Session,
  ref: CheckpointRef,
  { state, changes, ...said }: { readonly state?: unknown; readonly changes?: readonly PatchOperation[] | undefined },
): Promise<unknown> {
  if (state !== undefined && changes !== undefined) {
    throw new SavepointError("INVALID_ARGUMENT", "Give either `state` or `changes`, and not both.");
  }
  // What is said about a checkpoint needs one of its own.
  const ownCheckpoint = changes !== undefined || Object.keys(toSaveOptions(said)).length > 0;
  if (state !== undefined || !ownCheckpoint) return state;
  const found: Checkpoint | undefined = await session.load(ref);
  if (!found) throw checkpointNotFound(ref);
  return applyPatch(found.state, changes ?? []);
}
