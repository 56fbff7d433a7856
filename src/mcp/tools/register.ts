/**
 * Registers the tools. Its request handlers replace those of the SDK, so that invalid arguments and tools that are not
 * offered are reported with a code and with what to do next.
 */
import {
  type CallToolResult,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type Tool as ToolDefinition,
} from "@modelcontextprotocol/server";
import { describeError, describeInvalidArguments, inputTooLarge, toErrorResult } from "../errors.js";
import { isTooLarge } from "../input-size.js";
import type { AgentScope } from "../scope.js";
import { TOOLS } from "./catalog.js";
import { toInputSchema, toOutputSchema } from "./json-schema.js";
import type { Tool } from "./tool.js";

/** Observes a request in progress, so that the store is not closed before it has ended. */
export type TrackWork = <T>(work: Promise<T>) => Promise<T>;

/** @param selected the tools that the server offers; without `write`, only those that do not write */
export function registerTools(
  server: McpServer,
  scope: AgentScope,
  selected: readonly Tool[],
  write: boolean,
  track: TrackWork,
): void {
  const tools = selected.filter(({ writes }) => write || !writes).map(toDefinition);
  server.server.registerCapabilities({ tools: { listChanged: false } });
  server.server.setRequestHandler("tools/list", () => ({ tools }));
  server.server.setRequestHandler("tools/call", ({ params }) => {
    const tool = selected.find(({ name }) => name === params.name);
    if (!tool) throw new ProtocolError(ProtocolErrorCode.InvalidParams, describeMissingTool(params.name));
    if (tool.writes && !write) return toErrorResult(readOnlyError(tool));
    return track(callTool(tool, params.arguments ?? {}, scope));
  });
}

/** Never rejects: an error is a result. */
async function callTool(tool: Tool, input: unknown, scope: AgentScope): Promise<CallToolResult> {
  if (isTooLarge(input)) return toErrorResult(inputTooLarge(tool.name));
  const parsed = tool.input.safeParse(input);
  if (!parsed.success) return toErrorResult(describeInvalidArguments(tool.name, parsed.error.issues));
  try {
    const result = await tool.run(parsed.data, scope);
    // Parsed again from the text, so that both are the same and neither has fields that are undefined.
    const text = JSON.stringify(result);
    return { content: [{ type: "text", text }], structuredContent: JSON.parse(text) as Record<string, unknown> };
  } catch (error) {
    return toErrorResult(describeError(error, scope.agent !== undefined));
  }
}

function describeMissingTool(name: string): string {
  const exists = TOOLS.some((tool) => tool.name === name);
  return exists
    ? `This server does not offer the tool ${name}. Ask the user to start it with --tools all, or with this tool in --tools.`
    : `There is no tool ${JSON.stringify(name)}.`;
}

function readOnlyError({ name }: Tool): { code: string; message: string } {
  return {
    code: "READ_ONLY",
    message: `${name} changes the store, and this server is read-only. Ask the user to start the server with --write.`,
  };
}

function toDefinition(tool: Tool): ToolDefinition {
  const { name, title, description, writes, destructive, idempotent } = tool;
  return {
    name,
    title,
    description,
    inputSchema: toInputSchema(tool.input) as ToolDefinition["inputSchema"],
    outputSchema: toOutputSchema(tool.output) as ToolDefinition["inputSchema"],
    // The other two hints have no meaning for a tool that only reads.
    annotations: {
      readOnlyHint: !writes,
      ...(writes && { destructiveHint: destructive, idempotentHint: idempotent }),
      openWorldHint: false,
    },
  };
}
