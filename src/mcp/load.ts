/** Loading the MCP server only when it is wanted: it needs packages that may not be installed. */
import { SavepointError } from "../index.js";
import type * as Mcp from "./index.js";

/** The module `savepoint/mcp`; `MISSING_DEPENDENCY` where what it needs is not installed. */
export async function loadMcp(): Promise<typeof Mcp> {
  try {
    return await import("./index.js");
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      "The MCP server needs two packages that could not be loaded. Run: npm install @modelcontextprotocol/server zod",
      { cause },
    );
  }
}
