/** Offers what is stored as resources that a person, or a client, can attach to a conversation with a model. */
import {
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import { describeError } from "../errors.js";
import type { TrackWork } from "../tools/register.js";
import { completeCheckpoints, completeFrom, createListings } from "./discovery.js";
import { decodeUriPart, toUri } from "../resource-uri.js";
import {
  readAgent,
  readAgents,
  readCheckpoint,
  readConversation,
  readConversations,
  readSession,
  readSessionCheckpoint,
  readSessions,
} from "./contents.js";
import type { AgentScope } from "../scope.js";

const JSON_TYPE = "application/json";

export function registerResources(server: McpServer, scope: AgentScope, track: TrackWork): void {
  const read = (uri: URL, load: () => Promise<unknown>): Promise<ReadResourceResult> =>
    track(toContents(uri, load, scope.agent !== undefined));

  const fixed = (name: string, title: string, description: string, load: () => Promise<unknown>): void => {
    const config = { title, description, mimeType: JSON_TYPE };
    server.registerResource(name, toUri(name), config, (uri) => read(uri, load));
  };
  fixed("sessions", "Sessions", "The newest sessions, and how the work in each stands.", () => readSessions(scope));
  fixed("conversations", "Conversations", "The newest conversations.", () => readConversations(scope));
  fixed("agents", "Agents", "The agents.", () => readAgents(scope));
  fixed("stats", "Stats", "How much is stored.", () => scope.sp.stats(scope.agentFilter(undefined)));

  const sessions = completeFrom(() => scope.sp.sessions.list(scope.agentFilter(undefined)));
  const conversations = completeFrom(() => scope.sp.conversations.list(scope.agentFilter(undefined)));
  const checkpoints = completeFrom(() => scope.sp.checkpoints.list(scope.agentFilter(undefined)));
  const lists = createListings(scope);

  server.registerResource(
    "session",
    new ResourceTemplate("savepoint://sessions/{id}", { list: lists.sessions, complete: { id: sessions } }),
    { title: "A session", description: "A session with its newest checkpoints.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readSession(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "session-checkpoint",
    new ResourceTemplate("savepoint://sessions/{id}/checkpoints/{checkpoint}", {
      list: undefined,
      complete: { id: sessions, checkpoint: completeCheckpoints(scope) },
    }),
    { title: "A state of a session", description: "A checkpoint of a session with its state.", mimeType: JSON_TYPE },
    (uri, { id, checkpoint }) =>
      read(uri, () => readSessionCheckpoint(scope, decodeUriPart(id), decodeUriPart(checkpoint))),
  );
  server.registerResource(
    "conversation",
    new ResourceTemplate("savepoint://conversations/{id}", {
      list: lists.conversations,
      complete: { id: conversations },
    }),
    { title: "A conversation", description: "A conversation with its newest messages.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readConversation(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "checkpoint",
    new ResourceTemplate("savepoint://checkpoints/{id}", { list: lists.checkpoints, complete: { id: checkpoints } }),
    { title: "A checkpoint", description: "A checkpoint of a session or an agent.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readCheckpoint(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "agent",
    new ResourceTemplate("savepoint://agents/{id}", { list: lists.agents, complete: { id: lists.agentIds } }),
    { title: "An agent", description: "An agent with its state.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readAgent(scope, decodeUriPart(id))),
  );
}

async function toContents(uri: URL, load: () => Promise<unknown>, confined: boolean): Promise<ReadResourceResult> {
  try {
    const text = JSON.stringify(await load(), null, 2);
    return { contents: [{ uri: uri.href, mimeType: JSON_TYPE, text }] };
  } catch (error) {
    const { code, message } = describeError(error, confined);
    const kind = code.endsWith("_NOT_FOUND") || code.startsWith("INVALID_") ? "InvalidParams" : "InternalError";
    throw new ProtocolError(ProtocolErrorCode[kind], `${code}: ${message}`, { code, uri: uri.href });
  }
}
