/** The errors of session handles. */
import { SavepointError } from "../errors.js";
import { agentOfHistoryId, type CheckpointRef, MAIN, type OwnerRecord } from "../records/index.js";
import { pendingToolCalls } from "../messages/index.js";
import { describeProcess } from "../util/index.js";

/** The session has no such checkpoint. */
export function checkpointNotFound(sessionId: string, ref: CheckpointRef): SavepointError {
  const name = typeof ref === "string" ? JSON.stringify(ref) : `with ${JSON.stringify(ref)}`;
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} has no checkpoint ${name}. List its checkpoints with history({ allBranches: true }).`,
  );
}

export function nothingToComplete(sessionId: string, branch: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `${describeBranch(sessionId, branch)} has no checkpoint, so it cannot be completed. Save a state first.`,
  );
}

export function branchNotFound(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "BRANCH_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} has no branch ${JSON.stringify(branch)}. Create it with fork(checkpoint, { branch }).`,
  );
}

export function sessionDeleted(sessionId: string): SavepointError {
  return new SavepointError(
    "SESSION_DELETED",
    `Session ${JSON.stringify(sessionId)} was deleted. Open a new handle with sp.session() to create it again.`,
  );
}

/** A run holds the branch. Its lease may have expired: the caller must check. */
export class BranchHeldError extends SavepointError<"ALREADY_RUNNING"> {
  constructor(sessionId: string, branch: string) {
    super("ALREADY_RUNNING", `${describeBranch(sessionId, branch)} is being written by a run.`);
  }
}

export function alreadyRunning(
  sessionId: string,
  branch: string,
  owner: OwnerRecord,
): SavepointError<"ALREADY_RUNNING"> {
  const until = new Date(owner.until);
  return new SavepointError(
    "ALREADY_RUNNING",
    `${describeBranch(sessionId, branch)} is being run by ${describeProcess(owner.process)}; its lease expires at ${until.toISOString()} unless it is renewed. Wait with sp.watch(), stop the run with sp.cancel(), or work on a fork.`,
    { details: { sessionId, branch, owner: owner.process, until: owner.until } },
  );
}

/** The subject of error messages about a branch: `Session "x", branch "y",`; without the branch if that is `main`. */
export function describeBranch(sessionId: string, branch: string): string {
  const session = describeSession(sessionId);
  return branch === MAIN ? session : `${session}, branch ${JSON.stringify(branch)},`;
}

/** A session, or the agent that the session stores. */
export function describeSession(sessionId: string): string {
  const agent = agentOfHistoryId(sessionId);
  return agent === undefined ? `Session ${JSON.stringify(sessionId)}` : `Agent ${JSON.stringify(agent)}`;
}

/** Models reject a history with unanswered tool calls. */
export function requireAnsweredToolCalls(sessionId: string, seq: number, state: unknown): void {
  const calls = pendingToolCalls(state);
  if (calls.length === 0) return;
  const ids = calls.map(({ id }) => id);
  throw new SavepointError(
    "UNANSWERED_TOOL_CALLS",
    `${sessionId}#${seq} is inside a step, and the new state has no results for the tool calls ${ids.map((id) => JSON.stringify(id)).join(", ")}. Add their results or remove the calls; or fork without a state to resume the step.`,
    { details: { sessionId, calls: ids } },
  );
}

/** Throws `INVALID_ARGUMENT` if a result is given for a call that is not pending. */
export function rejectUnknownCalls(sessionId: string, resolution: unknown, pending: readonly string[]): void {
  if (resolution === "drop") return;
  if (typeof resolution !== "object" || resolution === null) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `resolveToolCalls() expects results by the ids of their calls, or "drop", got ${JSON.stringify(resolution)}.`,
    );
  }
  const unknown = Object.keys(resolution).filter((id) => !pending.includes(id));
  if (unknown.length === 0) return;
  const known =
    pending.length > 0 ? `Pending are ${pending.map((id) => JSON.stringify(id)).join(", ")}.` : "None is pending.";
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `${describeSession(sessionId)} has no pending tool call ${unknown.map((id) => JSON.stringify(id)).join(", ")}. ${known}`,
    { details: { sessionId, pending } },
  );
}

/** The checkpointer ignores checkpoints that other programs save in the session of a thread. */
export function isGraphThread(sessionId: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `${describeSession(sessionId)} is a LangGraph thread, so its graph must change it: call graph.updateState(config, { messages: resolveToolCalls(messages, …) }) with resolveToolCalls from savepoint/langgraph.`,
  );
}

export function stateWithResults(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "fork() got both `state` and `results`. Pass only one of them.");
}

export function agentMismatch(sessionId: string, sessionAgent: string, agent: string): SavepointError {
  return new SavepointError(
    "AGENT_MISMATCH",
    `Session ${JSON.stringify(sessionId)} belongs to agent ${JSON.stringify(sessionAgent)}, not ${JSON.stringify(agent)}. Use another session id.`,
  );
}

export function parentNotHead(sessionId: string, branch: string, parent: string): SavepointError {
  return new SavepointError(
    "CONFLICT",
    `${parent} is not the head of branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)}. Fork it, or save without \`parent\`.`,
  );
}

export function branchNotEmpty(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "CONFLICT",
    `Branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)} already has checkpoints, so a checkpoint with \`parent: null\` cannot be saved on it. Pass \`resetBranch: true\`, or save on another branch.`,
  );
}

export function sessionNotFound(sessionId: string): SavepointError<"SESSION_NOT_FOUND"> {
  return new SavepointError("SESSION_NOT_FOUND", `${describeSession(sessionId)} does not exist.`);
}

/** No session or agent of the store has this checkpoint. */
export function checkpointNotInStore(id: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${JSON.stringify(id)} does not exist in this store.`);
}

export function damagedHead(sessionId: string, branch: string, cause: SavepointError): SavepointError<"DAMAGED"> {
  const advice = "Load the newest intact state with latest() and save() it to continue the branch.";
  const name = describeBranch(sessionId, branch);
  return new SavepointError("DAMAGED", `${name} cannot be changed: ${cause.message} ${advice}`, { cause });
}
