/** Creates an MCP server for a store. */
import { createRequire } from "node:module";
import type { Readable, Writable } from "node:stream";
import { McpServer } from "@modelcontextprotocol/server";
import type { Savepoint } from "../index.js";
import { resolveProject } from "./project.js";
import { registerPrompts } from "./prompts.js";
import { registerResources } from "./resources/register.js";
import { AgentScope } from "./scope.js";
import { selectTools } from "./tools/catalog.js";
import { registerTools, type TrackWork } from "./tools/register.js";

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
  /**
   * The tools to offer: names of tools, and of groups (`coding`, `all`, `sessions`, `checkpoints`, `runs`, `memory`,
   * `conversations`, `agents`). Their schemas become part of the context of the model: about 11 kB for `coding` and 23 kB
   * for `all`.
   * @default ["coding"], what a coding agent needs
   */
  readonly tools?: readonly string[];
  /**
   * The project that the server works for: a folder, for which the root of its git working tree is used if it has one, or
   * any other name. Sessions that are saved through the server carry it as `project` in their metadata, and
   * `session_resume` without a session considers only sessions of this project.
   * @default the working directory of the process
   */
  readonly project?: string;
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

const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };

/** What a model should know before it calls a tool, if the tools are offered that it is about. */
const INSTRUCTIONS: readonly (readonly [tool: string, text: string])[] = [
  ["", "Savepoint stores the work of agents so that a crash loses nothing."],
  ["session_resume", "Call session_resume before you continue earlier work."],
  ["session_save", "Call session_save after every step that must not be lost."],
  ["conversation_save", "Conversations and agents have their own tools."],
  ["", "Errors start with a code and say what to do next."],
];

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
  const { agent, write = false } = options;
  const scope = new AgentScope(sp, agent, resolveProject(options.project));
  const tools = selectTools(options.tools);
  const isOffered = (wanted: string): boolean =>
    tools.some(({ name, writes }) => name === wanted && (write || !writes));
  const instructions = INSTRUCTIONS.filter(([tool]) => tool === "" || isOffered(tool)).map(([, text]) => text);
  const server = new McpServer(
    { name: "savepoint", title: "Savepoint", version },
    { instructions: instructions.join(" ") },
  );
  registerTools(server, scope, tools, write, track);
  registerResources(server, scope, track);
  registerPrompts(server, scope, isOffered);
  return server;
}
