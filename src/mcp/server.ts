/** Creates an MCP server for a store. */
import type { Readable, Writable } from "node:stream";
import { McpServer } from "@modelcontextprotocol/server";
import type { Savepoint } from "../index.js";
import { registerResources } from "./resources/register.js";
import { AgentScope } from "./scope.js";
import { registerTools, type TrackWork } from "./tools/register.js";
import { version } from "./version.js";

export interface McpOptions {
  /**
   * Offer the tools that change the store. Without it they are not listed.
   * @default false
   */
  readonly write?: boolean;
  /**
   * Confine the server to one agent: what belongs to other agents, or to none, can be neither read nor changed, and
   * what the server creates belongs to this agent.
   * @default the whole store
   */
  readonly agent?: string;
  /** Ends {@link serveMcp} when it is aborted. */
  readonly signal?: AbortSignal;
  /**
   * The streams of {@link serveMcp}: requests, responses, and errors of the connection.
   * @default the standard streams of the process
   */
  readonly streams?: McpStreams;
}

export interface McpStreams {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
}

const INSTRUCTIONS =
  "Savepoint stores the work of agents so that a crash loses nothing. Call session_resume before you continue earlier work, and session_save after every step that must not be lost. Conversations and agents have their own tools. Errors start with a code and say what to do next.";

/**
 * Creates a server with the tools and resources of a store, to be connected to any transport. It does not close the
 * store.
 * @example
 * const server = createMcpServer(sp, { write: true });
 * await server.connect(transport);
 */
export function createMcpServer(sp: Savepoint, options: McpOptions = {}): McpServer {
  return createTrackedServer(sp, options, (work) => work);
}

/** Like {@link createMcpServer}, and passes every request in progress to `track`. */
export function createTrackedServer(sp: Savepoint, options: McpOptions, track: TrackWork): McpServer {
  const scope = new AgentScope(sp, options.agent);
  const server = new McpServer(
    { name: "savepoint", title: "Savepoint", version: version() },
    { instructions: INSTRUCTIONS },
  );
  registerTools(server, scope, options.write ?? false, track);
  registerResources(server, scope, track);
  return server;
}
