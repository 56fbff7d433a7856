/** What can be said about an MCP server. */
import type { Readable, Writable } from "node:stream";

export interface McpOptions {
  /**
   * Offer the tools that change the store. Without it they are not even listed.
   * @default false
   */
  readonly write?: boolean;
  /**
   * Confine it to one agent: nothing of any other, nor what belongs to none, can be seen or changed, and what is made is
   * this agent's.
   * @default the whole store
   */
  readonly agent?: string;
  /** Ends {@link serveMcp} when it is aborted. */
  readonly signal?: AbortSignal;
  /**
   * The streams from which {@link serveMcp} reads, to which it answers, and to which it reports failures of the connection.
   * @default the standard streams of the process
   */
  readonly streams?: McpStreams;
}

export interface McpStreams {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
}
