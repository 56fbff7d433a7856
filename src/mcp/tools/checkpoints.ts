/** Tools for checkpoints of sessions and agents. */
import { z } from "zod";
import { isSavepointError, type RestorePlan, type RestoreReport } from "../../index.js";
import { invalidArgument } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { fitEntries, NEXT_CURSOR, PAGE_ARGUMENTS, readPage } from "../paging.js";
import {
  CHANGE,
  CHECKPOINT_INFO,
  SAVED_CHECKPOINT,
  toChange,
  toCheckpointInfo,
  toSavedCheckpoint,
} from "../result-schemas.js";
import { AGENT, JSON_OBJECT, SESSION } from "./arguments.js";
import { defineTool, DELETION, type Tool } from "./tool.js";

/** How many changes a restore lists at most. checkpoint_diff returns all of them. */
const MAX_CHANGES = 100;
const ID = z.string().min(1).describe('Its id, or "session#seq".');

const checkpointCreate = defineTool({
  name: "checkpoint_create",
  title: "Create a checkpoint of an agent",
  description:
    "Creates a checkpoint of an agent with all its conversations as they are now. It copies nothing. Use it before something risky; checkpoint_restore restores it. To save your work, use session_save.",
  input: z.strictObject({
    agent: AGENT.describe("Required unless this server is confined to one."),
    label: z.string().optional(),
    description: z.string().optional(),
    metadata: JSON_OBJECT.optional(),
    pinned: z.boolean().optional().describe("Never pruned."),
  }),
  output: z.object({ checkpoint: SAVED_CHECKPOINT }),
  writes: true,
  async run({ agent: name, ...rest }, scope) {
    const agent = scope.resolveAgent(name);
    if (agent === undefined) throw invalidArgument("`agent` is required.");
    return { checkpoint: toSavedCheckpoint(await scope.sp.checkpoints.create({ ...omitUndefined(rest), agent })) };
  },
});

const checkpointRestore = defineTool({
  name: "checkpoint_restore",
  title: "Restore a checkpoint",
  description:
    "Restores a checkpoint. Of a session: its state becomes the newest again. Of an agent: restores the agent with its conversations, and removes newer ones. The current state is saved first: restore `before` to undo. Call it with dryRun first to see what would change.",
  input: z.strictObject({
    id: ID,
    dryRun: z.boolean().default(false).describe("Only return what would change."),
  }),
  output: z.object({
    dryRun: z.boolean(),
    agent: z.string().optional(),
    session: z.string().optional(),
    changes: z.array(CHANGE),
    changeCount: z.number(),
    restored: z.array(z.object({ id: z.string(), messagesBefore: z.number(), messagesAfter: z.number() })),
    recreated: z.array(z.string()),
    removed: z.array(z.string()),
    checkpoint: SAVED_CHECKPOINT.optional(),
    before: SAVED_CHECKPOINT.optional(),
  }),
  writes: true,
  destructive: true,
  async run({ id, dryRun }, scope) {
    // Loaded first, because restoring a damaged checkpoint would make it the newest one.
    const { id: own } = await scope.loadCheckpoint(id);
    const { checkpoints } = scope.sp;
    const report: RestorePlan & Partial<RestoreReport> = dryRun
      ? await checkpoints.restore(own, { dryRun })
      : await checkpoints.restore(own);
    const { agent, sessionId, changes, restored, recreated, removed, checkpoint, before } = report;
    return {
      dryRun,
      agent,
      session: sessionId,
      changes: fitEntries(changes.slice(0, MAX_CHANGES), toChange),
      changeCount: changes.length,
      restored: [...restored],
      recreated: [...recreated],
      removed: [...removed],
      checkpoint: checkpoint && toSavedCheckpoint(checkpoint),
      before: before && toSavedCheckpoint(before),
    };
  },
});

const checkpointList = defineTool({
  name: "checkpoint_list",
  title: "List checkpoints",
  description:
    "Lists checkpoints of sessions and agents, newest first, without their states: time, kind, status, label and resume hint. Use it to find ids for session_resume, checkpoint_diff, checkpoint_fork and checkpoint_restore.",
  input: z.strictObject({
    session: SESSION.optional(),
    agent: AGENT,
    of: z.enum(["agent", "session"]).optional().describe("Only those of agents, or of sessions."),
    kind: z.enum(["automatic", "manual", "preOperation", "recovery"]).optional(),
    ...PAGE_ARGUMENTS,
  }),
  output: z.object({ checkpoints: z.array(CHECKPOINT_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ session, agent, of, kind, limit, cursor }, scope) {
    if (session !== undefined) await scope.loadSession(session);
    const filter = { ...scope.agentFilter(agent), ...omitUndefined({ session, of, kind }) };
    const { entries, nextCursor } = await readPage(
      {
        name: ["checkpoint_list", filter],
        walk: () => scope.sp.checkpoints.list(filter),
        show: toCheckpointInfo,
        // Ids that callers choose may occur in several sessions.
        idOf: (info) => JSON.stringify([info.sessionId ?? null, info.agent ?? null, info.seq]),
      },
      { limit, cursor },
    );
    return { checkpoints: entries.filter((info) => scope.owns(info.agent)), nextCursor };
  },
});

const checkpointDelete = defineTool({
  name: "checkpoint_delete",
  title: "Delete a checkpoint",
  description:
    "Deletes one checkpoint permanently. If it is the newest of its session, the session continues from the previous one. Fails with CONFLICT if something needs it, such as a branch. Returns whether it existed.",
  input: z.strictObject({ id: ID }),
  ...DELETION,
  async run({ id }, scope) {
    try {
      return { deleted: await scope.sp.checkpoints.delete(await scope.resolveCheckpointId(id)) };
    } catch (error) {
      if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return { deleted: false };
      throw error;
    }
  },
});

export const CHECKPOINT_TOOLS: readonly Tool[] = [
  checkpointCreate,
  checkpointRestore,
  checkpointList,
  checkpointDelete,
];
