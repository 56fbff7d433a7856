export type { McpServer } from "@modelcontextprotocol/server";
export type { McpOptions } from "./options.js";
export { serveMcp } from "./serve.js";
export { createMcpServer } from "./server.js";
