import { isSavepointError, type Savepoint, SavepointError } from "../../index.js";
import type * as Mcp from "../../mcp/index.js";
import type { Cli } from "../cli.js";
import { CliError } from "../errors.js";
import { EXIT } from "../exit-codes.js";
import { readJson } from "../json.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly write?: boolean;
  readonly agent?: string;
  readonly tools?: readonly string[];
  readonly project?: string;
  readonly hook?: boolean;
}

export const mcp = defineVerb<Options>({
  name: "mcp",
  group: "Set up",
  summary: "serve the store over stdio to MCP clients such as Claude Code, Cursor and VS Code",
  examples: [
    ["savepoint mcp --store sqlite:/path/agents.db", "read-only"],
    ["savepoint mcp --write --agent support", "with writing tools, confined to one agent"],
    ["savepoint mcp --write --tools memory,session_save", "only some tools; --tools all for all of them"],
    ["claude mcp add savepoint -- npx -y savepoint mcp --write", "other clients: docs/mcp.md"],
  ],
  declare(command) {
    command
      .option("--write", "offer the tools that change the store")
      .option("-a, --agent <id>", "confine the server to one agent and what belongs to it")
      .option(
        "--tools <names>",
        "groups and names of tools to offer, separated by commas (default: coding)",
        splitNames,
      )
      .option("--project <folder>", "the project whose sessions are resumed (default: that of the working directory)")
      .option("--hook", "handle one event of a Claude Code hook from stdin instead of serving");
  },
  async run(cli, _, { write = false, hook = false, tools, ...options }) {
    const server = await loadServer();
    if (hook) return runHook(cli, server, { ...options, write });
    const sp = await (write ? cli.open({}) : cli.read());
    const { signal, io: streams } = cli;
    await server.serveMcp(sp, { project: streams.cwd, ...options, ...(tools && { tools }), write, signal, streams });
  },
});

function splitNames(text: string): string[] {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

/**
 * Handles one event, and prints only what the client adds to the context of the model. An error never ends with the exit
 * code 2: that would stop the client from doing what it was about to do.
 */
async function runHook(
  cli: Cli,
  { handleHook, isReadingHook }: typeof Mcp,
  options: { readonly write: boolean; readonly agent?: string; readonly project?: string },
): Promise<void> {
  try {
    const event = await readJson(cli.io, "-");
    if (!isReadingHook(event) && !options.write) {
      throw new SavepointError("READ_ONLY", "this event saves the transcript. Pass --write.");
    }
    const sp = await (isReadingHook(event) ? openExisting(cli) : cli.open({}));
    if (sp) cli.io.stdout.write(await handleHook(sp, event, options));
  } catch (error) {
    const { message } = error as Error;
    throw new CliError("HOOK_FAILED", EXIT.failed, `The hook failed: ${message}`, { cause: error });
  }
}

/** A project without a store has nothing to resume, which is no error at the start of a session. */
async function openExisting(cli: Cli): Promise<Savepoint | undefined> {
  try {
    return await cli.read();
  } catch (error) {
    if (isSavepointError(error, "STORE_NOT_FOUND")) return undefined;
    throw error;
  }
}

/** Loads the MCP server. It needs optional packages; the other verbs work without them. */
async function loadServer(): Promise<typeof Mcp> {
  try {
    return await import("../../mcp/index.js");
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      "The MCP server needs two packages that could not be loaded. Run: npm install @modelcontextprotocol/server zod",
      { cause },
    );
  }
}
