/** What resources say: the same as the tools that read, without their arguments. */
import type { AgentCheckpoint, Checkpoint, SavedAgentInfo, SessionInfo } from "../../index.js";
import { checkpointNotFound } from "../not-found.js";
import { abbreviate, outline } from "../outline.js";
import { fitEntries } from "../paging.js";
import type { AgentScope } from "../scope.js";
import { toAgentInfo, toCheckpointInfo, toConversationInfo, toSkipped, toTime } from "../result-schemas.js";
import { listAgents } from "../tools/agents.js";
import { conversationLoad } from "../tools/conversation-load.js";

/** Entries of a list, and checkpoints of a session; fewer where they are large. The tools have all, in pages. */
const MAX_LISTED = 100;
const MAX_CHECKPOINTS = 20;

export async function readSessions(scope: AgentScope): Promise<unknown> {
  const found = await scope.sp.sessions.list({ ...scope.agentFilter(undefined), limit: MAX_LISTED }).all();
  return { sessions: fitEntries(found, toSession) };
}

export async function readConversations(scope: AgentScope): Promise<unknown> {
  const found = await scope.sp.conversations.list({ ...scope.agentFilter(undefined), limit: MAX_LISTED }).all();
  return { conversations: fitEntries(found, toConversationInfo) };
}

export async function readAgents(scope: AgentScope): Promise<unknown> {
  const found: SavedAgentInfo[] = [];
  for await (const agent of listAgents(scope)) if (found.push(agent) === MAX_LISTED) break;
  return { agents: fitEntries(found, toAgentInfo) };
}

export async function readAgent(scope: AgentScope, id: string): Promise<unknown> {
  const found = await scope.loadAgent(id);
  const { systemPrompt, config, state, activeConversations } = found;
  const { value, omitted } = outline({ systemPrompt: systemPrompt ?? null, config, state });
  return { agent: toAgentInfo(found), content: value, omitted, activeConversations };
}

export async function readSession(scope: AgentScope, id: string): Promise<unknown> {
  const session = await scope.openSession(id);
  const info = await scope.loadSession(id);
  const newest = await session.history({ limit: MAX_CHECKPOINTS, allBranches: true }).all();
  return { session: toSession(info), checkpoints: newest.map(toCheckpointInfo) };
}

/** @param name its id, `session#seq`, or `latest` */
export async function readSessionCheckpoint(scope: AgentScope, id: string, name: string): Promise<unknown> {
  const session = await scope.openSession(id);
  await scope.loadSession(id);
  const found = (await session.load(name)) ?? (name === "latest" ? await session.latest() : undefined);
  if (!found || !scope.owns(found.agent)) throw checkpointNotFound(name);
  return toState(found);
}

export async function readCheckpoint(scope: AgentScope, id: string): Promise<unknown> {
  return toState(await scope.loadCheckpoint(id));
}

export async function readConversation(scope: AgentScope, id: string): Promise<unknown> {
  return conversationLoad.run({ id, limit: 50 }, scope);
}

function toState(found: Checkpoint | AgentCheckpoint): unknown {
  const { value, omitted } = outline(found.state);
  const checkpoint = toCheckpointInfo(found);
  if ("conversations" in found) {
    return { checkpoint, state: value, omitted, conversations: found.conversations.map(toConversationInfo) };
  }
  return {
    checkpoint,
    state: value,
    omitted,
    pendingToolCalls: found.pendingToolCalls.map((call) => abbreviate(call)),
    skipped: toSkipped(found.skipped),
  };
}

function toSession(info: SessionInfo): unknown {
  const { id, agent, createdAt, updatedAt, status, reason, questions, wakeAt, head } = info;
  return {
    id,
    agent,
    createdAt: toTime(createdAt),
    updatedAt: toTime(updatedAt),
    status,
    reason,
    questions: questions.map((question) => abbreviate(question)),
    wakeAt: wakeAt === undefined ? undefined : toTime(wakeAt),
    newest: head && toCheckpointInfo(head),
  };
}
