/** Tools for checkpoints of sessions and of whole agents. */
import { z } from "zod";
import { isSavepointError, type RestorePlan, type RestoreReport } from "../../index.js";
import { isNewestFirst, NEXT_CURSOR, PAGE_ARGUMENTS, fitEntries, readPage } from "../paging.js";
import { CHANGE, CHECKPOINT_INFO, toChange, toCheckpointInfo } from "../result-schemas.js";
import { AGENT, defineTool, JSON_OBJECT, type Tool } from "../tool.js";
import { SavepointError } from "../../index.js";

/** Changes that a restore tells; checkpoint_diff has all of them. */
const MAX_CHANGES = 100;
const ID = z.string().min(1).describe('Its id, or "session#seq".');

const checkpointCreate = defineTool({
  name: "checkpoint_create",
  title: "Take a checkpoint of an agent",
  description:
    "Takes a checkpoint of a whole agent: the agent and all its conversations as they are now. Nothing is copied, so it is cheap. Do it before something risky; checkpoint_restore goes back to it. The work of a session is saved with session_save instead.",
  input: z.strictObject({
    agent: AGENT.describe("The agent. Needed unless this server is confined to one."),
    label: z.string().optional().describe("A name to recognise it by."),
    description: z.string().optional(),
    metadata: JSON_OBJECT.optional(),
    pinned: z.boolean().optional().describe("Pinned ones are never pruned."),
  }),
  output: z.object({ checkpoint: CHECKPOINT_INFO }),
  writes: true,
  async run({ agent: named, ...rest }, scope) {
    const agent = scope.resolveAgent(named);
    if (agent === undefined)
      throw new SavepointError("INVALID_ARGUMENT", "`agent` is missing: say whose checkpoint it is.");
    const said = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    return { checkpoint: toCheckpointInfo(await scope.sp.checkpoints.create({ ...said, agent })) };
  },
});

const checkpointRestore = defineTool({
  name: "checkpoint_restore",
  title: "Go back to a checkpoint",
  description:
    "Goes back. For a checkpoint of an agent: the agent and its conversations are as they were then, newer conversations are removed, deleted ones come back. For a checkpoint of a session: its state becomes the newest again. What was there is kept as a checkpoint first: restoring `before` undoes it. Call it with dryRun first to see what would change.",
  input: z.strictObject({ id: ID, dryRun: z.boolean().default(false).describe("Only say what would change.") }),
  output: z.object({
    dryRun: z.boolean(),
    agent: z.string().optional(),
    session: z.string().optional(),
    changes: z
      .array(CHANGE)
      .describe(`What becomes different, at most ${MAX_CHANGES} changes, fewer where they are large.`),
    changeCount: z.number(),
    restored: z.array(z.object({ id: z.string(), messagesBefore: z.number(), messagesAfter: z.number() })),
    recreated: z.array(z.string()).describe("Conversations that come back."),
    removed: z.array(z.string()).describe("Newer conversations that go."),
    checkpoint: CHECKPOINT_INFO.optional().describe("The newest checkpoint now."),
    before: CHECKPOINT_INFO.optional().describe("What was there: restore this one to undo it."),
  }),
  writes: true,
  destructive: true,
  async run({ id, dryRun }, scope) {
    // Loaded first: to go back to a damaged one would make that the newest.
    const { id: own } = await scope.loadCheckpoint(id);
    if (dryRun) return { dryRun, ...toPlan(await scope.sp.checkpoints.restore(own, { dryRun })) };
    const report: RestoreReport = await scope.sp.checkpoints.restore(own);
    const { checkpoint, before } = report;
    return { dryRun, ...toPlan(report), checkpoint: toCheckpointInfo(checkpoint), before: toCheckpointInfo(before) };
  },
});

const checkpointList = defineTool({
  name: "checkpoint_list",
  title: "List checkpoints",
  description:
    "Lists checkpoints of sessions and of agents, newest first, without their states: when, why, how the work stood, what to do next. Use it to find sessions to resume, moments to go back to, and ids for session_resume, checkpoint_diff, checkpoint_fork and checkpoint_restore.",
  input: z.strictObject({
    session: z.string().min(1).optional().describe("Only those of this session."),
    agent: AGENT.describe("Only those of this agent and of its sessions."),
    of: z.enum(["agent", "session"]).optional().describe("Only those of whole agents, or only those of sessions."),
    kind: z.enum(["automatic", "manual", "preOperation", "recovery"]).optional(),
    ...PAGE_ARGUMENTS,
  }),
  output: z.object({ checkpoints: z.array(CHECKPOINT_INFO), nextCursor: NEXT_CURSOR }),
  writes: false,
  async run({ session, agent, of, kind, limit, cursor }, scope) {
    if (session !== undefined) await scope.loadSession(session);
    const filter = {
      ...scope.agentFilter(agent),
      ...(session !== undefined && { session }),
      ...(of !== undefined && { of }),
      ...(kind !== undefined && { kind }),
    };
    const { entries, nextCursor } = await readPage(
      {
        name: ["checkpoint_list", filter],
        walk: () => scope.sp.checkpoints.list(filter),
        show: toCheckpointInfo,
        // Ids that callers chose may be the same in several sessions.
        idOf: (info) => JSON.stringify([info.sessionId ?? null, info.agent ?? null, info.seq]),
        rankOf: ({ createdAt }) => createdAt,
        isBehind: isNewestFirst,
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
    "Deletes one checkpoint for good. If it is the newest of its session, the session goes on from the one before it; an agent stays as it is. Refused with CONFLICT where something needs it, such as a branch. Returns whether there was one.",
  input: z.strictObject({ id: ID }),
  output: z.object({ deleted: z.boolean() }),
  writes: true,
  destructive: true,
  idempotent: true,
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

function toPlan(plan: RestorePlan): {
  agent?: string;
  session?: string;
  changes: ReturnType<typeof toChange>[];
  changeCount: number;
  restored: { id: string; messagesBefore: number; messagesAfter: number }[];
  recreated: string[];
  removed: string[];
} {
  const { agent, sessionId, changes, restored, recreated, removed } = plan;
  return {
    ...(agent !== undefined && { agent }),
    ...(sessionId !== undefined && { session: sessionId }),
    changes: fitEntries(changes.slice(0, MAX_CHANGES), toChange),
    changeCount: changes.length,
    restored: restored.map((conversation) => ({ ...conversation })),
    recreated: [...recreated],
    removed: [...removed],
  };
}
