/**
 * Errors as tools and resources report them. Models read them, so each one says what failed and which tool to call next.
 *
 * Missing things and things of other agents give the same error: a confined server reveals nothing about other agents.
 */
import type { CallToolResult } from "@modelcontextprotocol/server";
import type { z } from "zod";
import { isSavepointError, SavepointError, type SavepointErrorCode } from "../index.js";
import { MAX_INPUT_MEGABYTES } from "./input-size.js";

/** The key of the error code in `_meta`. `structuredContent` must match the output schema, even in an error. */
export const CODE_KEY = "savepoint/code";

/** What to do next, for errors of the library, whose messages name no tools. */
const ADVICE: Partial<Record<SavepointErrorCode, string>> = {
  AGENT_MISMATCH: "Use another id, or name the agent that owns it.",
  AGENT_NOT_FOUND: "Call agent_list to list the agents, or agent_save to create one.",
  ALREADY_RUNNING: "Another process runs this branch. Wait, or work on your own branch with checkpoint_fork.",
  BRANCH_EXISTS: "Call checkpoint_fork with another `branch`, or without one.",
  BRANCH_NOT_FOUND: "Call session_resume to list the branches, or checkpoint_fork to create one.",
  BUSY: "Another process is writing. Call again in a moment.",
  CHECKPOINT_NOT_FOUND: "Call checkpoint_list to list the checkpoints.",
  CLOSED: "The server is shutting down. Nothing was changed.",
  CONFLICT: "Nothing was changed. Load the current version and decide again.",
  DAMAGED: "The stored data is not intact. Call checkpoint_list to find older checkpoints.",
  NOT_WAITING: "Call session_list to list the open questions.",
  SESSION_DELETED: "The session was deleted in the meantime. Call again to start a new one.",
  STORE_FAILED: "Nothing was changed. Call again in a moment.",
};

/** Matches messages that name a tool: they say what to do next themselves. */
const NAMES_A_TOOL = /\b(agent|checkpoint|conversation|run|session)_[a-z]+\b/;

/** How many invalid arguments are listed at most. */
const MAX_ISSUES = 10;

/** An error as a tool returns it. */
export interface ToolError {
  readonly code: string;
  readonly message: string;
}

/** @param confined whether the server is confined to one agent: then messages that name an owner are replaced */
export function describeError(error: unknown, confined: boolean): ToolError {
  if (!isSavepointError(error)) {
    const message = error instanceof Error ? error.message : String(error);
    return { code: "INTERNAL", message: `The tool failed because of a bug, not because of its arguments: ${message}` };
  }
  const { code } = error;
  if (confined && namesOwner(error)) {
    return { code, message: "An id that this call needs is already in use. Nothing was changed. Use a different id." };
  }
  const advice = NAMES_A_TOOL.test(error.message) ? undefined : ADVICE[code];
  return { code, message: advice === undefined ? error.message : `${error.message} ${advice}` };
}

export function toErrorResult({ code, message }: ToolError): CallToolResult {
  return { isError: true, content: [{ type: "text", text: `${code}: ${message}` }], _meta: { [CODE_KEY]: code } };
}

/** Lists invalid arguments by their names. */
export function describeInvalidArguments(tool: string, issues: readonly z.core.$ZodIssue[]): ToolError {
  const problems = issues.slice(0, MAX_ISSUES).map(({ path, message }) => {
    const name = path.map(String).join(".");
    return name === "" ? message : `\`${name}\`: ${message}`;
  });
  return {
    code: "INVALID_ARGUMENT",
    message: `The arguments of ${tool} are invalid. ${problems.join("; ")}. Nothing was changed. Call it again with arguments that match its schema.`,
  };
}

export function inputTooLarge(tool: string): ToolError {
  return {
    code: "INVALID_ARGUMENT",
    message: `The arguments of ${tool} are larger than ${MAX_INPUT_MEGABYTES} MB. Nothing was changed. Save a smaller state, or several parts with separate calls.`,
  };
}

/** Whether a message may name the agent that owns something, as that of a restore does if an id has a new owner. */
function namesOwner({ code, details }: SavepointError): boolean {
  return code === "AGENT_MISMATCH" || (code === "CONFLICT" && "agent" in details && "conversationId" in details);
}

export function invalidArgument(message: string): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message);
}

export function agentNotFound(id: string): SavepointError {
  return new SavepointError("AGENT_NOT_FOUND", `There is no agent ${quote(id)}. Call agent_list to list the agents.`);
}

export function conversationNotFound(id: string): SavepointError {
  return new SavepointError(
    "CONVERSATION_NOT_FOUND",
    `There is no conversation ${quote(id)}. Call conversation_list to list the conversations, or use another id to create one.`,
  );
}

export function sessionNotFound(id: string): SavepointError {
  return new SavepointError(
    "SESSION_NOT_FOUND",
    `There is no session ${quote(id)}. Call session_list to list the sessions, or use another id to start one.`,
  );
}

/** @param ref a checkpoint as a caller names it */
export function checkpointNotFound(ref: unknown): SavepointError {
  const name = typeof ref === "string" ? quote(ref) : `with ${JSON.stringify(ref)}`;
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `There is no checkpoint ${name}. Call checkpoint_list to list the checkpoints.`,
  );
}

/** Callers choose these strings, so their length is limited. */
function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
