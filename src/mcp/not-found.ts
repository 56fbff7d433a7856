/**
 * Errors for what is not there, or not there for whoever asks: the two look the same, so that nothing can be learned
 * about what belongs to others. They name the tool to call next, because a model reads them.
 */
import { SavepointError } from "../index.js";

export function agentNotFound(id: string): SavepointError {
  return new SavepointError(
    "AGENT_NOT_FOUND",
    `There is no agent ${quote(id)} here. Call agent_list to see those there are.`,
  );
}

export function conversationNotFound(id: string): SavepointError {
  return new SavepointError(
    "CONVERSATION_NOT_FOUND",
    `There is no conversation ${quote(id)} here. Call conversation_list to see those there are, or use another id to make a new one.`,
  );
}

export function sessionNotFound(id: string): SavepointError {
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `There is no session ${quote(id)} here. Call checkpoint_list with { "of": "session" } to see what was saved, or use another id to begin a new one.`,
  );
}

export function checkpointNotFound(ref: unknown): SavepointError {
  const named = typeof ref === "string" ? quote(ref) : `with ${JSON.stringify(ref)}`;
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `There is no checkpoint ${named} here. Call checkpoint_list to see those there are.`,
  );
}

/** What was asked for may be anything, and need not be repeated at any length. */
function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
