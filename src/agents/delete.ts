/** Deleting an agent with all that is its. */
import { isSavepointError } from "../errors.js";
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
} from "../records/index.js";
import { buildPolicyRemoval } from "../policies/index.js";

/**
 * One commit makes all of it unreachable; what it leaves behind is freed afterwards, and by the next collection should
 * this process die before that.
 *
 * @param forget told the ids of the sessions as soon as they are gone
 * @returns whether there was anything
 */
export async function deleteAgent(
  context: Context,
  agent: string,
  forget: (sessions: readonly string[]) => void,
): Promise<boolean> {
  for (;;) {
    const plan = await planDeletion(context, agent);
    if (plan.checks.length === 0 && plan.numbers.length === 0) return false;
    try {
      await context.store.commit({ checks: plan.checks, deletes: plan.deletes, puts: plan.puts });
    } catch (error) {
      // Somebody has saved meanwhile: that is to go as well.
      if (isSavepointError(error, "CONFLICT")) continue;
      throw error;
    }
    forget(plan.sessions);
    for (const number of plan.numbers) await freeGarbage(context, number);
    return true;
  }
}

interface Deletion {
  readonly checks: Check[];
  readonly deletes: (string | KeyRange)[];
  readonly puts: Put[];
  readonly sessions: string[];
  /** Of everything that leaves something behind. */
  readonly numbers: number[];
}

async function planDeletion(context: Context, agent: string): Promise<Deletion> {
  const plan: Deletion = { checks: [], deletes: [], puts: [], sessions: [], numbers: [] };
  await planSessions(context, agent, plan);
  await planConversations(context, agent, plan);
  for await (const { key } of scan(context.store, removedConversationsOf(agent)))
    plan.numbers.push(trailingNumberOf(key));
  plan.deletes.push(removedConversationsOf(agent));
  const owners = [agentRetentionKey(agent), ...plan.sessions.map(sessionRetentionKey)];
  const policies = await buildPolicyRemoval(context.store, owners);
  plan.deletes.push(...policies.deletes);
  plan.puts.push(...policies.puts);
  for (const number of plan.numbers) plan.puts.push({ key: garbageKey(number), value: "" });
  return plan;
}

/** The agent's own line, and its sessions. */
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
    const session = ids[index] as string;
    if (!record) continue;
    const known = "value" in record ? decodeSession(record.value) : undefined;
    // It may have been deleted, and begun again by another agent.
    if (known && index > 0 && known.agent !== agent) continue;
    plan.checks.push("value" in record ? { key: record.key, value: record.value } : { key: record.key, exists: true });
    plan.deletes.push(record.key, branchesOf(session), runsOf(session), queueEntriesOf(session));
    plan.sessions.push(session);
    const number = known ? known.number : await new SessionReader(context, session).scanForNumber();
    if (number === undefined) continue;
    plan.deletes.push(sessionNumberKey(number), agentSessionKey(agent, number));
    plan.numbers.push(number);
  }
}

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
