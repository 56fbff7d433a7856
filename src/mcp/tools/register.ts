/**
 * Registers the tools. Its request handlers replace those of the SDK, so that invalid arguments and tools that are not
 * offered are reported with a code and with what to do next.
 *
 * To add a tool, define it with `defineTool` in a file of this folder and add it to {@link TOOLS}.
 */
import {
  type CallToolResult,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type Tool as ToolDefinition,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { describeError, describeInvalidArguments, inputTooLarge, toErrorResult } from "../errors.js";
import { isTooLarge } from "../input-size.js";
import type { AgentScope } from "../scope.js";
import { AGENT_TOOLS } from "./agents.js";
import { BRANCH_TOOLS } from "./branches.js";
import { CHECKPOINT_TOOLS } from "./checkpoints.js";
import { CONVERSATION_TOOLS } from "./conversations.js";
import { sessionResume } from "./session-resume.js";
import { sessionSave } from "./session-save.js";
import { persistenceStats } from "./stats.js";
import type { Tool } from "./tool.js";

/** All tools in the order in which they are listed: the most important ones first. */
export const TOOLS: readonly Tool[] = [
  sessionResume,
  sessionSave,
  ...CHECKPOINT_TOOLS,
  ...BRANCH_TOOLS,
  ...CONVERSATION_TOOLS,
  ...AGENT_TOOLS,
  persistenceStats,
];

/** Observes a request in progress, so that the store is not closed before it has ended. */
export type TrackWork = <T>(work: Promise<T>) => Promise<T>;

export function registerTools(server: McpServer, scope: AgentScope, write: boolean, track: TrackWork): void {
  const tools = TOOLS.filter(({ writes }) => write || !writes).map(toDefinition);
  server.server.registerCapabilities({ tools: { listChanged: false } });
  server.server.setRequestHandler("tools/list", () => ({ tools }));
  server.server.setRequestHandler("tools/call", ({ params }) => {
    const tool = TOOLS.find(({ name }) => name === params.name);
    if (!tool) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${JSON.stringify(params.name)}.`);
    }
    if (tool.writes && !write) return readOnlyError(tool);
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

function readOnlyError({ name }: Tool): CallToolResult {
  return toErrorResult({
    code: "READ_ONLY",
    message: `${name} changes the store, and this server is read-only. Ask the user to start the server with --write.`,
  });
}

function toDefinition(tool: Tool): ToolDefinition {
  const { name, title, description, writes, destructive, idempotent } = tool;
  return {
    name,
    title,
    description,
    inputSchema: z.toJSONSchema(tool.input, { io: "input" }) as ToolDefinition["inputSchema"],
    outputSchema: z.toJSONSchema(tool.output, { io: "output" }) as ToolDefinition["inputSchema"],
    annotations: {
      readOnlyHint: !writes,
      destructiveHint: destructive,
      idempotentHint: idempotent,
      openWorldHint: false,
    },
  };
}
