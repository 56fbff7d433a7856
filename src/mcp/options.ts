/** What can be said about an MCP server. */
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
}
