/**
 * The OpenAI Agents SDK's own loop, made durable, and its sessions: published as `savepoint/openai`.
 *
 * Each model reply and tool result is recorded before the SDK can act on it, so that a turn that was interrupted replays what was
 * recorded and continues from there. The SDK is loaded by {@link durable}; {@link SavepointSession} does not need it.
 */
export { type AgentLike, type DurableAgentOptions } from "./agent.js";
export { type ApprovableResult, durable, type DurableOptions, type DurableTurn, type WaitingTurn } from "./durable.js";
export { SavepointSession, type SavepointSessionOptions } from "./session.js";
export type { OpenAiState } from "./state.js";
export { idempotencyKeyOf, type ToolPolicies, type ToolPolicy, type VerifyContext } from "./policies.js";
