/**
 * The MCP server: gives any agent that speaks the Model Context Protocol access to a store, without code in the agent.
 * Everything it reads or writes goes through an `AgentScope`, which can confine it to one agent: then nothing of other
 * agents can be seen, changed or inferred.
 */
export type { McpServer } from "@modelcontextprotocol/server";
export { handleHook, isReadingHook } from "./hook.js";
export { createMcpServer, type McpOptions, type McpStreams } from "./server.js";
export { serveMcp } from "./stdio.js";
