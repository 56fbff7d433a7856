/** What clients can choose resources from: bounded lists of the newest, and completions of ids. */
import type { ListResourcesResult } from "@modelcontextprotocol/server";
import { isSavepointError } from "../../index.js";
import { toUri } from "../resource-uri.js";
import type { AgentScope } from "../scope.js";
import { listAgents } from "../tools/agents.js";

/** Of each kind, in the list of all resources. */
const MAX_LISTED = 50;
/** The protocol allows no more. */
const MAX_COMPLETIONS = 100;
/** Ids that are looked at for a completion. */
const MAX_LOOKED_AT = 5000;

type List = () => Promise<ListResourcesResult>;
type Complete = (value: string) => Promise<string[]>;

/** The newest of each kind. */
export function createListings(scope: AgentScope): {
  sessions: List;
  conversations: List;
  checkpoints: List;
  agents: List;
  agentIds: Complete;
} {
  const { sp } = scope;
  const filter = { ...scope.agentFilter(undefined), limit: MAX_LISTED };
  return {
    sessions: () =>
      toList(sp.sessions.list(filter), ({ id, status }) => ({
        uri: toUri("sessions", id),
        name: id,
        description: status,
      })),
    conversations: () =>
      toList(sp.conversations.list(filter), ({ id, title }) => ({
        uri: toUri("conversations", id),
        name: title ?? id,
      })),
    checkpoints: () =>
      toList(sp.checkpoints.list(filter), ({ id, sessionId, agent, seq, label }) => ({
        uri: toUri("checkpoints", id),
        name: label ?? `${sessionId ?? agent} #${seq}`,
      })),
    agents: () => toList(listAgents(scope), ({ id, name }) => ({ uri: toUri("agents", id), name: name || id })),
    agentIds: completeFrom(() => listAgents(scope)),
  };
}

/** Those ids of a list that begin with what was typed. */
export function completeFrom(walk: () => AsyncIterable<{ readonly id: string }>): Complete {
  return async (typed) => {
    const ids = new Set<string>();
    let lookedAt = 0;
    for await (const { id } of walk()) {
      if (id.startsWith(typed)) ids.add(id);
      if (ids.size >= MAX_COMPLETIONS || ++lookedAt >= MAX_LOOKED_AT) break;
    }
    return [...ids];
  };
}

/** Checkpoints of the session that was chosen before. */
export function completeCheckpoints(
  scope: AgentScope,
): (typed: string, context?: { arguments?: Record<string, string> }) => Promise<string[]> {
  return async (typed, context) => {
    const session = context?.arguments?.["id"];
    if (session === undefined || session === "") return [];
    try {
      const handle = await scope.openSession(session);
      return await completeFrom(() => handle.history({ allBranches: true }))(typed);
    } catch (error) {
      // While somebody types, most of what there is so far is no id.
      if (isSavepointError(error)) return [];
      throw error;
    }
  };
}

async function toList<T>(
  entries: AsyncIterable<T>,
  toResource: (entry: T) => { uri: string; name: string; description?: string },
): Promise<ListResourcesResult> {
  const resources: ListResourcesResult["resources"] = [];
  for await (const entry of entries) {
    resources.push(toResource(entry));
    if (resources.length === MAX_LISTED) break;
  }
  return { resources };
}
