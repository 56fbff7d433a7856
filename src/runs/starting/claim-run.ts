/** Claiming a branch for `sp.run()`: to start a session, to start its next turn, or to resume it. */
import type { CheckpointRow } from "../../records/index.js";
import { SavepointError } from "../../errors.js";
import { describeBranch } from "../../sessions/index.js";
import { decideWorkStatus, readResult, type RunResult } from "../status/index.js";
import {
  type BranchWork,
  claimBranch,
  type ClaimedBranch,
  finishCancel,
  hasPendingCancel,
  readOldestInput,
  type RunSnapshot,
} from "../claims/index.js";
import { hashText } from "../journal/index.js";
import { attemptClaim, findEndOfTurn, findTurn } from "./claim-attempts.js";
import type { RunRequest } from "./options.js";
import { startFirstTurn, startNextTurn } from "./turn.js";

/**
 * The outcome of a request: the claimed branch, or the result of its run if there is nothing to do. The result is
 * `undefined` if the session does not exist.
 */
export type ClaimOrResult = ClaimedBranch | { readonly result: RunResult | undefined };

/** The situation that a request finds its branch in. It determines how {@link claimRun} proceeds. */
type Phase =
  /** The branch has no checkpoint, so an input starts its first turn. */
  | { readonly kind: "unstarted" }
  /**
   * The request has an input, and the branch has another one.
   * @property isCompleted whether that is completed, so that no other input can follow: the agent receives none
   */
  | { readonly kind: "input mismatch"; readonly isCompleted: boolean }
  /** The key of the request belongs to a turn that has ended, so the result of that turn is returned. */
  | { readonly kind: "ended turn"; readonly turn: number }
  /**
   * The last turn is completed, and the agent receives further inputs.
   * @property isRepeated whether a turn has already started with the key of the request
   */
  | { readonly kind: "between turns"; readonly isRepeated: boolean }
  /** The work has ended, and the request does not resume it. */
  | { readonly kind: "ended"; readonly status: "completed" | "failed" | "halted" }
  /** The run waits for an answer, or for a time in the future. */
  | { readonly kind: "waiting" }
  /** A cancel was requested, and the process of the run has not halted the run. */
  | { readonly kind: "cancelled" }
  /** None of the above: the branch can be claimed and its work resumed. */
  | { readonly kind: "resumable" };

/**
 * Decides the phase of a branch for a request.
 *
 * @param earlierTurn the turn that started with the key of the request, if there is one
 * @param canReceive whether the agent receives further inputs after its first turn
 */
function decidePhase(
  snapshot: RunSnapshot,
  request: RunRequest,
  earlierTurn: number | undefined,
  canReceive: boolean,
): Phase {
  const { heads, run, now } = snapshot;
  if (!heads.branch?.record.head) return { kind: "unstarted" };
  const { status, isCurrent, isCodeError } = decideWorkStatus(heads, run);
  const { held } = heads.branch.record;
  if (request.input !== undefined && run && (isCurrent || held) && earlierTurn === undefined) {
    const isCompleted = run.status === "completed" && !held;
    // `run.input` is the hash of the input of the current turn, or "" if a request without an input started the run, for
    // example on a fork. The input of such a run is not compared.
    const isOther = run.input !== "" && run.input !== hashText(request.input);
    if (isOther && !(isCompleted && canReceive)) return { kind: "input mismatch", isCompleted };
  }
  const hasEnded = status === "completed" || status === "failed" || status === "halted";
  // A run that an error of the agent's code has ended is resumed even without `resume`, because the code may have been fixed
  // since; but not by a worker or `sp.recover()`, which would repeat the error for ever.
  const isRetried = isCodeError && !request.isAutomatic;
  const staysEnded = status === "completed" || (hasEnded && !request.resume && !isRetried);
  const turn = run?.turn ?? 0;
  if (earlierTurn !== undefined && (earlierTurn < turn || (earlierTurn === turn && staysEnded))) {
    return { kind: "ended turn", turn: earlierTurn };
  }
  if (status === "completed" && canReceive) return { kind: "between turns", isRepeated: earlierTurn !== undefined };
  if (hasEnded && staysEnded) return { kind: "ended", status };
  const mustWait = run?.wakeAt === undefined || run.wakeAt > now;
  if (status === "waiting" && !request.restartStep && mustWait) return { kind: "waiting" };
  return hasPendingCancel(snapshot) ? { kind: "cancelled" } : { kind: "resumable" };
}

/** Claims the branch of a request, or reads the result of its run if there is nothing to do. */
export async function claimRun(work: BranchWork, request: RunRequest): Promise<ClaimOrResult> {
  const { agent, reader, branch } = work;
  const { input, key } = request;
  return attemptClaim(work, async (snapshot): Promise<ClaimOrResult | undefined> => {
    const { run, heads } = snapshot;
    const head = heads.branch?.record.head as CheckpointRow;
    const number = heads.session?.record.number as number;
    const earlierTurn = head && (await findTurn(reader, branch, key, snapshot));
    const phase = decidePhase(snapshot, request, earlierTurn, agent.definition.receive !== undefined);
    const requested = input === undefined ? undefined : { input, key };
    switch (phase.kind) {
      case "unstarted": {
        // An input in the inbox is older than the request, so it starts the first turn. The request may have the same input.
        const queued = await readOldestInput(work, snapshot);
        if (queued && input !== undefined && hashText(queued.input) !== hashText(input)) {
          throw inputMismatch(reader.sessionId, branch);
        }
        const first = queued ?? requested;
        return first ? await startFirstTurn(work, snapshot, first) : { result: undefined };
      }
      case "input mismatch":
        throw phase.isCompleted
          ? inputAfterCompletion(reader.sessionId, branch, agent.name)
          : inputMismatch(reader.sessionId, branch);
      case "ended turn": {
        const row = await findEndOfTurn(reader, branch, number, head, phase.turn, key);
        const status = row.status === "failed" || row.status === "halted" ? row.status : "completed";
        const error = run?.turn === phase.turn ? run.error : undefined;
        return { result: await readResult(reader, number, branch, row, { status, reason: row.reason, error }) };
      }
      case "between turns": {
        const next = (await readOldestInput(work, snapshot)) ?? (phase.isRepeated ? undefined : requested);
        if (next) return await startNextTurn(work, snapshot, head, next);
        const reason = run?.reason ?? head.reason;
        return { result: await readResult(reader, number, branch, head, { status: "completed", reason }) };
      }
      case "ended": {
        const { isCurrent, isCodeError } = decideWorkStatus(heads, run);
        const reason = run?.reason ?? head.reason;
        const fields = { status: phase.status, reason, error: isCurrent ? run?.error : undefined };
        return { result: await readResult(reader, number, branch, head, { ...fields, needsResume: !isCodeError }) };
      }
      case "waiting": {
        const { questions = [], wakeAt } = run ?? {};
        return { result: await readResult(reader, number, branch, head, { status: "waiting", questions, wakeAt }) };
      }
      case "cancelled":
        await finishCancel(work);
        return undefined;
      case "resumable":
        return await claimBranch(work, snapshot, request);
    }
  });
}

/** The error of a request whose input differs from the input that its branch has not completed yet. */
export function inputMismatch(sessionId: string, branch: string): SavepointError<"INPUT_MISMATCH"> {
  return new SavepointError(
    "INPUT_MISMATCH",
    `${describeBranch(sessionId, branch)} has not completed another input yet. Run it with that input, queue this one with sp.send(), or use another session.`,
    { details: { sessionId, branch } },
  );
}

/** The error of a request with another input than the one that its branch has completed. */
function inputAfterCompletion(sessionId: string, branch: string, agent: string): SavepointError<"INPUT_MISMATCH"> {
  return new SavepointError(
    "INPUT_MISMATCH",
    `${describeBranch(sessionId, branch)} has completed with a different input, and agent ${JSON.stringify(agent)} accepts one input per session because it has no "receive". Use another session id for this input, or leave the input out to get the recorded result.`,
    { details: { sessionId, branch } },
  );
}
