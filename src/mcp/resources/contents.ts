/** The contents of resources: the same as the reading tools return, without arguments. */
import type { AgentCheckpoint, Checkpoint, SavedAgentInfo, SessionInfo } from "../../index.js";
import { checkpointNotFound } from "../errors.js";
import { abbreviate, outline } from "../outline.js";
import { fitEntries } from "../paging.js";
import { toAgentInfo, toCheckpointInfo, toConversationInfo, toSkipped, toTime } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { conversationLoad } from "../tools/conversation-load.js";

/** Limits of the lists; fewer entries if they are large. The tools return everything in pages. */
const MAX_LISTED = 100;
const MAX_CHECKPOINTS = 20;
const MAX_MESSAGES = 50;

export async function readSessions(scope: AgentScope): Promise<unknown> {
  const sessions = await scope.sp.sessions.list({ ...scope.agentFilter(), limit: MAX_LISTED }).all();
  return { sessions: fitEntries(sessions, toSession) };
}

export async function readConversations(scope: AgentScope): Promise<unknown> {
  const conversations = await scope.sp.conversations.list({ ...scope.agentFilter(), limit: MAX_LISTED }).all();
  return { conversations: fitEntries(conversations, toConversationInfo) };
}

export async function readAgents(scope: AgentScope): Promise<unknown> {
  const agents: SavedAgentInfo[] = [];
  for await (const agent of scope.listAgents()) if (agents.push(agent) === MAX_LISTED) break;
  return { agents: fitEntries(agents, toAgentInfo) };
}

export async function readAgent(scope: AgentScope, id: string): Promise<unknown> {
  const agent = await scope.loadAgent(id);
  const { systemPrompt, config, state, activeConversations } = agent;
  const { value, omitted } = outline({ systemPrompt: systemPrompt ?? null, config, state });
  return { agent: toAgentInfo(agent), content: value, omitted, activeConversations };
}

export async function readSession(scope: AgentScope, id: string): Promise<unknown> {
  const session = await scope.openSession(id);
  const info = await scope.loadSession(id);
  const newest = await session.history({ limit: MAX_CHECKPOINTS, allBranches: true }).all();
  return { session: toSession(info), checkpoints: newest.map(toCheckpointInfo) };
}

/** @param name the id of a checkpoint, `session#seq`, or `latest` */
export async function readSessionCheckpoint(scope: AgentScope, id: string, name: string): Promise<unknown> {
  const session = await scope.openSession(id);
  await scope.loadSession(id);
  const checkpoint = (await session.load(name)) ?? (name === "latest" ? await session.latest() : undefined);
  if (!checkpoint || !scope.owns(checkpoint.agent)) throw checkpointNotFound(name);
  return toState(checkpoint);
}

export async function readCheckpoint(scope: AgentScope, id: string): Promise<unknown> {
  return toState(await scope.loadCheckpoint(id));
}

export async function readConversation(scope: AgentScope, id: string): Promise<unknown> {
  return conversationLoad.run({ id, limit: MAX_MESSAGES }, scope);
}

function toState(source: Checkpoint | AgentCheckpoint): unknown {
  const { value, omitted } = outline(source.state);
  const state = { checkpoint: toCheckpointInfo(source), state: value, omitted };
  if ("conversations" in source) return { ...state, conversations: source.conversations.map(toConversationInfo) };
  const pendingToolCalls = source.pendingToolCalls.map((call) => abbreviate(call));
  return { ...state, pendingToolCalls, skipped: toSkipped(source.skipped) };
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
