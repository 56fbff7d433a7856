/**
 * The execution of a run in this process: one step after another, until the run ends, waits, or has to stop.
 *
 * Every step ends with a checkpoint, whether or not it stays in the history. The same commit starts a new journal, so the
 * entries of a journal always belong to the step after its boundary checkpoint.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import type { BranchCursor, Cursors, SessionReader } from "../../sessions/index.js";
import type {
  CheckpointRow,
  CheckpointStatus,
  JournalRecord,
  RunError,
  RunRecord,
  Usage,
} from "../../records/index.js";
import type { RunErrorEvent, RunEventBody } from "../../events/index.js";
import { shadowToValue } from "../../state/index.js";
import { type Agent, type LoopDetector, pause, retryDelay, shouldCheckpoint } from "../agent/index.js";
import { migrateAgentState } from "../starting/index.js";
import {
  cancelledRun,
  type Claim,
  type ClaimedBranch,
  loadStepStart,
  type Release,
  releaseBranch,
  type StepStart,
} from "../claims/index.js";
import { CancelledError, Journal, type JournalOperation, leaseLost } from "../journal/index.js";
import type { Leases } from "../leases/index.js";
import { type ResultFields, type RunResult, toResult } from "../status/index.js";
import { StreamHub, streamKey, StreamRecorder } from "../streams/index.js";
import {
  type CheckpointFields,
  completed,
  failedInStep,
  failedOpen,
  halted,
  type RunEnd,
  suspended,
  toCheckpointFields,
  toRunChange,
  usedUp,
} from "./run-end.js";
import { toReasonLine, toRunError } from "./run-error.js";
import { reachedStepLimit, reachedUsageLimit } from "./run-limits.js";
import { type RunCheckpoint, RunSaver } from "./run-saver.js";
import { RunStop } from "./run-stop.js";
import { Step } from "./step.js";
import { StepRun } from "./step-run.js";
import { currentScope } from "./step-scope.js";
import type { StepHost } from "./step-types.js";

/** How long a run that stops waits for its effects in flight, in milliseconds. */
const EFFECT_GRACE = 5000;

/** Errors that the agent causes. They halt the run; running it again tries again. */
const AGENT_ERRORS = ["NONDETERMINISM", "INVALID_STATE", "AGENT_FAILED", "AGENT_TOO_OLD"] as const;

export interface ExecutionHost {
  readonly cursors: Cursors;
  readonly leases: Leases;
  /** Whether a worker executes the runs. Their journals name its process. */
  readonly isWorker: boolean;
  emit(sessionId: string, branch: string, event: RunEventBody): void;
  /** Emits the error that has ended a run. */
  emitError(event: RunErrorEvent): void;
}

export class Execution {
  readonly branch: string;
  readonly agent: Agent;
  /** Resolves when the run has ended or waits. Rejects with errors of Savepoint. */
  readonly finished: Promise<RunResult>;
  readonly #host: ExecutionHost;
  readonly #reader: SessionReader;
  readonly #cursor: BranchCursor;
  readonly #claim: Claim;
  /** What the first step starts with, until it has started. */
  #start: StepStart | undefined;
  readonly #journal: Journal;
  readonly #recorder: StreamRecorder;
  readonly #leaveStream: () => void;
  readonly #saver: RunSaver;
  readonly #stop = new RunStop();
  readonly #detector: LoopDetector | undefined;
  readonly #startedAt = performance.now();
  /** The number of completed steps. */
  #steps: number;
  /** The usage of the session at the last boundary. */
  #usage: Usage | undefined;
  /** The usage of the session at the end of the last attempt of a step. */
  #attemptUsage: Usage | undefined;
  /** The effects that failed in the last attempt of the current step. */
  #failedBefore: readonly number[] = [];
  #state: unknown;
  #step: Step | undefined;
  /** The number of steps that an external loop had completed when it ended. */
  #openSteps = 0;
  #isDraining = false;
  /** Whether the state of the current step has been loaded. */
  #isLoaded = false;

  constructor(
    host: ExecutionHost,
    reader: SessionReader,
    branch: string,
    agent: Agent,
    { claim, start }: ClaimedBranch,
  ) {
    this.#host = host;
    this.#reader = reader;
    this.branch = branch;
    this.agent = agent;
    this.#claim = claim;
    this.#start = start;
    this.#cursor = host.cursors.get(reader, branch);
    this.#detector = agent.definition.createDetector();
    this.#steps = claim.boundary.step;
    this.#usage = claim.boundary.usage;
    this.#recorder = new StreamRecorder(reader.context, claim.journal);
    this.#journal = new Journal(reader, branch, claim, host.leases, {
      isWorker: host.isWorker,
      recorder: this.#recorder,
      onResults: (results) => this.#saver.addResults(results),
      onFailure: (error) => this.#requestStop(error),
    });
    this.#leaveStream = StreamHub.of(reader.context).addWriter(streamKey(reader.sessionId, branch));
    this.#saver = new RunSaver(reader, branch, agent, claim, this.#journal, this.#cursor);
    this.finished = this.#runSteps()
      .catch((error: Error) => this.#fail(error))
      .finally(() => this.#closeStream())
      .finally(() => host.cursors.enforceBudget(this.#cursor));
  }

  get run(): RunRecord {
    return this.#saver.run;
  }

  /** Ends the recording of deltas, and frees those of a turn that has ended. */
  #closeStream(): void {
    this.#recorder.close();
    this.#leaveStream();
    const { record } = this.#journal;
    const { sessionId, context } = this.#reader;
    if (record.stream?.isEnded) StreamHub.of(context).freeLater(streamKey(sessionId, this.branch), record);
  }

  /** Stops the run if the stored record of its journal shows a cancel or another owner. */
  checkRecord(record: JournalRecord | undefined): void {
    const lost = this.#journal.ownershipError(record);
    if (lost) this.#requestStop(lost);
    else if (record?.cancelReason !== undefined) this.#requestStop(new CancelledError(record.cancelReason));
  }

  /** Cancels the run. Resolves when the run has ended; with `false` if it ended before the cancel. */
  async cancel(reason: string): Promise<boolean> {
    // An error of the journal ends the run with that error; its status is then in the store.
    const isCancelled = await this.#journal.cancel(reason).catch(() => false);
    await this.finished.catch(() => {});
    return isCancelled;
  }

  /** Starts no further effect, waits for those in flight, and releases the branch for other processes. */
  async close(): Promise<void> {
    this.#requestStop(this.#closedError());
    await this.finished.catch(() => {});
  }

  /** Finishes the current step, and releases the branch for other processes. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    await this.finished.catch(() => {});
  }

  /** Aborts the effects in flight, and releases the branch, so that this process can claim it again too. */
  async release(): Promise<void> {
    const message = `The run of session ${JSON.stringify(this.#reader.sessionId)} was released. Open it again to resume it.`;
    this.#requestStop(new SavepointError("RUN_ENDED", message));
    await this.finished.catch(() => {});
  }

  #emit(event: RunEventBody): void {
    this.#host.emit(this.#reader.sessionId, this.branch, event);
  }

  #closedError(): SavepointError {
    const message = `The store was closed, or the worker stopped, while session ${JSON.stringify(this.#reader.sessionId)} was running. A worker, sp.run() or sp.recover() resumes it.`;
    return new SavepointError("CLOSED", message);
  }

  #requestStop(error: Error): void {
    this.#stop.request(error);
    this.#step?.stop(error);
  }

  async #runSteps(): Promise<RunResult> {
    const { definition } = this.agent;
    let { state, entries } = await this.#load();
    this.#emit({ type: "started", resumed: entries.length > 0 || this.#steps > 0, turn: this.run.turn });
    for (;;) {
      if (this.#stop.error) throw this.#stop.error;
      if (this.#isDraining) throw this.#closedError();
      this.#state = state;
      const usage = { tokens: this.#usage?.tokens ?? 0, cost: this.#usage?.cost ?? 0 };
      const reason = this.#overLimit(usage) ?? this.#overStepLimit();
      if (reason !== undefined) return await this.#endWith(halted(reason, this.#usage ?? {}));
      const host = this.#stepHost();
      const step = new Step(host, state, entries);
      this.#step = step;
      const scope = { session: this.#reader.sessionId, branch: this.branch };
      const end = await step.execute(() => currentScope.run(scope, () => definition.step(new StepRun(step, host))));
      this.#state = step.state;
      this.#attemptUsage = step.usage;
      if (end.kind === "fatal") return await this.#stopIn(step, end.error);
      if (step.isBusy) await Promise.race([step.settled(), this.#stop.requested]);
      if (this.#stop.error) return await this.#stopIn(step, this.#stop.error);
      this.#step = undefined;
      this.#openSteps = step.stepsDone;
      if (end.kind === "halted") return await this.#endWith(halted(end.reason, step.usage));
      if (end.kind === "suspended") return await this.#endWith(suspended(end.questions, end.wakeAt, step.usage));
      // An external loop decides itself whether to try again.
      if (end.kind === "threw" && definition.open) return await this.#stopIn(step, end.error as Error);
      if (end.kind === "threw") {
        const { error, failed, isOwn, unstored } = end;
        // The effect has happened, but its result is lost. When the run is resumed, the policy of the effect decides.
        if (unstored) this.#journal.add({ op: "start", index: unstored.index, started: unstored.started });
        for (const index of failed) this.#journal.add({ op: "again", index });
        if (isOwn) return await this.#endWithError(failedInStep, toReasonLine(error), error);
        const giveUp = await this.#retryStep(error, failed);
        if (giveUp !== undefined) return await this.#endWithError(usedUp, giveUp, error);
        ({ state, entries } = await this.#load());
        continue;
      }
      this.#usage = step.usage;
      if (end.completion?.status === "failed" && definition.open) {
        return await this.#endWith(failedOpen(end.completion, step.usage));
      }
      const steps = this.#steps + step.stepsDone + 1;
      // A model that waits between its replies is not in a loop.
      if (step.hasWaited) this.#detector?.reset();
      const { pendingTrigger } = step.results;
      if (end.completion) {
        return await this.#endWith(completed(end.completion, pendingTrigger ?? "end", step.usage, steps));
      }
      const trigger = pendingTrigger ?? "step";
      const shown = pendingTrigger !== undefined || shouldCheckpoint(definition.strategy, "iteration", steps);
      await this.#save({ status: "running", trigger, midStep: false, steps, shown, held: true });
      this.#emit({ type: "step", step: this.#steps });
      [state, entries] = [this.#state, []];
    }
  }

  #stepHost(): StepHost {
    const { number, createdAt, tape } = this.#claim;
    const { sessionId, context } = this.#reader;
    return {
      context,
      definition: this.agent.definition,
      session: sessionId,
      branch: this.branch,
      step: this.#steps + 1,
      turn: this.run.turn,
      journal: this.#journal,
      recorder: this.#recorder,
      signal: this.#stop.effectSignal,
      detector: this.#detector,
      usage: this.#usage,
      keySeed: { sessionId, createdAt, number, tape, origin: this.#journal.record.origin },
      overLimit: (usage) => this.#overLimit(usage),
      checkpoint: (trigger, entries) => this.#checkpoint(trigger, entries),
      checkpointWithNext: (trigger) => this.#checkpointWithNext(trigger),
      emit: (event) => this.#emit(event),
    };
  }

  /** Loads the state at the start of the current step, and the entries of its journal. */
  async #load(): Promise<{ state: unknown; entries: readonly JournalOperation[] }> {
    const { number } = this.#claim;
    const { record } = this.#journal;
    const reader = this.#reader;
    const start = this.#start;
    this.#start = undefined;
    this.#isLoaded = false;
    try {
      const row = await this.#readBoundary();
      const { shadow, entries, results } = start ?? (await loadStepStart(reader, this.#cursor, number, row, record));
      const state = shadowToValue(shadow, reader.context.registry);
      // The next save is compared with this state.
      this.#cursor.keepShadow(row, shadow);
      this.#saver.clearResults();
      this.#saver.addResults(results);
      this.#detector?.load(record.loop);
      const recorded = entries.filter(({ op }) => op === "end").map(({ index }) => index);
      this.#recorder.resume(this.#steps + 1, new Set(recorded));
      const migrated = await migrateAgentState(this.agent, reader.sessionId, state, row.version);
      this.#isLoaded = true;
      return { state: migrated, entries };
    } catch (error) {
      // Missing data may have been deleted with its session: then that is the error to report.
      await this.#journal.refresh();
      throw error;
    }
  }

  /** Reads the checkpoint at which the current step started. Throws `LEASE_LOST` if it is missing. */
  async #readBoundary(): Promise<CheckpointRow> {
    const { boundary, number } = this.#claim;
    const seq = this.#journal.record.boundary;
    if (boundary.seq === seq) return boundary;
    const head = (await this.#reader.heads(this.branch)).branch?.record.head;
    const row = head?.seq === seq ? head : await this.#reader.row(number, seq);
    if (!row || "unreadable" in row) throw leaseLost(this.#reader.sessionId, this.branch);
    return row;
  }

  #overLimit(usage: Required<Usage>): string | undefined {
    return reachedUsageLimit(this.agent.definition.limits, usage, this.#worked());
  }

  #overStepLimit(): string | undefined {
    return reachedStepLimit(this.agent.definition.limits, this.#steps, this.#steps - (this.run.stepsBefore ?? 0));
  }

  /** Milliseconds of work so far, over all restarts. */
  #worked(): number {
    return this.#claim.journal.worked + performance.now() - this.#startedAt;
  }

  /**
   * Waits before a step that has thrown is tried again. Returns the reason to halt if its attempts are used up.
   *
   * If the failed effects are not those of the previous attempt, the earlier ones have a result now and are not executed again.
   * The step has made progress, so its attempts are counted from the beginning.
   *
   * @param failed the effects that failed in this attempt
   */
  async #retryStep(error: unknown, failed: readonly number[]): Promise<string | undefined> {
    const { retry } = this.agent.definition;
    const before = this.#failedBefore;
    this.#failedBefore = failed;
    const hasProgressed = failed.length > 0 && before.length > 0 && !failed.some((index) => before.includes(index));
    const failures = hasProgressed ? 1 : this.#journal.record.failures + 1;
    const reason = toReasonLine(error);
    if (failures >= retry.attempts) {
      return `${failures} attempts in a row have failed, the last one with ${reason} (to try again, run it with { resume: true })`;
    }
    await this.#journal.writeChange({ failures, worked: this.#worked() });
    const wait = retryDelay(failures, retry, error);
    const { attempts } = retry;
    const name = `step ${this.#steps + 1}`;
    this.#emit({ type: "retry", kind: "step", name, attempt: failures, attempts, delay: wait, reason });
    await pause(wait, this.#stop.pauseSignal);
    return undefined;
  }

  /** Saves the checkpoint that ends or suspends the run and releases its branch, and emits the new status. */
  async #endWith(end: RunEnd): Promise<RunResult> {
    await this.#save(toCheckpointFields(end));
    if (end.steps !== undefined) this.#emit({ type: "step", step: this.#steps });
    return this.#ended(end);
  }

  /** Emits the new status of the run, and returns its result. */
  #ended(end: RunEnd): RunResult {
    const { status, reason, questions = [], wakeAt, output, usage, error, code } = end;
    this.#emit({ type: "status", status, reason, question: questions[0], wakeAt });
    return this.#result({ status, reason, questions, wakeAt, output: output?.value, usage, error, code });
  }

  /** Ends the run because its step has thrown, and emits the error. */
  async #endWithError(
    toEnd: (reason: string, usage: Usage, error: RunError) => RunEnd,
    reason: string,
    thrown: unknown,
  ): Promise<RunResult> {
    const end = toEnd(reason, this.#attemptUsage ?? {}, toRunError(thrown));
    const result = await this.#endWith(end).catch((error: unknown) => {
      if (!isSavepointError(error, "INVALID_STATE")) throw error;
      // The step has put a value into its state that cannot be stored, and then thrown. What it threw matters more.
      return this.#endWithoutCheckpoint(end);
    });
    return this.#reported(result, thrown);
  }

  /** Emits the error that has ended the run, unless the run was cancelled. */
  #reported(result: RunResult, thrown: unknown): RunResult {
    const { sessionId } = this.#reader;
    if (result.status === "failed" || (result.status === "halted" && result.error)) {
      const { status, reason } = result;
      this.#host.emitError({ sessionId, branch: this.branch, step: this.#steps + 1, status, reason, error: thrown });
    }
    return result;
  }

  /** Ends the run with its last checkpoint, and the journal since then. */
  async #endWithoutCheckpoint(end: RunEnd): Promise<RunResult> {
    // A run that is resumed has all its attempts again.
    await this.#journal.writeChange({ failures: 0, worked: this.#worked() });
    this.#journal.close(this.#closedError());
    const { owner } = this.#host.leases;
    const released = await releaseBranch(this.#reader, this.branch, { self: () => owner, change: toRunChange(end) });
    this.#cursor.invalidate();
    if (!released) throw leaseLost(this.#reader.sessionId, this.branch);
    return this.#ended(released.cancelled === undefined ? end : halted(released.cancelled, end.usage));
  }

  #result(fields: Omit<ResultFields, "steps" | "needsResume"> & { readonly code?: string | undefined }): RunResult {
    return toResult(this.#reader.sessionId, this.branch, this.#state, {
      ...fields,
      // An external loop is resumed by opening its turn again.
      needsResume: fields.code === undefined && !this.agent.definition.open,
      steps: this.#steps + (fields.status === "completed" ? 0 : this.#openSteps),
    });
  }

  /** Saves a checkpoint in the middle of a step. See {@link StepHost.checkpoint}. */
  async #checkpoint(trigger: string, entries: number): Promise<boolean> {
    this.#state = this.#step?.state ?? this.#state;
    const isPast = entries < this.#journal.added - this.#journal.pendingCount;
    if (isPast || this.#saver.hasCheckpoint(entries)) {
      await this.#journal.flush();
      return !isPast;
    }
    await this.#save({ status: "running", trigger, midStep: true, shown: true, held: true, entries });
    return true;
  }

  /** Saves a checkpoint with the next write of the journal. See {@link StepHost.checkpointWithNext}. */
  async #checkpointWithNext(trigger: string): Promise<void> {
    this.#state = this.#step?.state ?? this.#state;
    const entries = this.#journal.added;
    const checkpoint = this.#toCheckpoint({
      status: "running",
      trigger,
      midStep: true,
      shown: true,
      held: true,
      entries,
    });
    const info = await this.#journal.writeWithNext(async () =>
      this.#saver.hasCheckpoint(entries) ? undefined : this.#saver.save(checkpoint),
    );
    if (info) this.#emit({ type: "checkpoint", checkpoint: info });
  }

  async #save({ steps, ...fields }: CheckpointFields): Promise<void> {
    await this.#journal.writeDeferred();
    const info = await this.#saver.save(this.#toCheckpoint(fields, steps));
    this.#steps = steps ?? this.#steps;
    if (fields.shown) this.#emit({ type: "checkpoint", checkpoint: info });
  }

  #toCheckpoint(fields: Omit<CheckpointFields, "steps">, steps?: number): RunCheckpoint {
    return {
      usage: this.#step?.usage ?? this.#usage ?? { tokens: 0, cost: 0 },
      ...fields,
      state: this.#state,
      step: steps ?? this.#currentStep(fields.status),
      worked: this.#worked(),
      loop: this.#detector?.save() ?? "",
    };
  }

  /** The step number of a checkpoint in the middle: the current step or, of a running external loop, the last completed one. */
  #currentStep(status: CheckpointStatus): number {
    const done = this.#step?.stepsDone ?? this.#openSteps;
    return this.#steps + (this.agent.definition.open && status === "running" ? done : done + 1);
  }

  /** Waits a limited time for the effects in flight, so that their results are recorded, and throws. */
  async #stopIn(step: Step, error: Error): Promise<never> {
    this.#step = undefined;
    this.#openSteps = step.stepsDone;
    const timer = new AbortController();
    const timeout = delay(EFFECT_GRACE, undefined, { signal: timer.signal }).catch(() => {});
    await Promise.race([step.settled(), timeout]);
    timer.abort();
    throw error;
  }

  /** Ends a run that cannot continue in this process. */
  async #fail(error: Error): Promise<RunResult> {
    if (error instanceof CancelledError) return this.#finishCancel(error);
    // The step has left a value in its state that cannot be stored.
    if (isSavepointError(error, "INVALID_STATE") && this.#isLoaded && !this.agent.definition.open) {
      this.#stop.abortEffects(error);
      const end = failedInStep(toReasonLine(error), this.#attemptUsage ?? {}, toRunError(error));
      const result = await this.#endWithoutCheckpoint(end).catch(() => undefined);
      if (result) return this.#reported(result, error);
    }
    // Entries are recorded whatever the error is, unless the journal itself has failed.
    await this.#journal.flush().catch(() => {});
    this.#journal.close(error);
    this.#stop.abortEffects(error);
    if (isSavepointError(error, "LEASE_LOST")) {
      this.#emit({ type: "leaseLost" });
      throw error;
    }
    const code = AGENT_ERRORS.find((each) => isSavepointError(error, each));
    const released = await this.#release(
      code && { status: "halted", reason: error.message, code, error: toRunError(error) },
    );
    const reason = released?.cancelled ?? (code && error.message);
    if (reason !== undefined) {
      this.#emit({ type: "status", status: "halted", reason, question: undefined, wakeAt: undefined });
    }
    if (released?.cancelled === undefined) throw error;
    return this.#result({ status: "halted", reason, usage: this.#attemptUsage ?? this.#usage });
  }

  /**
   * Tries to release the branch. Failing to do so is ignored, because the error that ended the run matters more. Without a
   * change, the run is scheduled again: the store may have failed only temporarily, and another process may succeed.
   */
  async #release(change: Partial<RunRecord> | undefined): Promise<Release | undefined> {
    const { owner } = this.#host.leases;
    const options = { self: () => owner, ...(change ? { change } : { isUnfinished: true }) };
    const released = await releaseBranch(this.#reader, this.branch, options).catch(() => undefined);
    this.#cursor.invalidate();
    return released;
  }

  /** Halts a run that was cancelled. */
  async #finishCancel({ reason }: CancelledError): Promise<RunResult> {
    try {
      await this.#journal.refresh();
      const { cancelReason = reason } = this.#journal.record;
      const usage = this.#attemptUsage ?? this.#usage ?? {};
      return await this.#endWith(halted(cancelledRun(cancelReason).reason, usage, { isCancel: true }));
    } catch (error) {
      return this.#fail(error as Error);
    }
  }
}
