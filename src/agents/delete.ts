/** Deletion of an agent with its checkpoints, sessions and conversations. */
import { retryOnConflict } from "../util/index.js";
import { type Check, type KeyRange, type Put, scan } from "../store/index.js";
import { freeGarbage, SessionReader } from "../sessions/index.js";
import type { Context } from "../context.js";
import {
  decodeConversationListing,
  readConversations,
  planConversationRemoval,
  readWithFallback,
} from "../conversations/index.js";
import {
  agentHistoryId,
  agentRetentionKey,
  agentSessionKey,
  branchesOf,
  changedConversationsOf,
  conversationKey,
  conversationNumberKey,
  conversationsOf,
  garbageKey,
  decodeSession,
  queueEntriesOf,
  removedConversationsOf,
  trailingNumberOf,
  sessionNumberKey,
  runsOf,
  sessionKey,
  sessionRetentionKey,
  sessionsOfAgent,
  snapshotBaseKey,
} from "../records/index.js";
import { buildPolicyRemoval } from "../policies/index.js";

/**
 * Deletes an agent and everything that belongs to it. One commit makes all of it unreachable; the space is freed
 * afterwards, or by the next garbage collection if this process dies before that.
 *
 * @param forget called with the ids of the deleted sessions, right after the commit
 * @returns whether anything was deleted
 */
export async function deleteAgent(
  context: Context,
  agent: string,
  forget: (sessions: readonly string[]) => void,
): Promise<boolean> {
  // A save that comes in between is deleted as well, by the next attempt.
  const plan = await retryOnConflict(async () => {
    const { checks, deletes, puts, sessions, numbers } = await planDeletion(context, agent);
    if (checks.length === 0 && numbers.length === 0) return undefined;
    await context.store.commit({ checks, deletes, puts });
    return { sessions, numbers };
  });
  if (!plan) return false;
  forget(plan.sessions);
  for (const number of plan.numbers) await freeGarbage(context, number);
  return true;
}

interface Deletion {
  readonly checks: Check[];
  readonly deletes: (string | KeyRange)[];
  readonly puts: Put[];
  readonly sessions: string[];
  /** The numbers of all sessions and conversations whose space is to be freed. */
  readonly numbers: number[];
}

async function planDeletion(context: Context, agent: string): Promise<Deletion> {
  const plan: Deletion = { checks: [], deletes: [], puts: [], sessions: [], numbers: [] };
  await planSessions(context, agent, plan);
  await planConversations(context, agent, plan);
  for await (const { key } of scan(context.store, removedConversationsOf(agent)))
    plan.numbers.push(trailingNumberOf(key));
  plan.deletes.push(removedConversationsOf(agent), changedConversationsOf(agent), snapshotBaseKey(agent));
  const owners = [agentRetentionKey(agent), ...plan.sessions.map(sessionRetentionKey)];
  const policies = await buildPolicyRemoval(context.store, owners);
  plan.deletes.push(...policies.deletes);
  plan.puts.push(...policies.puts);
  for (const number of plan.numbers) plan.puts.push({ key: garbageKey(number), value: "" });
  return plan;
}

/** Adds the agent's own history and its sessions to the plan. */
async function planSessions(context: Context, agent: string, plan: Deletion): Promise<void> {
  const { store } = context;
  const ids = [agentHistoryId(agent)];
  for await (const record of scan(store, sessionsOfAgent(agent))) {
    plan.deletes.push(record.key);
    const id = await readWithFallback(context.store, record, sessionNumberKey(trailingNumberOf(record.key)));
    if (id !== undefined) ids.push(id);
  }
  const records = await store.get(ids.map(sessionKey));
  for (const [index, record] of records.entries()) {
    const id = ids[index] as string;
    if (!record) continue;
    const session = "value" in record ? decodeSession(record.value) : undefined;
    // The session may have been deleted, and created again by another agent.
    if (session && index > 0 && session.agent !== agent) continue;
    plan.checks.push("value" in record ? { key: record.key, value: record.value } : { key: record.key, exists: true });
    plan.deletes.push(record.key, branchesOf(id), runsOf(id), queueEntriesOf(id));
    plan.sessions.push(id);
    const number = session ? session.number : await new SessionReader(context, id).scanForNumber();
    if (number === undefined) continue;
    plan.deletes.push(sessionNumberKey(number), agentSessionKey(agent, number));
    plan.numbers.push(number);
  }
}

/** Adds the agent's conversations to the plan. */
async function planConversations(context: Context, agent: string, plan: Deletion): Promise<void> {
  const listed: { id: string; order: number }[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    plan.deletes.push(record.key);
    const order = trailingNumberOf(record.key);
    const value = await readWithFallback(context.store, record, conversationNumberKey(order));
    if (value !== undefined) listed.push({ id: decodeConversationListing(value).id, order });
  }
  const found = await readConversations(
    context,
    listed.map(({ id }) => id),
  );
  for (const [index, { id, order }] of listed.entries()) {
    const conversation = found[index];
    if (!conversation) continue;
    const key = conversationKey(id);
    const record = "unreadable" in conversation ? undefined : conversation.record;
    if (record && record.order !== order) continue;
    const number = record?.number ?? order;
    plan.checks.push("unreadable" in conversation ? { key, exists: true } : { key, value: conversation.value });
    plan.deletes.push(...planConversationRemoval(id, { agent, number, order }, false).deletes);
    plan.numbers.push(number);
  }
}
