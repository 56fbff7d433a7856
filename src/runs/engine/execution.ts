/**
 * A run of this process: step after step, until the work is done, waits, or cannot go on.
 *
 * Every step ends with a checkpoint, whether or not it stays in the history. In the same commit the journal begins anew,
 * so what is recorded always belongs to the checkpoint before it.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import { type BranchCursor, type Cursors, loadShadow, type SessionReader } from "../../sessions/index.js";
import type { CheckpointStatus, JournalRecord, Question, RunRecord, Usage } from "../../records/index.js";
import type { RunEventBody } from "../../events/index.js";
import { shadowToValue } from "../../state/index.js";
import { type Agent, type Completion, type LoopDetector, pause, retryDelay, shouldCheckpoint } from "../agent/index.js";
import { migrateAgentState } from "../starting/index.js";
import { cancelledRun, type Claim, type Release, releaseBranch } from "../claims/index.js";
import { currentScope } from "./step-scope.js";
import { CancelledError, type JournalOperation, Journal, leaseLost, readEntries, toReason } from "../journal/index.js";
import type { Leases } from "../leases/index.js";
import { type RunResult, toResult } from "../status/index.js";
import { RunSaver, type RunCheckpoint } from "./run-saver.js";
import { Step } from "./step.js";
import { StepRun } from "./step-run.js";
import type { StepHost } from "./step-types.js";

/** How long effects that are under way get to end when the run is stopped. */
const GRACE = 5000;

/** Errors of the agent's own making: the run is halted, and tried again when it is run again. */
const AGENT_ERRORS = ["NONDETERMINISM", "INVALID_STATE", "AGENT_FAILED", "AGENT_TOO_OLD"] as const;

/** The fields of one checkpoint; the run fills in the others, which all checkpoints have. */
type RunSaving = Omit<RunCheckpoint, "state" | "step" | "usage" | "worked" | "loop"> & {
  readonly usage?: Usage;
  /** The number of completed steps, if the checkpoint is not in the middle of a step. */
  readonly steps?: number;
};

export interface ExecutionHost {
  readonly cursors: Cursors;
  readonly leases: Leases;
  emit(reader: SessionReader, branch: string, event: RunEventBody): void;
}

export class Execution {
  readonly branch: string;
  readonly agent: Agent;
  readonly finished: Promise<RunResult>;
  readonly #host: ExecutionHost;
  readonly #reader: SessionReader;
  readonly #cursor: BranchCursor;
  readonly #claim: Claim;
  readonly #journal: Journal;
  readonly #abort = new AbortController();
  /** Ends pauses, whatever it is that stops the run. */
  readonly #hurry = new AbortController();
  readonly #saver: RunSaver;
  readonly #detector: LoopDetector | undefined;
  readonly #began: number;
  #steps: number;
  /** What the session had used at the last boundary, and by now. */
  #usage: Usage | undefined;
  #used: Usage | undefined;
  #state: unknown;
  #current: Step | undefined;
  /** Steps that a loop outside had done when it ended. */
  #lastDone = 0;
  #stopping: Error | undefined;
  #draining = false;
  #wakeUp: () => void = () => {};
  /** Resolves when it is to stop. */
  readonly #stopped = new Promise<void>((resolve) => (this.#wakeUp = resolve));

  constructor(host: ExecutionHost, reader: SessionReader, branch: string, agent: Agent, claim: Claim) {
    this.#host = host;
    this.#reader = reader;
    this.branch = branch;
    this.agent = agent;
    this.#claim = claim;
    this.#cursor = host.cursors.get(reader, branch);
    this.#detector = agent.definition.createDetector();
    this.#steps = claim.boundary.step;
    this.#usage = claim.boundary.usage;
    this.#began = performance.now();
    this.#journal = new Journal(reader, branch, claim, host.leases, {
      results: (results) => this.#saver.addResults(results),
      failure: (error) => this.#stop(error),
    });
    this.#saver = new RunSaver(reader, branch, agent, claim, this.#journal, this.#cursor);
    this.finished = this.#execute().finally(() => host.cursors.enforceBudget(this.#cursor));
  }

  get run(): RunRecord {
    return this.#saver.run;
  }

  /** Looks whether it may go on: `record` is the journal's record as it is in the store. */
  checkRecord(record: JournalRecord | undefined): void {
    const lost = this.#journal.ownershipError(record);
    if (lost) this.#stop(lost);
    else if (record?.cancelReason !== undefined) this.#stop(new CancelledError(record.cancelReason));
  }

  /** Cancels the run. Resolves when the run has ended; with `false` if it ended before the cancel. */
  async cancel(reason: string): Promise<boolean> {
    // An error of the journal ends the run with that error; its status is then in the store.
    const isCancelled = await this.#journal.cancel(reason).catch(() => false);
    await this.finished.catch(() => {});
    return isCancelled;
  }

  /** Starts nothing any more, waits for what is under way, and leaves the rest to whoever goes on with it. */
  async close(): Promise<void> {
    this.#stop(this.#handedBack());
    await this.finished.catch(() => {});
  }

  /** Comes to the end of its step, and leaves the rest to whoever goes on with it. Resolves when it has. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.finished.catch(() => {});
  }

  /** The same, and lets go of the branch, so that it can be gone on with in this process too. */
  async release(): Promise<void> {
    const message = `Session ${JSON.stringify(this.#reader.sessionId)} was let go of. Open it again to go on.`;
    this.#stop(new SavepointError("RUN_ENDED", message));
    await this.finished.catch(() => {});
  }

  #emit(event: RunEventBody): void {
    this.#host.emit(this.#reader, this.branch, event);
  }

  #handedBack(): SavepointError {
    const message = `The store was closed, or the worker stopped, while session ${JSON.stringify(this.#reader.sessionId)} was being run. It goes on with a worker, sp.run() or sp.recover().`;
    return new SavepointError("CLOSED", message);
  }

  #stop(error: Error): void {
    this.#stopping ??= error;
    this.#hurry.abort();
    this.#wakeUp();
    if (!isSavepointError(error, "CLOSED")) this.#abort.abort(error);
    this.#current?.stop(error);
  }

  async #execute(): Promise<RunResult> {
    try {
      return await this.#work();
    } catch (error) {
      return await this.#fail(error as Error);
    }
  }

  async #work(): Promise<RunResult> {
    const { definition } = this.agent;
    let { state, entries } = await this.#load();
    this.#emit({ type: "started", resumed: entries.length > 0 || this.#steps > 0, turn: this.run.turn });
    for (;;) {
      if (this.#stopping) throw this.#stopping;
      if (this.#draining) throw this.#handedBack();
      this.#state = state;
      const usage = { tokens: this.#usage?.tokens ?? 0, cost: this.#usage?.cost ?? 0 };
      const reason = this.#overLimit(usage) ?? this.#overSteps();
      if (reason !== undefined) return await this.#halt(reason);
      const host = this.#stepHost();
      const step = new Step(host, state, entries);
      this.#current = step;
      const place = { session: this.#reader.sessionId, branch: this.branch };
      const end = await step.execute(() => currentScope.run(place, () => definition.step(new StepRun(step, host))));
      this.#state = step.state;
      this.#used = step.usage;
      if (end.kind === "fatal") return await this.#stopIn(step, end.error);
      await Promise.race([step.settled(), this.#stopped]);
      if (this.#stopping) return await this.#stopIn(step, this.#stopping);
      this.#current = undefined;
      this.#lastDone = step.stepsDone;
      if (end.kind === "halted") return await this.#halt(end.reason, step.usage);
      if (end.kind === "suspended") return await this.#wait(end.questions, end.wakeAt, step.usage);
      // A loop outside is told; it is for whoever has it to try again.
      if (end.kind === "threw" && definition.open) return await this.#stopIn(step, end.error as Error);
      if (end.kind === "threw") {
        const halted = await this.#failed(end.error, end.index);
        if (halted !== undefined) return await this.#halt(halted, step.usage, { failures: 0 });
        ({ state, entries } = await this.#load());
        continue;
      }
      this.#usage = step.usage;
      if (end.completion?.status === "failed" && definition.open) return await this.#failOpen(end.completion);
      const steps = this.#steps + step.stepsDone + 1;
      // Who waits is not in a hurry: that is no loop.
      if (step.hasWaited) this.#detector?.reset();
      if (end.completion) return await this.#end(end.completion, step.pendingTrigger, steps);
      const shown = step.pendingTrigger !== undefined || shouldCheckpoint(definition.strategy, "iteration", steps);
      await this.#save({
        status: "running",
        trigger: step.pendingTrigger ?? "step",
        midStep: false,
        steps,
        shown,
        held: true,
      });
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
      signal: this.#abort.signal,
      detector: this.#detector,
      usage: this.#usage,
      keySeed: `${sessionId} ${createdAt} ${number} ${tape} ${this.#journal.record.origin}`,
      overLimit: (usage) => this.#overLimit(usage),
      checkpoint: (trigger, taken) => this.#checkpoint(trigger, taken),
      emit: (event) => this.#emit(event),
    };
  }

  /** The state that the current step begins with, and what it has recorded. */
  async #load(): Promise<{ state: unknown; entries: readonly JournalOperation[] }> {
    try {
      return await this.#read();
    } catch (error) {
      // Missing data may have been deleted with its session: then that is the error to report.
      await this.#journal.refresh();
      throw error;
    }
  }

  async #read(): Promise<{ state: unknown; entries: readonly JournalOperation[] }> {
    const { number } = this.#claim;
    const { tape, first, count, boundary, loop } = this.#journal.record;
    const { registry } = this.#reader.context;
    let row = this.#claim.boundary;
    if (row.seq !== boundary) {
      const { branch } = await this.#reader.heads(this.branch);
      const found =
        branch?.record.head?.seq === boundary ? branch.record.head : await this.#reader.row(number, boundary);
      if (!found || "unreadable" in found) throw leaseLost(this.#reader.sessionId, this.branch);
      row = found;
    }
    const shadow = await loadShadow(this.#reader, number, row);
    const state = shadowToValue(shadow, registry);
    // What is saved next is compared with the head.
    this.#cursor.keepShadow(row, shadow);
    const { entries, results } = await readEntries(this.#reader, number, { tape, start: first, count });
    this.#saver.clearResults();
    this.#saver.addResults(results);
    this.#detector?.load(loop);
    return { state: await migrateAgentState(this.agent, this.#reader.sessionId, state, row.version), entries };
  }

  #overLimit(used: Required<Usage>): string | undefined {
    const { tokens, cost, time } = this.agent.definition.limits;
    if (tokens !== undefined && used.tokens >= tokens) return `the limit of ${tokens} tokens is reached`;
    if (cost !== undefined && used.cost >= cost) return `the limit of ${cost} in cost is reached`;
    if (time !== undefined && this.#worked() >= time) return `the limit of ${time} ms of work is reached`;
    return undefined;
  }

  #overSteps(): string | undefined {
    const { steps } = this.agent.definition.limits;
    return steps !== undefined && this.#steps >= steps ? `the limit of ${steps} steps is reached` : undefined;
  }

  /** Milliseconds of work so far, over all restarts. */
  #worked(): number {
    return this.#claim.journal.worked + performance.now() - this.#began;
  }

  /** A step has thrown: gives the reason to halt, or `undefined` when it is to be tried again. */
  async #failed(error: unknown, index: number | undefined): Promise<string | undefined> {
    const { retry } = this.agent.definition;
    const failures = this.#journal.record.failures + 1;
    const reason = toReason(error);
    if (index !== undefined) this.#journal.add({ op: "again", index });
    if (failures >= retry.attempts) return `${failures} attempts in a row have failed, the last one with ${reason}`;
    await this.#journal.writeChange({ failures, worked: this.#worked() });
    const wait = retryDelay(failures, retry, error);
    this.#emit({ type: "retry", name: `step ${this.#steps + 1}`, attempt: failures, delay: wait, reason });
    await pause(wait, this.#hurry.signal);
    return undefined;
  }

  /** Puts the run aside until it is told something, or the time has come. */
  async #wait(questions: readonly Question[], wakeAt: number | undefined, usage: Usage): Promise<RunResult> {
    const reason = questions[0]?.text ?? "asleep";
    await this.#save({
      status: "waiting",
      trigger: questions.length > 0 ? "ask" : "sleep",
      reason,
      midStep: true,
      shown: true,
      held: false,
      usage,
      run: { status: "waiting", reason, questions, wakeAt },
      runAt: wakeAt ?? null,
    });
    this.#emit({ type: "status", status: "waiting", reason, question: questions[0], wakeAt });
    return this.#result({ status: "waiting", questions, wakeAt, usage });
  }

  /** Stops in the middle of a step, or before it: what was recorded stays. */
  async #halt(
    reason: string,
    usage = this.#usage ?? {},
    more: Pick<RunCheckpoint, "failures" | "isCancel"> = {},
  ): Promise<RunResult> {
    await this.#save({
      status: "halted",
      trigger: "halt",
      reason,
      midStep: true,
      shown: true,
      held: false,
      usage,
      ...more,
      run: { status: "halted", reason },
    });
    this.#emit({ type: "status", status: "halted", reason, question: undefined, wakeAt: undefined });
    return this.#result({ status: "halted", reason, usage });
  }

  /** The step has said that the work is over. */
  async #end(
    { status, output, reason }: Completion<unknown>,
    due: string | undefined,
    steps: number,
  ): Promise<RunResult> {
    await this.#save({
      status,
      trigger: due ?? "end",
      reason,
      midStep: false,
      steps,
      shown: true,
      held: false,
      ...(status === "completed" && { output: { value: output } }),
      run: { status, reason },
    });
    this.#emit({ type: "step", step: this.#steps });
    this.#emit({ type: "status", status, reason, question: undefined, wakeAt: undefined });
    return this.#result({ status, reason, output, usage: this.#usage });
  }

  /** A loop outside has failed. What it had recorded stays, should it be tried again. */
  async #failOpen({ reason = "" }: Completion<unknown>): Promise<RunResult> {
    await this.#save({
      status: "failed",
      trigger: "end",
      reason,
      midStep: true,
      shown: true,
      held: false,
      run: { status: "failed", reason },
    });
    this.#emit({ type: "status", status: "failed", reason, question: undefined, wakeAt: undefined });
    return this.#result({ status: "failed", reason, usage: this.#usage });
  }

  #result(fields: Omit<Parameters<typeof toResult>[3], "steps">): RunResult {
    return toResult(this.#reader.sessionId, this.branch, this.#state, {
      ...fields,
      steps: this.#steps + (fields.status === "completed" ? 0 : this.#lastDone),
    });
  }

  /** A checkpoint in the middle of a step, with everything that is to be recorded. */
  async #checkpoint(trigger: string, entries: number): Promise<boolean> {
    this.#state = this.#current?.state ?? this.#state;
    // What begins now may be written already: then the moment before it is past.
    const isPast = entries < this.#journal.added - this.#journal.pendingCount;
    if (isPast || this.#saver.hasCheckpoint(entries)) {
      await this.#journal.flush();
      return !isPast;
    }
    await this.#save({ status: "running", trigger, midStep: true, shown: true, held: true, entries });
    return true;
  }

  /** Saves the state, and with it whatever the run has recorded since. */
  async #save({ steps, ...saving }: RunSaving): Promise<void> {
    const info = await this.#saver.save({
      usage: this.#current?.usage ?? this.#usage ?? { tokens: 0, cost: 0 },
      ...saving,
      state: this.#state,
      step: steps ?? this.#stepInside(saving.status),
      worked: this.#worked(),
      loop: this.#detector?.save() ?? "",
    });
    this.#steps = steps ?? this.#steps;
    if (saving.shown) this.#emit({ type: "checkpoint", checkpoint: info });
  }

  /** The number of a checkpoint in the middle: of the step under way; of a loop outside that goes on, the one it has just done. */
  #stepInside(status: CheckpointStatus): number {
    const done = this.#current?.stepsDone ?? this.#lastDone;
    return this.#steps + (this.agent.definition.open && status === "running" ? done : done + 1);
  }

  async #stopIn(step: Step, error: Error): Promise<never> {
    this.#current = undefined;
    this.#lastDone = step.stepsDone;
    await this.#settle(step);
    throw error;
  }

  /** Waits a little for effects that are under way, so that what they answer is recorded. */
  async #settle(step: Step): Promise<void> {
    const timer = new AbortController();
    const patience = delay(GRACE, undefined, { signal: timer.signal }).catch(() => {});
    await Promise.race([step.settled(), patience]);
    timer.abort();
  }

  /** Ends a run that cannot go on here. */
  async #fail(error: Error): Promise<RunResult> {
    if (error instanceof CancelledError) return this.#cancel(error);
    // What is known is recorded, whatever it is that ends the run; unless that is the journal itself.
    await this.#journal.flush().catch(() => {});
    this.#journal.close(error);
    if (!this.#abort.signal.aborted) this.#abort.abort(error);
    if (isSavepointError(error, "LEASE_LOST")) {
      this.#emit({ type: "leaseLost" });
      throw error;
    }
    const code = AGENT_ERRORS.find((each) => isSavepointError(error, each));
    const released = await this.#release(code && { status: "halted", reason: error.message, code });
    const reason = released?.cancelled ?? (code && error.message);
    if (reason !== undefined) {
      this.#emit({ type: "status", status: "halted", reason, question: undefined, wakeAt: undefined });
    }
    if (released?.cancelled === undefined) throw error;
    return this.#result({ status: "halted", reason, usage: this.#used ?? this.#usage });
  }

  /**
   * Tries to release the branch. Failing to do so is ignored, because the error that ended the run matters more. Without a
   * change, the run is scheduled again: the store may have failed only temporarily, and another process may succeed.
   */
  async #release(change: Partial<RunRecord> | undefined): Promise<Release | undefined> {
    const { owner } = this.#host.leases;
    const release = releaseBranch(
      this.#reader,
      this.branch,
      () => owner,
      () => change ?? {},
      !change,
    );
    const released = await release.catch(() => undefined);
    this.#cursor.invalidate();
    return released;
  }

  /** Halts a run that was cancelled. */
  async #cancel({ reason }: CancelledError): Promise<RunResult> {
    try {
      await this.#journal.refresh();
      const { cancelReason = reason } = this.#journal.record;
      return await this.#halt(cancelledRun(cancelReason).reason, this.#used ?? this.#usage, { isCancel: true });
    } catch (error) {
      return this.#fail(error as Error);
    }
  }
}
