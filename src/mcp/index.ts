export type { McpServer } from "@modelcontextprotocol/server";
export type { McpOptions, McpStreams } from "./options.js";
export { serveMcp } from "./stdio.js";
export { createMcpServer } from "./server.js";
