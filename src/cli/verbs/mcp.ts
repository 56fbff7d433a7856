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
  summary: "serve the store to Claude Code, Cursor, VS Code and others, over stdio",
  examples: [
    ["savepoint mcp --store sqlite:/path/agents.db", "reading only"],
    ["savepoint mcp --write --agent support", "writing too, confined to one agent"],
    ["claude mcp add savepoint -- npx -y savepoint mcp --write", "docs/mcp.md has other clients"],
  ],
  declare(command) {
    command
      .option("--write", "offer tools that change the store as well")
      .option("-a, --agent <id>", "confine it to one agent and what is its own");
  },
  async run(cli, _, { write = false, agent }) {
    const { serveMcp } = await loadServer();
    // Who may write may begin: there is nothing to read in a store that is not there.
    const sp = await cli.open(write ? {} : undefined);
    await serveMcp(sp, { write, signal: cli.signal, streams: cli.io, ...(agent !== undefined && { agent }) });
  },
});

/** Loads the MCP server. It needs packages that may not be installed; other verbs work without them. */
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
