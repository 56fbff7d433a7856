/** What a tool says when it fails: what failed, and what to do next. The server goes on. */
import type { CallToolResult } from "@modelcontextprotocol/server";
import type { z } from "zod";
import { isSavepointError, type SavepointErrorCode } from "../index.js";

/** Where the code of an error stands in a result: clients check `structuredContent` of errors too, against another schema. */
export const CODE_KEY = "savepoint/code";

/** What a model can do about it, where the message does not say so in words that it knows. */
const NEXT: Partial<Record<SavepointErrorCode, string>> = {
  AGENT_MISMATCH: "Use another id, or name the agent whose it is.",
  AGENT_NOT_FOUND: "agent_list shows the agents there are; agent_save makes one.",
  ALREADY_RUNNING: "A process works on this branch. Wait, or work on a branch of your own with checkpoint_fork.",
  BRANCH_EXISTS: "Call checkpoint_fork with another `branch`, or without one.",
  BRANCH_NOT_FOUND: "session_resume names the branches there are; checkpoint_fork makes one.",
  BUSY: "Another process is writing. Call again in a moment.",
  CHECKPOINT_NOT_FOUND: "checkpoint_list shows those there are.",
  CLOSED: "The server is ending. Nothing was changed.",
  CONFLICT: "Nothing was changed. Load what is there now, and decide again.",
  DAMAGED: "What is stored cannot be read whole. checkpoint_list shows older checkpoints.",
  SESSION_DELETED: "It was deleted meanwhile. Call again to begin anew.",
  STORE_FAILED: "Nothing was changed. Call again in a moment.",
};

/** Then it was written for a model, and says what to do next. */
const NAMES_A_TOOL = /\b(agent|checkpoint|conversation|session)_[a-z]+\b/;

/** Who mends these finds the others, if there are any. */
const MAX_ISSUES = 10;

export interface ToolError {
  readonly code: string;
  readonly message: string;
}

/** @param confined are there things that may not be named? Messages of Savepoint may say to whom something belongs */
export function describeError(error: unknown, confined: boolean): ToolError {
  if (!isSavepointError(error)) {
    const message = error instanceof Error ? error.message : String(error);
    return { code: "INTERNAL", message: `The tool has failed, and that is not your mistake: ${message}` };
  }
  const { code } = error;
  if (confined && namesOthers(error.message, code)) {
    return { code, message: "An id that this needs is not free. Nothing was changed. Use a different one." };
  }
  const next = NAMES_A_TOOL.test(error.message) ? undefined : NEXT[code];
  return { code, message: next === undefined ? error.message : `${error.message} ${next}` };
}

export function toErrorResult({ code, message }: ToolError): CallToolResult {
  return { isError: true, content: [{ type: "text", text: `${code}: ${message}` }], _meta: { [CODE_KEY]: code } };
}

/** Arguments that do not fit, each by its name. */
export function describeInvalidArguments(tool: string, issues: readonly z.core.$ZodIssue[]): ToolError {
  const problems = issues.slice(0, MAX_ISSUES).map(({ path, message }) => {
    const name = path.map(String).join(".");
    return name === "" ? message : `\`${name}\`: ${message}`;
  });
  return {
    code: "INVALID_ARGUMENT",
    message: `The arguments of ${tool} do not fit. ${problems.join("; ")}. Nothing was changed. Call it again with arguments that fit its schema.`,
  };
}

/** Only what belongs to somebody is said to belong. */
function namesOthers(message: string, code: SavepointErrorCode): boolean {
  return code === "AGENT_MISMATCH" || (code === "CONFLICT" && message.includes("belongs to"));
}
