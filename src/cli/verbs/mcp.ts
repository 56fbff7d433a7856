import { SavepointError } from "../../index.js";
import type * as Mcp from "../../mcp/index.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly write?: boolean;
  readonly agent?: string;
}

export const mcp = defineVerb<Options>({
  name: "mcp",
  group: "Set up",
  summary: "serve the store over stdio to MCP clients such as Claude Code, Cursor and VS Code",
  examples: [
    ["savepoint mcp --store sqlite:/path/agents.db", "read-only"],
    ["savepoint mcp --write --agent support", "with writing tools, confined to one agent"],
    ["claude mcp add savepoint -- npx -y savepoint mcp --write", "other clients: docs/mcp.md"],
  ],
  declare(command) {
    command
      .option("--write", "offer the tools that change the store")
      .option("-a, --agent <id>", "confine the server to one agent and what belongs to it");
  },
  async run(cli, _, { write = false, agent }) {
    const { serveMcp } = await loadServer();
    const sp = await (write ? cli.open({}) : cli.read());
    await serveMcp(sp, { write, signal: cli.signal, streams: cli.io, ...(agent !== undefined && { agent }) });
  },
});

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
