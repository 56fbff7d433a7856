/** Tools that compare checkpoints of a session and start branches from them. */
import { z } from "zod";
import type { CheckpointRef, Session } from "../../index.js";
import { checkpointNotFound, invalidArgument } from "../errors.js";
import { applyPatch, PATCH, type PatchOperation } from "../json-patch.js";
import { omitUndefined } from "../omit-undefined.js";
import { decodeCursor, encodeCursor, fitEntries, NEXT_CURSOR, PAGE_ARGUMENTS } from "../paging.js";
import { CHANGE, SAVED_CHECKPOINT, toChange, toSavedCheckpoint } from "../result-schemas.js";
import { CHECKPOINT_REF, JSON_VALUE, SESSION } from "./arguments.js";
import { CHECKPOINT_FIELDS, pickCheckpointFields, toSaveOptions } from "./session-save.js";
import { defineTool, type Tool } from "./tool.js";

const checkpointDiff = defineTool({
  name: "checkpoint_diff",
  title: "Compare two checkpoints",
  description:
    "Compares the states of two checkpoints of a session. Returns changes with JSON pointers, in order. Large values are shortened; session_resume with `checkpoint` and `pointer` returns them completely.",
  input: z.strictObject({
    session: SESSION,
    from: CHECKPOINT_REF,
    to: CHECKPOINT_REF.optional().describe("Default: the newest."),
    ...PAGE_ARGUMENTS,
  }),
  output: z.object({ changes: z.array(CHANGE), changeCount: z.number(), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ session: id, from, to, limit, cursor }, scope) {
    const session = await scope.openSession(id);
    await scope.loadSession(id);
    const list = ["checkpoint_diff", id, from, to];
    // The cursor contains the newest checkpoint of the first page, so that later pages compare the same two.
    const [position = 0, newest] = cursor === undefined ? [] : decodeCursor(list, cursor, ["number", "string"]);
    const target = to ?? (newest as string | undefined) ?? (await headId(session));
    const changes = await session.diff(from, target);
    const start = position as number;
    const shown = fitEntries(changes.slice(start, start + limit), toChange);
    const next = start + shown.length;
    return {
      changes: shown,
      changeCount: changes.length,
      nextCursor:
        next < changes.length ? encodeCursor(list, [next, typeof target === "string" ? target : ""]) : undefined,
    };
  },
});

const checkpointFork = defineTool({
  name: "checkpoint_fork",
  title: "Branch from a checkpoint",
  description:
    "Starts a branch at a checkpoint of a session, to try something else from there. What was saved before does not change. The branch can start with another `state`, or with `changes`. Pass its name to session_save and session_resume to continue on it.",
  input: z.strictObject({
    session: SESSION,
    checkpoint: CHECKPOINT_REF,
    branch: z.string().optional().describe("Default: a generated name."),
    state: JSON_VALUE.optional(),
    changes: PATCH.optional().describe("Instead of `state`: JSON Patch of the checkpoint."),
    ...CHECKPOINT_FIELDS,
  }),
  output: z.object({ session: z.string(), branch: z.string(), checkpoint: SAVED_CHECKPOINT }),
  writes: true,
  async run(input, scope) {
    const { session: id, checkpoint: ref, branch } = input;
    const session = await scope.openSession(id);
    await scope.loadSession(id);
    const state = await firstState(session, ref, input);
    const fork = await session.fork(ref, {
      ...omitUndefined({ branch }),
      ...(state !== undefined && { ...toSaveOptions(input, scope), state }),
    });
    const head = await fork.head();
    if (!head) throw checkpointNotFound(ref);
    return { session: id, branch: fork.branch, checkpoint: toSavedCheckpoint(head) };
  },
});

export const BRANCH_TOOLS: readonly Tool[] = [checkpointDiff, checkpointFork];

async function headId(session: Session): Promise<string> {
  const head = await session.head();
  if (!head) throw checkpointNotFound("newest");
  return head.id;
}

/** The state of the first checkpoint of a branch; `undefined` if the branch starts with the given checkpoint itself. */
async function firstState(
  session: Session,
  ref: CheckpointRef,
  { state, changes, ...fields }: { readonly state?: unknown; readonly changes?: readonly PatchOperation[] | undefined },
): Promise<unknown> {
  if (state !== undefined && changes !== undefined) {
    throw invalidArgument("Pass either `state` or `changes`, not both.");
  }
  // A label and other fields need a new checkpoint too.
  const needsCheckpoint = changes !== undefined || Object.keys(pickCheckpointFields(fields)).length > 0;
  if (state !== undefined || !needsCheckpoint) return state;
  const checkpoint = await session.load(ref);
  if (!checkpoint) throw checkpointNotFound(ref);
  return applyPatch(checkpoint.state, changes ?? []);
}
