/** Results of runs: the value that `sp.run()` and `RunHandle.result()` resolve with. */
import type { CheckpointStatus, Question, CheckpointRow, RunError, Usage } from "../../records/index.js";
import { loadShadow, type SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { decodeState, shadowToValue } from "../../state/index.js";

interface Common<State> {
  readonly session: string;
  readonly branch: string;
  /** The state. The caller may change it; it is not shared with the run. */
  readonly state: State;
  /** The usage of the session so far. */
  readonly usage: Required<Usage>;
  /** The number of completed steps of the session. */
  readonly steps: number;
}

interface Absent {
  readonly output?: undefined;
  readonly reason?: undefined;
  readonly error?: undefined;
  readonly needsResume?: undefined;
  readonly question?: undefined;
  readonly questions?: undefined;
  readonly wakeAt?: undefined;
}

/** The result of a run that returned `run.complete(output)`. */
export interface CompletedRun<State, Output> extends Common<State>, Omit<Absent, "output"> {
  readonly status: "completed";
  readonly output: Output;
}

/**
 * The result of a run that failed or was halted.
 *
 * If the agent's own code has thrown, running the session again resumes it where it failed, so a fixed agent continues. In all
 * other cases (a limit, `run.fail()`, `run.halt()`, a cancel, attempts that are used up, a quarantine) running it again returns
 * this same result, until `{ resume: true }` is passed. `needsResume` tells the two apart.
 */
export interface EndedRun<State> extends Common<State>, Omit<Absent, "reason" | "error" | "needsResume"> {
  readonly status: "failed" | "halted";
  /** Why, in one line for people. */
  readonly reason: string;
  /** The error that ended it; `undefined` if no error did. */
  readonly error: RunError | undefined;
  /** Whether only `{ resume: true }` resumes it. If `false`, running it again does. */
  readonly needsResume: boolean;
}

/** The result of a run that waits for an answer or a time. It holds no lease. */
export interface WaitingRun<State> extends Common<State>, Omit<Absent, "question" | "questions" | "wakeAt"> {
  readonly status: "waiting";
  /** The first of `questions`. */
  readonly question: Question | undefined;
  /** The questions that `sp.answer()` has to answer. */
  readonly questions: readonly Question[];
  /** When the run can be resumed without an answer, in milliseconds since 1970. */
  readonly wakeAt: number | undefined;
}

/** The result of a run that has ended or waits. Distinguish the cases by `status`. */
export type RunResult<State = unknown, Output = unknown> =
  | CompletedRun<State, Output>
  | EndedRun<State>
  | WaitingRun<State>;

/** The fields of a result besides the state. */
export interface ResultFields {
  readonly status: Exclude<CheckpointStatus, "open" | "queued" | "running">;
  readonly reason?: string | undefined;
  readonly error?: RunError | undefined;
  /** @default true */
  readonly needsResume?: boolean;
  readonly output?: unknown;
  readonly questions?: readonly Question[];
  readonly wakeAt?: number | undefined;
  readonly usage: Usage | undefined;
  readonly steps: number;
}

/** Builds the result for its status. */
export function toResult(session: string, branch: string, state: unknown, fields: ResultFields): RunResult {
  const { status, reason, error, needsResume = true, output, questions = [], wakeAt, usage, steps } = fields;
  const common = { session, branch, state, usage: { tokens: usage?.tokens ?? 0, cost: usage?.cost ?? 0 }, steps };
  switch (status) {
    case "completed":
      return { ...common, status, output };
    case "waiting":
      return { ...common, status, question: questions[0], questions, wakeAt };
    case "failed":
    case "halted":
      return { ...common, status, reason: reason ?? "", error, needsResume };
  }
}

/** Reads the result of a run from the checkpoint that ended or suspended it. */
export async function readResult(
  reader: SessionReader,
  number: number,
  branch: string,
  row: CheckpointRow,
  fields: Omit<ResultFields, "usage" | "steps" | "output">,
): Promise<RunResult> {
  const { registry } = reader.context;
  const state = shadowToValue(await loadShadow(reader, number, row), registry);
  const output = fields.status === "completed" ? await readOutput(reader, number, row) : undefined;
  const steps = row.run?.midStep ? row.step - 1 : row.step;
  return toResult(reader.sessionId, branch, state, { ...fields, output, usage: row.usage, steps });
}

async function readOutput(reader: SessionReader, number: number, row: CheckpointRow): Promise<unknown> {
  const piece = row.run?.output;
  if (!piece) return undefined;
  const state = reader.stateReader(number);
  const [frame] = await state.items([piece]);
  if (!frame || !("json" in frame)) {
    throw new SavepointError(
      "DAMAGED",
      `The output of session ${JSON.stringify(reader.sessionId)} is damaged: ${frame?.unreadable ?? "it is missing"}. Its state is intact: read it with session.latest().`,
    );
  }
  return shadowToValue(await decodeState(frame, piece.tape, state), reader.context.registry);
}
