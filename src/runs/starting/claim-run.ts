/** Claiming a branch for `sp.run()`: to start a session, to start its next turn, or to resume it. */
import type { CheckpointRow } from "../../records/index.js";
import { SavepointError } from "../../errors.js";
import { describeBranch } from "../../sessions/index.js";
import { decideWorkStatus, readResult, type RunResult } from "../status/index.js";
import {
  type BranchWork,
  type Claim,
  claimBranch,
  finishCancel,
  hasPendingCancel,
  readOldestInput,
  type RunSnapshot,
} from "../claims/index.js";
import { hashText } from "../journal/index.js";
import { attemptClaim, findEndOfTurn, findTurn } from "./claim-attempts.js";
import type { RunRequest } from "./options.js";
import { startFirstTurn, startNextTurn } from "./turn.js";

/** A claimed branch; or the result of its run, if there is nothing to do; `undefined` if the session does not exist. */
export type ClaimOrResult = { readonly claim: Claim } | { readonly result: RunResult | undefined };

/** What is to be done for a request. */
type Phase =
  /** The branch has no checkpoint: an input starts it. */
  | { readonly kind: "unstarted" }
  /** Another input is not completed yet. */
  | { readonly kind: "input mismatch" }
  /** The key belongs to a turn that has ended: its result is returned. */
  | { readonly kind: "ended turn"; readonly turn: number }
  /** The last turn is completed, and the agent receives further inputs. @property isRepeated the key was used before */
  | { readonly kind: "between turns"; readonly isRepeated: boolean }
  /** The work has ended, and is not to be resumed. */
  | { readonly kind: "ended"; readonly status: "completed" | "failed" | "halted" }
  /** The run waits for an answer, or for a time in the future. */
  | { readonly kind: "waiting" }
  /** The run was cancelled, and its process has not halted it. */
  | { readonly kind: "cancelled" }
  /** The branch is claimed, and its work is resumed. */
  | { readonly kind: "resumable" };

/** Decides what is to be done. @param earlierTurn the turn that started with the key of the request, if one did */
function decidePhase(
  snapshot: RunSnapshot,
  request: RunRequest,
  earlierTurn: number | undefined,
  canReceive: boolean,
): Phase {
  const { heads, run, now } = snapshot;
  if (!heads.branch?.record.head) return { kind: "unstarted" };
  const { status, isCurrent } = decideWorkStatus(heads, run);
  const { held } = heads.branch.record;
  if (request.input !== undefined && run && (isCurrent || held) && earlierTurn === undefined) {
    const isOver = run.status === "completed" && !held;
    if (!isOver && run.input !== "" && run.input !== hashText(request.input)) return { kind: "input mismatch" };
  }
  const hasEnded = status === "completed" || status === "failed" || status === "halted";
  const isOver = status === "completed" || (hasEnded && !request.resume && run?.code === undefined);
  const turn = run?.turn ?? 0;
  if (earlierTurn !== undefined && (earlierTurn < turn || (earlierTurn === turn && isOver))) {
    return { kind: "ended turn", turn: earlierTurn };
  }
  if (status === "completed" && canReceive) return { kind: "between turns", isRepeated: earlierTurn !== undefined };
  if (hasEnded && isOver) return { kind: "ended", status };
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
        // An enqueued input comes first. The request may repeat it.
        const queued = await readOldestInput(work, snapshot);
        if (queued && input !== undefined && hashText(queued.input) !== hashText(input)) {
          throw inputMismatch(reader.sessionId, branch);
        }
        const first = queued ?? requested;
        return first ? toClaim(await startFirstTurn(work, snapshot, first)) : { result: undefined };
      }
      case "input mismatch":
        throw inputMismatch(reader.sessionId, branch);
      case "ended turn": {
        const row = await findEndOfTurn(reader, branch, number, head, phase.turn, key);
        const status = row.status === "failed" || row.status === "halted" ? row.status : "completed";
        return { result: await readResult(reader, number, branch, row, { status, reason: row.reason }) };
      }
      case "between turns": {
        const next = (await readOldestInput(work, snapshot)) ?? (phase.isRepeated ? undefined : requested);
        if (next) return toClaim(await startNextTurn(work, snapshot, head, next));
        const reason = run?.reason ?? head.reason;
        return { result: await readResult(reader, number, branch, head, { status: "completed", reason }) };
      }
      case "ended": {
        const fields = { status: phase.status, reason: run?.reason ?? head.reason };
        return { result: await readResult(reader, number, branch, head, fields) };
      }
      case "waiting": {
        const { questions = [], wakeAt } = run ?? {};
        return { result: await readResult(reader, number, branch, head, { status: "waiting", questions, wakeAt }) };
      }
      case "cancelled":
        await finishCancel(work);
        return undefined;
      case "resumable":
        return toClaim(await claimBranch(work, snapshot, request));
    }
  });
}

function toClaim(claim: Claim | undefined): { readonly claim: Claim } | undefined {
  return claim && { claim };
}

/** The error of an input while another one is not completed. */
export function inputMismatch(sessionId: string, branch: string): SavepointError<"INPUT_MISMATCH"> {
  return new SavepointError(
    "INPUT_MISMATCH",
    `${describeBranch(sessionId, branch)} has not completed another input yet. Run it with that input, queue this one with sp.send(), or use another session.`,
    { details: { sessionId, branch } },
  );
}
