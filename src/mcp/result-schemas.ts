/**
 * Schemas of results: agents, conversations, sessions, checkpoints and changes as JSON. Times are ISO 8601, which models
 * read best. A tool that changes something returns only what the caller does not know already.
 */
import { z } from "zod";
import type {
  AnyCheckpointInfo,
  Change,
  ConversationInfo,
  Question,
  SavedAgentInfo,
  SessionInfo,
  SkippedCheckpoint,
} from "../index.js";
import { abbreviate } from "./outline.js";
import { projectOf } from "./project.js";

const TIME = z.string();

export const AGENT_INFO = z.object({
  id: z.string(),
  name: z.string(),
  type: z.string().optional(),
  capabilities: z.array(z.string()),
  metadata: z.unknown(),
  createdAt: TIME,
  modifiedAt: TIME,
  version: z.number(),
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
  /** Missing for a checkpoint of an agent. */
  session: z.string().optional(),
  agent: z.string().optional(),
  branch: z.string(),
  /** Number among the checkpoints of all branches of the session. */
  seq: z.number(),
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

/** A checkpoint that a tool has just saved. */
export const SAVED_CHECKPOINT = CHECKPOINT_INFO.pick({
  id: true,
  session: true,
  agent: true,
  branch: true,
  seq: true,
  step: true,
  label: true,
});

export function toSavedCheckpoint(info: AnyCheckpointInfo): z.output<typeof SAVED_CHECKPOINT> {
  return pickFields(SAVED_CHECKPOINT, toCheckpointInfo(info));
}

/** A question that a run asks a person. */
export const QUESTION = z.object({
  id: z.string(),
  kind: z.enum(["ask", "unknown"]),
  text: z.string(),
  /** The tool call whose outcome is unknown. */
  call: z.unknown().optional(),
  data: z.unknown().optional(),
});

export function toQuestion({ id, kind, text, call, data }: Question): z.output<typeof QUESTION> {
  return {
    id,
    kind,
    text: shorten(text, MAX_QUESTION),
    ...(call !== undefined && { call: abbreviate(call) }),
    ...(data !== undefined && { data: abbreviate(data) }),
  };
}

/** The longest label or hint in a list, in characters. `session_resume` returns all of it. */
const MAX_LISTED_TEXT = 500;
/** The longest question, in characters. */
const MAX_QUESTION = 4000;

/** A session in a list. Label and hint are those of its newest checkpoint. */
export const SESSION_INFO = z.object({
  session: z.string(),
  agent: z.string().optional(),
  project: z.string().optional(),
  status: z.string(),
  reason: z.string().optional(),
  createdAt: TIME,
  updatedAt: TIME,
  step: z.number().optional(),
  label: z.string().optional(),
  resumeHint: z.string().optional(),
  questions: z.array(QUESTION).optional(),
  wakeAt: TIME.optional(),
});

export function toSessionInfo(info: SessionInfo): z.output<typeof SESSION_INFO> {
  const { id, agent, status, reason, createdAt, updatedAt, questions, wakeAt, head } = info;
  return {
    session: id,
    agent,
    project: projectOf(head),
    status,
    reason: shorten(reason),
    createdAt: toTime(createdAt),
    updatedAt: toTime(updatedAt),
    step: head?.step,
    label: shorten(head?.label),
    resumeHint: shorten(head?.resumeHint),
    questions: questions.length > 0 ? questions.map(toQuestion) : undefined,
    wakeAt: wakeAt === undefined ? undefined : toTime(wakeAt),
  };
}

/** Shortens a text for a list. */
export function shorten<Text extends string | undefined>(text: Text, max = MAX_LISTED_TEXT): Text {
  return text === undefined || text.length <= max ? text : (`${text.slice(0, max)}…` as Text);
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

/** Newer checkpoints that are damaged, newest first. */
export const SKIPPED = z.array(z.object({ id: z.string().optional(), seq: z.number(), reason: z.string() }));

export function toSkipped(skipped: readonly SkippedCheckpoint[]): z.output<typeof SKIPPED> {
  return skipped.map(({ id, seq, reason }) => ({ id, seq, reason }));
}

export function toTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? String(milliseconds) : date.toISOString();
}
