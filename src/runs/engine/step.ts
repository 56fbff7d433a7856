/** One attempt of a step: calls the step function, executes its effects, and replays those that are recorded. */
import type { Question, Usage } from "../../records/index.js";
import { shadowToValue, valueToShadow } from "../../state/index.js";
import { invalidArgument } from "../../util/index.js";
import { Completion, type EmitOptions } from "../agent/index.js";
import {
  CancelledError,
  describeThrown,
  type EffectCall,
  type EffectOutcome,
  encodeNamed,
  IMMEDIATE_KINDS,
  type JournalOperation,
  type RecordedEffect,
  settleValue,
} from "../journal/index.js";
import { type EffectOwner, EffectRunner, needsIntent } from "./effect-runner.js";
import { ReplayLog } from "./replay-log.js";
import { isProgrammingError, mayPass } from "./run-error.js";
import { StepActivity } from "./step-activity.js";
import { isSavepointError } from "../../errors.js";
import { calledAfterEnd, nestedEffect, nondeterminism } from "./step-errors.js";
import { type DeliveredOutcome, StepResults } from "./step-results.js";
import { currentScope } from "./step-scope.js";
import type { EffectBody, EffectResult, EffectSettings, StartedEffect, StepEnd, StepHost } from "./step-types.js";

/**
 * Returns a promise that never settles, for the code of an abandoned step. Each call creates a new promise, because a shared
 * promise would keep the continuations of all abandoned steps in memory.
 */
const never = (): Promise<never> => new Promise(() => {});

export class Step implements EffectOwner {
  state: unknown;
  readonly results: StepResults;
  /** The number of completed steps of an external loop. */
  stepsDone = 0;
  /** Whether the step has slept or asked a question. */
  hasWaited = false;
  isOver = false;
  readonly #host: StepHost;
  readonly #replay: ReplayLog;
  readonly #activity = new StepActivity();
  readonly #runner: EffectRunner;
  /** The number of results that were delivered before the last effect was started. */
  #deliveredAtLastStart = 0;
  /** Whether the journal has entries of this step, other than tool calls that are kept from before it was restarted. */
  #hasEntries: boolean;
  /** The step that the last entry of this attempt belongs to. */
  #markedStep: number | undefined;
  #completion: Completion<unknown> | undefined;
  /** Whether the step function has returned or thrown. */
  #hasSettled = false;
  #end: (end: StepEnd) => void = () => {};

  constructor(host: StepHost, state: unknown, entries: readonly JournalOperation[]) {
    this.#host = host;
    this.state = state;
    this.results = new StepResults(host, (reason) => this.#halt(reason));
    this.#hasEntries = entries.some(({ op }) => op !== "kept");
    this.#runner = new EffectRunner(host, this);
    this.#replay = new ReplayLog(entries, host, {
      onMissing: (effect) => this.#differs(effect, undefined),
      onQuiet: () => this.#considerSuspending(),
    });
  }

  get usage(): Required<Usage> {
    return { ...this.results.usage };
  }

  /** Calls the step function. Resolves when the function returns, throws, or waits only for sleeps and answers. */
  async execute(body: () => unknown): Promise<StepEnd> {
    const ended = new Promise<StepEnd>((resolve) => (this.#end = resolve));
    // Called inside `then`, so that a synchronous throw becomes a rejection.
    void Promise.resolve()
      .then(body)
      .then(
        (returned) => this.#returned(returned),
        (error: unknown) => this.#threw(error),
      );
    const end = await ended;
    this.isOver = true;
    this.#replay.deliveries.close();
    this.#activity.close();
    return end;
  }

  /** Ends the attempt with an error that also ends the run. No further effect is started. */
  stop(error: Error): void {
    this.#finish({ kind: "fatal", error });
  }

  /** Ends the attempt as if an effect had thrown this error. */
  fail(error: unknown): void {
    this.#finish({ kind: "threw", error, failed: [], isOwn: false });
  }

  /** See {@link EffectOwner.isDurable}. */
  get isDurable(): boolean {
    return this.results.pendingTrigger === undefined && this.#host.journal.isDurable;
  }

  /** Whether an effect is in flight. */
  get isBusy(): boolean {
    return this.#activity.inFlight > 0;
  }

  /** Resolves when no effect is in flight. */
  settled(): Promise<void> {
    return this.#activity.settled();
  }

  /** Adds an entry to the journal. The first one of this attempt, and of each step of an external loop, names its step. */
  record(entry: JournalOperation): void {
    const { journal, step: first, turn } = this.#host;
    const step = first + this.stepsDone;
    const mark = { step, epoch: journal.record.epoch, turn, continues: this.#hasEntries };
    journal.add(this.#markedStep === step ? entry : { ...entry, mark });
    this.#markedStep = step;
    this.#hasEntries = true;
  }

  /** @param index the number of the effect that emits it */
  emitDelta(name: string, delta: unknown, index: number): void {
    if (this.isOver) return;
    this.#host.emit({ type: "delta", name, delta });
    this.#host.recorder.add({ name, delta, effect: [this.#host.step, index] });
  }

  /** Records a delta that no effect emits. Resolves when more can be recorded. */
  async emit(name: string, delta: unknown, { append, atEnd }: EmitOptions): Promise<void> {
    if (this.isOver) return;
    this.#host.recorder.add({ name, delta, append }, atEnd);
    await this.#host.recorder.room();
  }

  /** Records a completion. The completion ends the run if the step function returns nothing. */
  complete<Output>(completion: Completion<Output>): Completion<Output> {
    this.#completion = completion;
    return completion;
  }

  /** Executes an effect and records its outcome, or replays the recorded outcome. */
  effect(call: EffectCall, body: EffectBody, settings: EffectSettings): Promise<unknown> {
    const done = this.#effect(call, body, settings);
    // The error of an effect that the step does not await is recorded and emitted, so its rejection counts as handled.
    done.catch(() => {});
    return done;
  }

  async #effect(call: EffectCall, body: EffectBody, settings: EffectSettings): Promise<unknown> {
    const effect = this.#start(call);
    if (!effect) return never();
    if (effect.recorded?.outcome) return this.#deliverRecorded(effect.recorded);
    this.#activity.enter();
    let result: EffectResult | undefined;
    try {
      result = effect.kept?.outcome
        ? { outcome: effect.kept.outcome }
        : await this.#runner.perform(effect, body, settings);
    } finally {
      this.#leave();
    }
    if (!result) return never();
    if ("question" in result) return this.#askFor(effect.index, result.question);
    const { outcome, usage, attempted, took, attempts, settledBy } = result;
    // The start of an effect is recorded once. If an intent was recorded, the intent contains the start.
    const start = effect.recorded || needsIntent(effect, settings) ? {} : { started: effect.started };
    this.record({
      op: "end",
      index: effect.index,
      ...start,
      outcome,
      ...(usage && { usage }),
      ...(took !== undefined && { took }),
      ...(attempts !== undefined && { attempts }),
      // Of an effect that an earlier attempt of the step has started, the recorded start is that of the earlier attempt.
      ...(took !== undefined &&
        (effect.recorded ?? effect.kept) && { executedAt: Math.round(this.#host.context.now() - took) }),
      ...(settledBy && { settledBy }),
      ...(effect.kept?.outcome && { isKept: true as const }),
    });
    if (this.isOver) return never();
    const { kind, name, callId } = effect.started;
    const error = "error" in outcome ? { error: outcome.error.message } : {};
    this.#host.emit({ type: "effect", kind, name, callId, phase: "end", ...error });
    // An external loop may use the result in ways that cannot be replayed, so the result must be durable before the loop gets it.
    if (this.#host.definition.open && !settings.isEarly) await this.#host.journal.flush();
    return this.#deliver({ effect, outcome, usage, attempted }, (deliver) => this.#replay.deliverLive(deliver));
  }

  /** Makes a value and records it, or replays it. Synchronous: the record is written with the next entry of the journal. */
  immediate<Value>(call: EffectCall, make: () => Value): Value {
    const effect = this.#start(call);
    if (!effect) throw calledAfterEnd(call);
    const { index, recorded, started } = effect;
    const { registry } = this.#host.context;
    if (!IMMEDIATE_KINDS.has(call.kind)) this.#replay.deliveries.count++;
    if (recorded?.outcome && "value" in recorded.outcome)
      return shadowToValue(recorded.outcome.value, registry) as Value;
    const value = make();
    const encoded = encodeNamed("The value to remember", () => settleValue(value, registry));
    this.record({ op: "end", index, started, outcome: { value: encoded } });
    return value;
  }

  /** Resolves when all entries so far are durable. */
  flush(): Promise<void> {
    return this.#host.journal.flushEntries();
  }

  /**
   * Saves a checkpoint after a step of an external loop, unless the step is replayed. It is part of the next write of entries, so
   * a loop that does not wait for it makes one write less.
   */
  async stepDone(trigger: string): Promise<void> {
    this.stepsDone++;
    if (this.isOver || this.#activity.inFlight > 0 || this.#replay.isReplaying) return;
    try {
      await this.#host.checkpointWithNext(trigger);
    } catch (error) {
      // The run was cancelled. The loop never continues from here, as with an effect that is started after the end of a run.
      if (!(error instanceof CancelledError)) throw error;
      await never();
    }
  }

  /**
   * Waits until a time. A replayed sleep waits until the recorded time. Both are times of the store's clock, because the store's
   * clock decides when a worker wakes the run and the clocks of machines differ.
   */
  async sleep(time: { readonly until: number } | { readonly lasting: number }): Promise<unknown> {
    this.hasWaited = true;
    const effect = this.#start({ kind: "sleep", name: "sleep" });
    if (!effect) return never();
    const { index, recorded } = effect;
    if (recorded?.outcome) return this.#deliverRecorded(recorded);
    const now = await this.#storeTime();
    if (now === undefined || this.isOver) return never();
    const wakeAt = recorded?.started.until ?? ("until" in time ? time.until : now + time.lasting);
    if (!recorded) this.record({ op: "start", index, started: { ...effect.started, until: wakeAt } });
    return new Promise<void>((resolve) => {
      const wake = (): void => {
        const outcome = { value: valueToShadow(undefined, this.#host.context.registry) };
        this.record({ op: "end", index, outcome, took: this.#host.context.now() - effect.started.at });
        this.#replay.deliveries.deliverLive(resolve);
      };
      if (wakeAt <= now) return wake();
      this.#activity.sleep(index, wakeAt, wakeAt - now, wake);
      this.#considerSuspending();
    });
  }

  /** Asks a person a question, or replays the recorded answer. The answer to a new question arrives in a later attempt. */
  async ask(text: string, data: unknown): Promise<unknown> {
    this.hasWaited = true;
    const effect = this.#start({ kind: "ask", name: text });
    if (!effect) return never();
    const { index, recorded, started } = effect;
    if (recorded?.outcome) return this.#deliverRecorded(recorded);
    if (!recorded) this.record({ op: "start", index, started });
    return this.#askFor(index, { id: `q${index}`, kind: "ask", text, ...(data !== undefined && { data }) });
  }

  /** Reads the store's time. If the read fails, ends the attempt and returns `undefined`. */
  async #storeTime(): Promise<number | undefined> {
    this.#activity.enter();
    try {
      return await this.#host.context.store.now();
    } catch (error) {
      this.stop(error as Error);
      return undefined;
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    this.#activity.leave();
    this.#considerSuspending();
  }

  /**
   * Numbers an effect, and checks it against the recorded effect with that number. Returns `undefined` if the attempt has ended,
   * or if this call ends it: the effect differs from the recorded one, or a limit of the run is reached.
   */
  #start(call: EffectCall): StartedEffect | undefined {
    if (this.isOver) return undefined;
    const { session, branch, effect: outer } = currentScope.getStore() ?? {};
    // An effect of another session may be nested in this one, because that session has a journal of its own.
    const isOwn = session === this.#host.session && branch === this.#host.branch;
    if (isOwn && outer !== undefined) throw nestedEffect(call, outer);
    const match = this.#replay.next(call);
    if ("differs" in match) {
      this.#differs(match.differs, call);
      return undefined;
    }
    const { recorded, kept } = match;
    const delivered = this.#replay.deliveries.count;
    const started = recorded?.started ?? {
      ...call,
      at: kept?.started.at ?? this.#host.context.now(),
      delivered,
    };
    if (!IMMEDIATE_KINDS.has(call.kind)) this.#deliveredAtLastStart = Math.max(this.#deliveredAtLastStart, delivered);
    if (!recorded && call.kind === "llm") {
      const reason = this.#host.overLimit(this.results.usage);
      if (reason !== undefined) {
        this.#halt(reason);
        return undefined;
      }
    }
    return { ...match, started };
  }

  /** See {@link EffectOwner.makeDurable}. A checkpoint that the strategy has requested contains only the entries before the effect. */
  async makeDurable(entriesBefore: number, isNew: boolean): Promise<boolean> {
    const { journal } = this.#host;
    try {
      const trigger = this.results.pendingTrigger;
      if (trigger !== undefined && isNew && this.#activity.inFlight === 1) {
        this.results.pendingTrigger = undefined;
        if (!(await this.#host.checkpoint(trigger, entriesBefore))) this.results.pendingTrigger = trigger;
      } else if (this.#host.definition.open) await journal.flushEntries();
      else await journal.flush();
      await journal.checkLease();
      return true;
    } catch (error) {
      this.stop(error as Error);
      return false;
    }
  }

  #deliverRecorded(effect: RecordedEffect): Promise<unknown> {
    const delivered = { effect, outcome: effect.outcome as EffectOutcome, usage: effect.usage };
    return this.#deliver(delivered, (deliver) => this.#replay.deliverRecorded(effect, deliver));
  }

  /** Returns a promise of the result of an effect. The promise settles when `schedule` calls its callback. */
  #deliver(delivered: DeliveredOutcome, schedule: (deliver: () => void) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      schedule(() => {
        const result = this.results.receive(delivered, this.#replay.deliveries.count);
        if ("error" in result) reject(result.error as Error);
        else resolve(result.value);
      });
    });
  }

  /** Registers a question, and never returns: the answer arrives in a later attempt. */
  #askFor(index: number, question: Question): Promise<never> {
    this.#activity.ask(index, question);
    this.#considerSuspending();
    return never();
  }

  get #canSuspend(): boolean {
    return this.#activity.isSuspended && !this.isOver && !this.#hasSettled;
  }

  /** Ends the attempt if the step waits only for sleeps and answers. */
  #considerSuspending(): void {
    if (!this.#canSuspend) return;
    setImmediate(() => {
      if (!this.#canSuspend || !this.#replay.deliveries.isQuiet) return;
      // Some recorded results have not been requested yet. The step gets some time to request them.
      if (this.#replay.deliveries.missing) return this.#replay.deliveries.startTimeout();
      const { questions, wakeAt } = this.#activity;
      this.#finish({ kind: "suspended", questions, wakeAt });
    });
  }

  async #returned(returned: unknown): Promise<void> {
    this.#hasSettled = true;
    if (this.isBusy) await this.settled();
    await this.#replay.deliveries.drained();
    const { unmatched } = this.#replay;
    if (unmatched && !this.isOver) return this.#differs(unmatched, undefined);
    const completion = returned instanceof Completion ? returned : this.#completion;
    if (returned !== undefined && !(returned instanceof Completion)) {
      const message = `A step returned ${describeThrown(returned).slice(0, 100)}. Return run.complete(output), run.fail(reason) or run.halt(reason) to end the run, or nothing to continue with the next step.`;
      return this.#finish({ kind: "threw", error: invalidArgument(message), failed: [], isOwn: true });
    }
    this.#finish({ kind: "returned", completion });
  }

  async #threw(error: unknown): Promise<void> {
    this.#hasSettled = true;
    await this.settled();
    await this.#replay.deliveries.drained();
    const source = this.results.sourceOf(error);
    // An effect that was started after the error was delivered may depend on the error. In this case the next attempt replays the
    // error instead of executing the failed effect again.
    const isLast = source && this.#deliveredAtLastStart < source.delivered;
    const unstored = isLast && isSavepointError(error, "INVALID_STATE") ? source : undefined;
    // The outcome of the effect is unknown, and its policy does not allow another execution.
    const isUnknown = isSavepointError(source?.error, "OUTCOME_UNKNOWN");
    const isBug = source ? isProgrammingError(source.error) : !mayPass(error);
    const failed = !isLast || unstored || isUnknown ? [] : this.results.failedFrom(source);
    this.#finish({ kind: "threw", error, failed, isOwn: isBug || isUnknown || unstored !== undefined, unstored });
  }

  #halt(reason: string): void {
    this.#finish({ kind: "halted", reason });
  }

  #finish(end: StepEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#end(end);
  }

  /** Ends the attempt because the step is not deterministic. */
  #differs(recorded: RecordedEffect, called: EffectCall | undefined): void {
    this.stop(nondeterminism(this.#host, recorded, called));
  }
}
