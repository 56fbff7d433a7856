/** How a run ends or suspends: pure descriptions that are saved, emitted and returned. */
import type { Question, RunError, RunRecord, Usage } from "../../records/index.js";
import type { Completion } from "../agent/index.js";
import { STEP_ERROR } from "../status/index.js";
import type { RunCheckpoint } from "./run-saver.js";

/** The fields of a checkpoint that differ. The execution adds those that all checkpoints have. */
export type CheckpointFields = Omit<RunCheckpoint, "state" | "step" | "usage" | "worked" | "loop"> & {
  readonly usage?: Usage;
  /** The number of completed steps, if the checkpoint ends a step. */
  readonly steps?: number;
};

export interface RunEnd extends Pick<RunCheckpoint, "trigger" | "failures" | "isCancel" | "output"> {
  readonly status: "completed" | "failed" | "halted" | "waiting";
  readonly reason: string | undefined;
  readonly usage: Usage;
  readonly questions?: readonly Question[];
  readonly wakeAt?: number | undefined;
  /** The number of completed steps, if the run ends with its step. Otherwise the journal is kept. */
  readonly steps?: number;
  /** See {@link RunRecord.code}. */
  readonly code?: string;
  readonly error?: RunError;
}

/** The run waits for answers, or for a time. */
export function suspended(questions: readonly Question[], wakeAt: number | undefined, usage: Usage): RunEnd {
  const reason = questions[0]?.text ?? "asleep";
  const trigger = questions.length > 0 ? "ask" : "sleep";
  return { status: "waiting", trigger, reason, usage, questions, wakeAt };
}

/** The run is halted in the middle of a step, or before one. */
export function halted(reason: string, usage: Usage, more: Pick<RunCheckpoint, "failures" | "isCancel"> = {}): RunEnd {
  return { status: "halted", trigger: "halt", reason, usage, ...more };
}

/** The step's own code has thrown. The journal is kept, so that running the session again resumes the step. */
export function failedInStep(reason: string, usage: Usage, error: RunError): RunEnd {
  return { status: "failed", trigger: STEP_ERROR, reason, usage, failures: 0, code: "AGENT_FAILED", error };
}

/** All attempts of a step have failed. */
export function usedUp(reason: string, usage: Usage, error: RunError): RunEnd {
  return { ...halted(reason, usage, { failures: 0 }), error };
}

/** An external loop has failed. The journal is kept, so that its turn can be opened again. */
export function failedOpen({ reason = "" }: Completion<unknown>, usage: Usage): RunEnd {
  return { status: "failed", trigger: "end", reason, usage };
}

/** The step has returned a completion. */
export function completed(
  { status, reason, output }: Completion<unknown>,
  trigger: string,
  usage: Usage,
  steps: number,
): RunEnd {
  return { status, trigger, reason, usage, steps, ...(status === "completed" && { output: { value: output } }) };
}

/** The changes to the record of a run that ends. */
export function toRunChange({ status, reason, code, error }: RunEnd): Partial<RunRecord> {
  return { status, reason, code, error };
}

/** The checkpoint that ends or suspends a run, and releases its branch. */
export function toCheckpointFields({ steps, questions = [], wakeAt, ...end }: RunEnd): CheckpointFields {
  const { status, reason } = end;
  const isWaiting = status === "waiting";
  return {
    ...end,
    midStep: steps === undefined,
    ...(steps !== undefined && { steps }),
    shown: true,
    held: false,
    run: isWaiting ? { status, reason, questions, wakeAt } : toRunChange(end),
    ...(isWaiting && { runAt: wakeAt ?? null }),
  };
}
