/** How clients find resources: their URIs, lists of the newest ones, and completions of ids. */
import type { ListResourcesResult } from "@modelcontextprotocol/server";
import { isSavepointError, SavepointError } from "../../index.js";
import type { AgentScope } from "../scope.js";

/** How many resources of each kind `resources/list` contains at most. */
const MAX_LISTED = 50;
/** The limit of the protocol. */
const MAX_COMPLETIONS = 100;
/** How many ids are compared for a completion at most. */
const MAX_CANDIDATES = 5000;

/**
 * The URI of a resource. Ids are arbitrary strings and are percent-encoded, so that an id is always one part of the path.
 * The ids `.` and `..` get the prefix `~`, because URLs treat them as folders even if they are encoded.
 * @param parts fixed names and ids in turn: `toUri("sessions", "a/b")` is `savepoint://sessions/a%2Fb`
 */
export function toUri(...parts: readonly string[]): string {
  return `savepoint://${parts.map(encodeUriPart).join("/")}`;
}

function encodeUriPart(part: string): string {
  return part === "." || part === ".." ? `~${part}` : encodeURIComponent(part).replace(/^~/, "%7E");
}

/** The id that a part of a URI contains. */
export function decodeUriPart(part: string | readonly string[] | undefined): string {
  const text = String(part);
  if (text === "~." || text === "~..") return text.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SavepointError(
      "INVALID_ID",
      `${JSON.stringify(text)} is not percent-encoded UTF-8. Encode the id with encodeURIComponent().`,
    );
  }
}

type List = () => Promise<ListResourcesResult>;
type Complete = (value: string) => Promise<string[]>;

/** Lists of the newest sessions, conversations and checkpoints, and of the agents. */
export function createListings(
  scope: AgentScope,
): Record<"sessions" | "conversations" | "checkpoints" | "agents", List> {
  const { sp } = scope;
  const options = { ...scope.agentFilter(), limit: MAX_LISTED };
  return {
    sessions: () =>
      listResources(sp.sessions.list(options), ({ id, status }) => ({
        uri: toUri("sessions", id),
        name: id,
        description: status,
      })),
    conversations: () =>
      listResources(sp.conversations.list(options), ({ id, title }) => ({
        uri: toUri("conversations", id),
        name: title ?? id,
      })),
    checkpoints: () =>
      listResources(sp.checkpoints.list(options), ({ id, sessionId, agent, seq, label }) => ({
        uri: toUri("checkpoints", id),
        name: label ?? `${sessionId ?? agent} #${seq}`,
      })),
    agents: () => listResources(scope.listAgents(), ({ id, name }) => ({ uri: toUri("agents", id), name: name || id })),
  };
}

async function listResources<T>(
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

/** Completes the ids of a list. */
export function completeIds(walk: () => AsyncIterable<{ readonly id: string }>): Complete {
  return async (typed) => {
    const ids = new Set<string>();
    let candidates = 0;
    for await (const { id } of walk()) {
      if (id.startsWith(typed)) ids.add(id);
      if (ids.size >= MAX_COMPLETIONS || ++candidates >= MAX_CANDIDATES) break;
    }
    return [...ids];
  };
}

/** Completes the ids of checkpoints of the session that is already part of the URI. */
export function completeCheckpoints(
  scope: AgentScope,
): (typed: string, context?: { arguments?: Record<string, string> }) => Promise<string[]> {
  return async (typed, context) => {
    const id = context?.arguments?.["id"];
    if (id === undefined || id === "") return [];
    try {
      const session = await scope.openSession(id);
      return await completeIds(() => session.history({ allBranches: true }))(typed);
    } catch (error) {
      // While the user types, the session id is usually incomplete.
      if (isSavepointError(error)) return [];
      throw error;
    }
  };
}
