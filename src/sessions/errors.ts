/** What the user of a session handle is told. */
import { SavepointError } from "../errors.js";
import { agentOfHistoryId, type CheckpointRef, MAIN, type OwnerRecord } from "../records/index.js";
import { pendingToolCalls } from "../messages/index.js";
import { describeProcess } from "../util/index.js";

export function checkpointNotFound(sessionId: string, ref: CheckpointRef): SavepointError {
  const name = typeof ref === "string" ? JSON.stringify(ref) : `with ${JSON.stringify(ref)}`;
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} has no checkpoint ${name}. history({ allBranches: true }) lists those it has.`,
  );
}

export function branchNotFound(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "BRANCH_NOT_FOUND",
    `Session ${JSON.stringify(sessionId)} has no branch ${JSON.stringify(branch)}. Make it with fork(checkpoint, { branch }).`,
  );
}

export function sessionDeleted(sessionId: string): SavepointError {
  return new SavepointError(
    "SESSION_DELETED",
    `Session ${JSON.stringify(sessionId)} was deleted. To start it afresh, open a new handle with sp.session().`,
  );
}

/** A run has the branch; whether it is still there has to be looked at. */
export class BranchHeldError extends SavepointError<"ALREADY_RUNNING"> {
  constructor(sessionId: string, branch: string) {
    super("ALREADY_RUNNING", `${describeBranch(sessionId, branch)} is being run.`);
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
    `${describeBranch(sessionId, branch)} is being run by ${describeProcess(owner.process)}; its lease lasts until ${until.toISOString()} unless it is renewed. Wait for it with sp.watch(), stop it with sp.cancel(), or work on a fork.`,
    { details: { sessionId, branch, owner: owner.process, until: owner.until } },
  );
}

export function describeBranch(sessionId: string, branch: string): string {
  const session = describeSession(sessionId);
  return branch === MAIN ? session : `${session}, branch ${JSON.stringify(branch)},`;
}

/** A session, or the agent that is stored as one. */
export function describeSession(sessionId: string): string {
  const agent = agentOfHistoryId(sessionId);
  return agent === undefined ? `Session ${JSON.stringify(sessionId)}` : `Agent ${JSON.stringify(agent)}`;
}

/** A model refuses a history in which tool calls are not answered. */
export function requireAnsweredToolCalls(sessionId: string, seq: number, state: unknown): void {
  const calls = pendingToolCalls(state);
  if (calls.length === 0) return;
  const ids = calls.map(({ id }) => id);
  throw new SavepointError(
    "UNANSWERED_TOOL_CALLS",
    `${sessionId}#${seq} is in the middle of a step, and in the state to go on with the tool calls ${ids.map((id) => JSON.stringify(id)).join(", ")} are not answered. Answer them in it or take them out; or fork without a state, and the step goes on by itself.`,
    { details: { sessionId, calls: ids } },
  );
}

export function stateWithResults(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "A branch starts with another state, or with other results, not both.");
}

export function agentMismatch(sessionId: string, owner: string, agent: string): SavepointError {
  return new SavepointError(
    "AGENT_MISMATCH",
    `Session ${JSON.stringify(sessionId)} belongs to agent ${JSON.stringify(owner)}, not ${JSON.stringify(agent)}. Use another session id.`,
  );
}

export function parentNotHead(sessionId: string, branch: string, parent: string): SavepointError {
  return new SavepointError(
    "CONFLICT",
    `${parent} is not the head of branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)}. Fork it, or save without naming a parent.`,
  );
}

export function branchNotEmpty(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "CONFLICT",
    `Branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)} has checkpoints already, and this one is to follow none. Save it with \`move\`, or on another branch.`,
  );
}

export function sessionNotFound(sessionId: string): SavepointError<"SESSION_NOT_FOUND"> {
  return new SavepointError("SESSION_NOT_FOUND", `There is no ${describeSession(sessionId)}.`);
}

export function checkpointNotInStore(id: string): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError("CHECKPOINT_NOT_FOUND", `There is no checkpoint ${JSON.stringify(id)} in this store.`);
}
