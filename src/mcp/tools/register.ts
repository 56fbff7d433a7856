/**
 * Offers the tools to clients. The handlers are our own instead of the SDK's: an argument that does not fit, and a tool
 * that is not offered, are told with a code and with what to do next.
 */
import { type CallToolResult, type McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { z } from "zod";
import { describeError, describeInvalidArguments, toErrorResult } from "../errors.js";
import type { McpOptions } from "../options.js";
import type { AgentScope } from "../scope.js";
import type { Tool } from "../tool.js";
import { TOOLS } from "./all-tools.js";

/** Runs what changes or reads the store; told of all of it, so that nothing is under way when the store is closed. */
export type TrackWork = <T>(work: Promise<T>) => Promise<T>;

export function registerTools(
  server: McpServer,
  scope: AgentScope,
  { write = false }: McpOptions,
  track: TrackWork,
): void {
  const offered = TOOLS.filter(({ writes }) => write || !writes);
  const tools = offered.map(toDefinition);
  server.server.registerCapabilities({ tools: { listChanged: false } });
  server.server.setRequestHandler("tools/list", () => ({ tools }));
  server.server.setRequestHandler("tools/call", ({ params }) => {
    const tool = TOOLS.find(({ name }) => name === params.name);
    if (!tool)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${JSON.stringify(params.name)}.`);
    if (tool.writes && !write) return notOffered(tool);
    return track(call(tool, params.arguments ?? {}, scope));
  });
}

/** Never fails: what went wrong is the result. */
async function call(tool: Tool, given: unknown, scope: AgentScope): Promise<CallToolResult> {
  const parsed = tool.input.safeParse(given);
  if (!parsed.success) return toErrorResult(describeInvalidArguments(tool.name, parsed.error.issues));
  try {
    const result = await tool.run(parsed.data, scope);
    // What clients get has no undefined fields: they are left out here once, and the text is the same.
    const text = JSON.stringify(result);
    return { content: [{ type: "text", text }], structuredContent: JSON.parse(text) as Record<string, unknown> };
  } catch (error) {
    return toErrorResult(describeError(error, scope.agent !== undefined));
  }
}

function notOffered({ name }: Tool): CallToolResult {
  return toErrorResult({
    code: "READ_ONLY",
    message: `${name} changes the store, and this server only reads it. Ask for the server to be started with --write.`,
  });
}

function toDefinition(tool: Tool): {
  name: string;
  title: string;
  description: string;
  inputSchema: ObjectSchema;
  outputSchema: ObjectSchema;
  annotations: Record<string, boolean>;
} {
  const { name, title, description, writes, destructive, idempotent } = tool;
  return {
    name,
    title,
    description,
    inputSchema: z.toJSONSchema(tool.input, { io: "input" }) as ObjectSchema,
    outputSchema: z.toJSONSchema(tool.output, { io: "output" }) as ObjectSchema,
    annotations: {
      readOnlyHint: !writes,
      destructiveHint: destructive,
      idempotentHint: idempotent,
      openWorldHint: false,
    },
  };
}

type ObjectSchema = { [key: string]: unknown; type: "object" };
