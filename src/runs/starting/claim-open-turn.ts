/** Claiming a branch for `sp.openRun()`: to start a turn, to resume the unfinished one, or to find one that has ended. */
import { SavepointError } from "../../errors.js";
import type { CheckpointRow } from "../../records/index.js";
import { describeBranch } from "../../sessions/index.js";
import { decideWorkStatus } from "../status/index.js";
import {
  type BranchWork,
  claimBranch,
  type ClaimedBranch,
  finishCancel,
  hasPendingCancel,
  readBoundary,
  type RunSnapshot,
} from "../claims/index.js";
import { attemptClaim, findEndOfTurn, findTurn } from "./claim-attempts.js";
import type { OpenRequest } from "./options.js";
import { startFirstTurn, startNextTurn } from "./turn.js";

/** A claimed branch; or the checkpoint that ended the requested turn. */
export type OpenTurnResult = ClaimedBranch | { readonly finished: CheckpointRow; readonly number: number };

/** What is to be done for a request. */
type Phase =
  /** The branch has no checkpoint. */
  | { readonly kind: "unstarted" }
  /** The requested turn has ended. */
  | { readonly kind: "ended turn"; readonly turn: number }
  /** The run was cancelled, and its process has not halted it. */
  | { readonly kind: "cancelled" }
  /** A new turn starts with the state of the head. */
  | { readonly kind: "next turn" }
  /** A new turn starts with the state at the start of the unfinished turn, which is abandoned. */
  | { readonly kind: "abandon turn" }
  /** Another turn is unfinished. */
  | { readonly kind: "unfinished turn" }
  /** The unfinished turn is resumed. */
  | { readonly kind: "resumable" };

/** Decides what is to be done. @param earlierTurn the turn with the name of the request, if there was one */
function decidePhase(snapshot: RunSnapshot, { key, abandon }: OpenRequest, earlierTurn: number | undefined): Phase {
  const { heads, run } = snapshot;
  const head = heads.branch?.record.head;
  if (!head) return { kind: "unstarted" };
  const { status } = decideWorkStatus(heads, run);
  const current = run?.turn ?? head.run?.turn ?? 0;
  if (earlierTurn !== undefined && (earlierTurn < current || status === "completed")) {
    return { kind: "ended turn", turn: earlierTurn };
  }
  if (hasPendingCancel(snapshot)) return { kind: "cancelled" };
  if (status === "completed") return { kind: "next turn" };
  // The turn of a forked branch has no name yet, so every name resumes it.
  const isSame = key === undefined || earlierTurn === current || !run;
  const isNew = key === undefined || !isSame;
  if (status === "failed" && isNew) return { kind: "next turn" };
  if (abandon && isNew) return { kind: "abandon turn" };
  return isSame ? { kind: "resumable" } : { kind: "unfinished turn" };
}

/** Claims the branch for a turn, or finds the checkpoint that ended it. */
export async function claimOpenTurn(work: BranchWork, request: OpenRequest): Promise<OpenTurnResult> {
  const { reader, branch } = work;
  const { input, key } = request;
  return attemptClaim(work, async (snapshot): Promise<OpenTurnResult | undefined> => {
    const { heads, run } = snapshot;
    const head = heads.branch?.record.head as CheckpointRow;
    const number = heads.session?.record.number as number;
    const earlierTurn = head && (await findTurn(reader, branch, key, snapshot));
    const phase = decidePhase(snapshot, request, earlierTurn);
    switch (phase.kind) {
      case "unstarted":
        return await startFirstTurn(work, snapshot, { input, key });
      case "ended turn":
        return { finished: await findEndOfTurn(reader, branch, number, head, phase.turn, key), number };
      case "cancelled":
        await finishCancel(work);
        return undefined;
      case "next turn":
        return await startNextTurn(work, snapshot, head, { input, key });
      case "abandon turn": {
        const boundary = await readBoundary(reader, number, boundaryOfTurn(snapshot, head), head);
        return await startNextTurn(work, snapshot, boundary, { input, key });
      }
      case "unfinished turn":
        throw unfinishedTurn(reader.sessionId, branch, run?.key, key);
      case "resumable":
        return await claimBranch(work, snapshot, request);
    }
  });
}

/** The checkpoint at which the unfinished turn started. */
function boundaryOfTurn({ journal }: RunSnapshot, head: CheckpointRow): number {
  return journal?.head === head.seq ? journal.boundary : (head.run?.boundary ?? head.seq);
}

function unfinishedTurn(
  sessionId: string,
  branch: string,
  current: string | undefined,
  wanted: string | undefined,
): SavepointError {
  const which = current === undefined ? "a turn without a name" : `turn ${JSON.stringify(current)}`;
  return new SavepointError(
    "UNFINISHED_TURN",
    `${describeBranch(sessionId, branch)} has not finished ${which}, so turn ${JSON.stringify(wanted)} cannot start. Open the unfinished turn and complete it, or abandon it with { abandon: true }.`,
    { details: { sessionId, branch, unfinished: current, wanted } },
  );
}
