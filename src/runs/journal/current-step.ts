/** The unfinished step of a branch: what is known of its effects besides their entries. */
import type { CheckpointRow, JournalRecord, Question } from "../../records/index.js";
import type { Heads } from "../../sessions/index.js";
import type { BranchStatus } from "../status/index.js";
import { idempotencyKey, type KeySeed } from "./idempotency-key.js";

/** The unfinished step of a branch. */
export interface CurrentStep {
  readonly seed: KeySeed;
  /** The seq of the checkpoint at which it started. */
  readonly boundary: number;
  readonly questions: readonly Question[];
}

/** Describes the unfinished step; `undefined` if the journal does not belong to the head, because the branch was moved. */
export function describeCurrentStep(
  sessionId: string,
  { session, branch }: Heads,
  journal: JournalRecord | undefined,
  status: BranchStatus | undefined,
): CurrentStep | undefined {
  const record = session?.record;
  if (!record || !journal || journal.number !== record.number || journal.head !== branch?.record.head?.seq) {
    return undefined;
  }
  const { createdAt, number } = record;
  const seed = { sessionId, createdAt, number, tape: branch.record.tape, origin: journal.origin };
  const questions = status?.status === "waiting" ? (status.run?.questions ?? []) : [];
  return { seed, boundary: journal.boundary, questions };
}

/** Whether the entries that a checkpoint lists belong to the step; without a checkpoint, they do. */
export function isOfStep({ boundary }: CurrentStep, row: CheckpointRow | undefined): boolean {
  return row === undefined || (row.run?.midStep === true && row.run.boundary === boundary);
}

/** The idempotency key of an effect of the step, and the question about it. */
export function describeInStep(
  step: CurrentStep | undefined,
  { index, callId, nth, hasKey }: { index: number; callId: string | undefined; nth: number; hasKey: boolean },
): { readonly idempotencyKey: string | undefined; readonly question: string | undefined } {
  return {
    idempotencyKey: step && hasKey ? idempotencyKey(step.seed, index, callId, nth) : undefined,
    // The id of a question contains the number of its effect.
    question: step?.questions.find(({ id }) => Number(id.slice(1)) === index)?.id,
  };
}
