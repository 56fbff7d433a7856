/**
 * `savepoint/claude`: a session store for the Claude Agent SDK, and hooks that record the calls of tools. It uses only the public API of
 * Savepoint, and does not import the SDK.
 */
export { durableTools, type DurableTools, type DurableToolsOptions, type ToolPolicy } from "./durable-tools.js";
export type { ToolHook, ToolHookInput, ToolHookOutput, ToolHooks } from "./hooks.js";
export { SavepointSessionStore, type SavepointSessionStoreOptions } from "./session-store.js";
export type { FoldSessionSummary, SessionKey, SessionSummary, TranscriptEntry, TranscriptState } from "./types.js";
