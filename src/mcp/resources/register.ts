/** Registers resources: stored data that a user or a client can attach to a conversation with a model. */
import {
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import { describeError } from "../errors.js";
import type { AgentScope } from "../scope.js";
import { TOOLS } from "../tools/catalog.js";
import { toFullOutputSchema } from "../tools/json-schema.js";
import type { TrackWork } from "../tools/register.js";
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
import { completeCheckpoints, completeIds, createListings, decodeUriPart, toUri } from "./discovery.js";

const JSON_TYPE = "application/json";

export function registerResources(server: McpServer, scope: AgentScope, track: TrackWork): void {
  const read = (uri: URL, load: () => Promise<unknown>): Promise<ReadResourceResult> =>
    track(readContents(uri, load, scope.agent !== undefined));

  const register = (name: string, title: string, description: string, load: () => Promise<unknown>): void => {
    const config = { title, description, mimeType: JSON_TYPE };
    server.registerResource(name, toUri(name), config, (uri) => read(uri, load));
  };
  register("sessions", "Sessions", "The newest sessions with their status.", () => readSessions(scope));
  register("conversations", "Conversations", "The newest conversations.", () => readConversations(scope));
  register("agents", "Agents", "The agents.", () => readAgents(scope));
  register("stats", "Stats", "How much is stored.", () => scope.sp.stats(scope.agentFilter()));
  register("schemas", "Schemas", "Complete JSON schemas of the results of all tools.", async () => describeResults());

  const sessions = completeIds(() => scope.sp.sessions.list(scope.agentFilter()));
  const conversations = completeIds(() => scope.sp.conversations.list(scope.agentFilter()));
  const checkpoints = completeIds(() => scope.sp.checkpoints.list(scope.agentFilter()));
  const agents = completeIds(() => scope.listAgents());
  const listings = createListings(scope);

  server.registerResource(
    "session",
    new ResourceTemplate("savepoint://sessions/{id}", { list: listings.sessions, complete: { id: sessions } }),
    { title: "Session", description: "A session with its newest checkpoints.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readSession(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "session-checkpoint",
    new ResourceTemplate("savepoint://sessions/{id}/checkpoints/{checkpoint}", {
      list: undefined,
      complete: { id: sessions, checkpoint: completeCheckpoints(scope) },
    }),
    { title: "State of a session", description: "A checkpoint of a session with its state.", mimeType: JSON_TYPE },
    (uri, { id, checkpoint }) =>
      read(uri, () => readSessionCheckpoint(scope, decodeUriPart(id), decodeUriPart(checkpoint))),
  );
  server.registerResource(
    "conversation",
    new ResourceTemplate("savepoint://conversations/{id}", {
      list: listings.conversations,
      complete: { id: conversations },
    }),
    { title: "Conversation", description: "A conversation with its newest messages.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readConversation(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "checkpoint",
    new ResourceTemplate("savepoint://checkpoints/{id}", { list: listings.checkpoints, complete: { id: checkpoints } }),
    { title: "Checkpoint", description: "A checkpoint of a session or an agent with its state.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readCheckpoint(scope, decodeUriPart(id))),
  );
  server.registerResource(
    "agent",
    new ResourceTemplate("savepoint://agents/{id}", { list: listings.agents, complete: { id: agents } }),
    { title: "Agent", description: "An agent with its state.", mimeType: JSON_TYPE },
    (uri, { id }) => read(uri, () => readAgent(scope, decodeUriPart(id))),
  );
}

/** The schemas that `tools/list` contains only in part. */
function describeResults(): Record<string, unknown> {
  return Object.fromEntries(TOOLS.map(({ name, output }) => [name, toFullOutputSchema(output)]));
}

async function readContents(uri: URL, load: () => Promise<unknown>, confined: boolean): Promise<ReadResourceResult> {
  try {
    const text = JSON.stringify(await load(), null, 2);
    return { contents: [{ uri: uri.href, mimeType: JSON_TYPE, text }] };
  } catch (error) {
    const { code, message } = describeError(error, confined);
    const kind = code.endsWith("_NOT_FOUND") || code.startsWith("INVALID_") ? "InvalidParams" : "InternalError";
    throw new ProtocolError(ProtocolErrorCode[kind], `${code}: ${message}`, { code, uri: uri.href });
  }
}
