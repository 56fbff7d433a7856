/**
 * The Vercel AI SDK's own loop, made durable: published as `savepoint/ai`.
 *
 * Each model reply and tool result is recorded before the SDK can act on it, so that a turn that was interrupted replays what
 * was recorded and continues from there. The SDK is not imported.
 */
export { durable, type DurableOptions, type DurableRun } from "./durable.js";
export { uiMessages } from "./ui-messages.js";
export {
  type ResumeOptions,
  resumeUIMessageStreamResponse,
  type UIResponseOptions,
  type UIStreamSource,
} from "./ui-stream.js";
export type { ModelOptions } from "./turn.js";
export type { AiState, ModelMessage } from "./sdk.js";
export { idempotencyKeyOf, type ToolPolicies, type ToolPolicy, type VerifyContext } from "./tools.js";
