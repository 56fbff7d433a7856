/** An MCP server on a store: what was saved, for any agent that speaks MCP. */
import { createRequire } from "node:module";
import { McpServer } from "@modelcontextprotocol/server";
import type { Savepoint } from "../index.js";
import { registerResources } from "./resources/register.js";
import { registerTools, type TrackWork } from "./tools/register.js";
import type { McpOptions } from "./options.js";
import { AgentScope } from "./scope.js";

const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };

const INSTRUCTIONS =
  "Savepoint keeps the work of agents so that a crash loses nothing. Call session_resume before you go on with work that was begun earlier, and session_save after every step that should not be lost. Conversations and agents have tools of their own. Errors begin with a code and say what to do next.";

/** A server with Savepoint's tools and resources, to be connected to any transport. It does not close the store. */
export function createMcpServer(sp: Savepoint, options: McpOptions = {}): McpServer {
  return createTrackedServer(sp, options, (work) => work);
}

/** The same, and tells of everything that is under way. */
export function createTrackedServer(sp: Savepoint, options: McpOptions, track: TrackWork): McpServer {
  const scope = new AgentScope(sp, options.agent);
  const server = new McpServer({ name: "savepoint", title: "Savepoint", version }, { instructions: INSTRUCTIONS });
  registerTools(server, scope, options, track);
  registerResources(server, scope, track);
  return server;
}
