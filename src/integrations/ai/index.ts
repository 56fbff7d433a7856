/** The Vercel AI SDK's own loop, made durable: published as `savepoint/ai`. */
export { durable, type DurableOptions, type DurableRun } from "./durable.js";
export type { ModelOptions } from "./model.js";
export type { AiState, ModelMessage } from "./sdk.js";
export { idempotencyKeyOf, type ToolPolicies, type ToolPolicy, type VerifyContext } from "./tools.js";
