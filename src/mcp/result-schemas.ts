/** Schemas of results: agents, conversations, checkpoints and changes as JSON. Times are ISO 8601, which models read best. */
import { z } from "zod";
import type { AnyCheckpointInfo, Change, ConversationInfo, SavedAgentInfo, SkippedCheckpoint } from "../index.js";
import { abbreviate } from "./outline.js";

const TIME = z.string().describe("ISO 8601");

export const AGENT_INFO = z.object({
  id: z.string(),
  name: z.string(),
  type: z.string().optional(),
  capabilities: z.array(z.string()),
  metadata: z.unknown(),
  createdAt: TIME,
  modifiedAt: TIME,
  version: z.number().describe("1 after the first save, and one more after each later save."),
});

export function toAgentInfo(agent: SavedAgentInfo): z.output<typeof AGENT_INFO> {
  return pickFields(AGENT_INFO, {
    ...agent,
    capabilities: [...agent.capabilities],
    metadata: abbreviate(agent.metadata),
    createdAt: toTime(agent.createdAt),
    modifiedAt: toTime(agent.modifiedAt),
  });
}

export const CONVERSATION_INFO = z.object({
  id: z.string(),
  agent: z.string().optional(),
  title: z.string().optional(),
  tags: z.array(z.string()),
  archived: z.boolean(),
  metadata: z.unknown(),
  createdAt: TIME,
  lastMessageAt: TIME,
  messageCount: z.number(),
});

export function toConversationInfo(info: ConversationInfo): z.output<typeof CONVERSATION_INFO> {
  return pickFields(CONVERSATION_INFO, {
    ...info,
    tags: [...info.tags],
    metadata: abbreviate(info.metadata),
    createdAt: toTime(info.createdAt),
    lastMessageAt: toTime(info.lastMessageAt),
  });
}

export const CHECKPOINT_INFO = z.object({
  id: z.string(),
  session: z.string().optional().describe("Missing for a checkpoint of an agent."),
  agent: z.string().optional(),
  branch: z.string(),
  seq: z.number().describe("Number among the checkpoints of all branches of the session."),
  step: z.number(),
  parentId: z.string().optional(),
  createdAt: TIME,
  kind: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  label: z.string().optional(),
  description: z.string().optional(),
  trigger: z.string().optional(),
  resumeHint: z.string().optional(),
  tasksCompleted: z.number(),
  usage: z.object({ tokens: z.number().optional(), cost: z.number().optional() }).optional(),
  metadata: z.unknown(),
  pinned: z.boolean(),
  expiresAt: TIME.optional(),
  stateBytes: z.number(),
});

export function toCheckpointInfo(info: AnyCheckpointInfo): z.output<typeof CHECKPOINT_INFO> {
  return pickFields(CHECKPOINT_INFO, {
    ...info,
    session: info.sessionId,
    createdAt: toTime(info.createdAt),
    metadata: abbreviate(info.metadata),
    expiresAt: info.expiresAt === undefined ? undefined : toTime(info.expiresAt),
  });
}

/** The fields of a value that the schema has, in the order of the schema. */
function pickFields<Schema extends z.ZodObject>(schema: Schema, value: z.output<Schema>): z.output<Schema> {
  return Object.fromEntries(Object.keys(schema.shape).map((key) => [key, value[key]])) as z.output<Schema>;
}

export const CHANGE = z.object({
  op: z.enum(["add", "remove", "replace"]),
  path: z.string(),
  before: z.unknown().optional(),
  value: z.unknown().optional(),
});

export function toChange(change: Change): z.output<typeof CHANGE> {
  const { op, path } = change;
  return {
    op,
    path,
    ...("before" in change && { before: abbreviate(change.before) }),
    ...("value" in change && { value: abbreviate(change.value) }),
  };
}

export const SKIPPED = z
  .array(z.object({ id: z.string().optional(), seq: z.number(), reason: z.string() }))
  .describe("Newer checkpoints that are damaged and were skipped, newest first.");

export function toSkipped(skipped: readonly SkippedCheckpoint[]): z.output<typeof SKIPPED> {
  return skipped.map(({ id, seq, reason }) => ({ id, seq, reason }));
}

export function toTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? String(milliseconds) : date.toISOString();
}
