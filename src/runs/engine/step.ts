/** One attempt of a step: runs the agent's function, does its effects or gives it what was recorded of them. */
import { SavepointError } from "../../errors.js";
import type { Question, Usage } from "../../records/index.js";
import type { EffectKind, LoopVerdict } from "../../events/index.js";
import { valueToShadow, shadowToValue } from "../../state/index.js";
import { type AttemptResult, attemptEffect } from "./attempt.js";
import { Completion, type EffectContext, shouldCheckpoint, type Verdict } from "../agent/index.js";
import {
  CancelledError,
  Deliveries,
  describeCall,
  describeThrown,
  type EffectCall,
  type EffectUsage,
  encodeNamed,
  type JournalOperation,
  IMMEDIATE_KINDS,
  isError,
  type EffectMatcher,
  IdentityMatcher,
  OrderMatcher,
  type EffectOutcome,
  type RecordedEffect,
  RecordedEffects,
  recordError,
  reviveError,
  settleValue,
  stackOf,
  type EffectStart,
} from "../journal/index.js";
import { IdempotencyKeys } from "./idempotency.js";
import { currentScope } from "./step-scope.js";
import { addUsage, parseUsage, textOfReply } from "./reply.js";
import { nestedEffect, nondeterminism, outcomeUnknown, unknownOutcomeQuestion } from "./step-errors.js";
import type {
  StartedEffect,
  EffectResult,
  EffectBody,
  EffectEnd,
  EffectSettings,
  StepEnd,
  StepHost,
} from "./step-types.js";
import { Suspensions } from "./suspensions.js";

/** A promise for an abandoned step to wait for. A new one each time: a shared one would keep all such steps in memory. */
const never = (): Promise<never> => new Promise(() => {});

const TRIGGERS = { toolCallComplete: "toolCall", llmResponse: "llmResponse" } as const;

export class Step {
  state: unknown;
  readonly #host: StepHost;
  readonly #recorded: RecordedEffects;
  readonly #matching: EffectMatcher;
  /** Are the effects those of a loop outside, which is not called again but told? */
  readonly #open: boolean;
  readonly #deliveries: Deliveries;
  readonly #suspensions = new Suspensions();
  readonly #usage: Required<Usage>;
  readonly #keys: IdempotencyKeys;
  /** Errors that were given to the step, by the effects they came from. */
  readonly #errors = new Map<Error, { index: number; delivered: number }>();
  readonly #settlers: (() => void)[] = [];
  #inFlight = 0;
  #stepsDone = 0;
  /** Results that had been given when the last effect was started. */
  #lastStart = 0;
  #loop: LoopVerdict = "none";
  #waited = false;
  #completion: Completion<unknown> | undefined;
  #due: string | undefined;
  /** Has the agent's function returned, or thrown? */
  #isDone = false;
  #over = false;
  #end: (end: StepEnd) => void = () => {};

  constructor(host: StepHost, state: unknown, entries: readonly JournalOperation[]) {
    this.#host = host;
    this.state = state;
    this.#recorded = new RecordedEffects(entries);
    this.#usage = { tokens: host.usage?.tokens ?? 0, cost: host.usage?.cost ?? 0 };
    this.#keys = new IdempotencyKeys(host.keySeed);
    this.#open = host.definition.open;
    const ByWhat = this.#open ? IdentityMatcher : OrderMatcher;
    this.#matching = new ByWhat(this.#recorded, host.context.registry);
    // A loop outside asks for its results in whatever order.
    this.#deliveries = new Deliveries(this.#open ? [] : this.#recorded.ordered, {
      stuck: (effect) => this.#differs(effect, undefined),
      quiet: () => this.#considerSuspending(),
    });
  }

  get usage(): Required<Usage> {
    return { ...this.#usage };
  }

  get loop(): LoopVerdict {
    return this.#loop;
  }

  /** Did it sleep, or ask somebody? */
  get hasWaited(): boolean {
    return this.#waited;
  }

  /** What has happened that the strategy wants a checkpoint for, and there was none since. */
  get pendingTrigger(): string | undefined {
    return this.#due;
  }

  /** Steps of a loop outside that are done. */
  get stepsDone(): number {
    return this.#stepsDone;
  }

  /** Runs the agent's function until it returns, throws, or waits for what no process needs to wait for. */
  async execute(run: () => unknown): Promise<StepEnd> {
    const ended = new Promise<StepEnd>((resolve) => (this.#end = resolve));
    // Its own promise, so that what it throws synchronously is no different.
    void Promise.resolve()
      .then(run)
      .then(
        (returned) => this.#returned(returned),
        (error: unknown) => this.#threw(error),
      );
    const end = await ended;
    this.#over = true;
    this.#deliveries.close();
    this.#suspensions.close();
    return end;
  }

  /** Ends it from outside: nothing is started any more. */
  stop(error: Error): void {
    this.#fatal(error);
  }

  /** Resolves when no effect is under way. */
  async settled(): Promise<void> {
    while (this.#inFlight > 0) await new Promise<void>((resolve) => this.#settlers.push(resolve));
  }

  emitDelta(name: string, delta: unknown): void {
    if (!this.#over) this.#host.emit({ type: "delta", name, delta });
  }

  /** The step says how the work ends. */
  complete<Output>(completion: Completion<Output>): Completion<Output> {
    this.#completion = completion;
    return completion;
  }

  /** Anything that is recorded when it is done. */
  effect(call: EffectCall, run: EffectBody, settings: EffectSettings): Promise<unknown> {
    const done = this.#effect(call, run, settings);
    // An error that nobody waits for is recorded and told by an event; it must not end the process, again and again.
    done.catch(() => {});
    return done;
  }

  async #effect(call: EffectCall, run: EffectBody, settings: EffectSettings): Promise<unknown> {
    const begun = this.#begin(call);
    if (!begun) return never();
    if (begun.recorded?.outcome) return this.#replay(begun.recorded);
    this.#inFlight++;
    let done: EffectResult | undefined;
    try {
      done = begun.kept?.outcome ? { outcome: begun.kept.outcome } : await this.#do(begun, run, settings);
    } finally {
      this.#landed();
    }
    if (!done) return never();
    return "question" in done ? this.#askFor(begun.index, done.question) : this.#record(begun, done);
  }

  /** A value that is there at once, and recorded with whatever is recorded next. */
  immediate<T extends string | number>(kind: "now" | "random" | "uuid", make: () => T): T {
    const begun = this.#begin({ kind, name: kind });
    if (!begun) throw new SavepointError("CLOSED", `run.${kind}() was called after the step was over.`);
    const { index, recorded, started } = begun;
    if (recorded?.outcome && "value" in recorded.outcome) return recorded.outcome.value as T;
    const value = make();
    this.#host.journal.add({ op: "end", index, started, outcome: { value } });
    return value;
  }

  /** A value that is there at once, of whatever type, and recorded with whatever is recorded next. */
  remember(name: string, make: () => unknown): unknown {
    const begun = this.#begin({ kind: "effect", name });
    if (!begun)
      throw new SavepointError("CLOSED", `${JSON.stringify(name)} was to be remembered after the run was over.`);
    const { index, recorded, started } = begun;
    const { registry } = this.#host.context;
    this.#deliveries.count++;
    if (recorded?.outcome && "value" in recorded.outcome) return shadowToValue(recorded.outcome.value, registry);
    const value = make();
    const encoded = encodeNamed("What is to be remembered", () => settleValue(value, registry));
    this.#host.journal.add({ op: "end", index, started, outcome: { value: encoded } });
    return value;
  }

  /** A loop outside has done one of its steps: there is a checkpoint of the state then, unless that is past. */
  async stepDone(trigger: string): Promise<void> {
    this.#stepsDone++;
    if (this.#over || this.#inFlight > 0 || this.#matching.isReplaying) return;
    try {
      await this.#host.checkpoint(trigger, this.#host.journal.added);
    } catch (error) {
      // The loop learns how the run has ended in the same way as after an effect that began too late.
      if (!(error instanceof CancelledError)) throw error;
      await never();
    }
  }

  /**
   * Waits until a time; the one that was given first, if the step is run again. Times are the store's: whoever wakes it goes
   * by that clock, and those of machines differ.
   */
  async sleep(time: { readonly until: number } | { readonly lasting: number }): Promise<unknown> {
    this.#waited = true;
    const begun = this.#begin({ kind: "sleep", name: "sleep" });
    if (!begun) return never();
    const { index, recorded } = begun;
    if (recorded?.outcome) return this.#replay(recorded);
    const now = await this.#storeTime();
    if (now === undefined || this.#over) return never();
    const wakeAt = recorded?.started.until ?? ("until" in time ? time.until : now + time.lasting);
    if (!recorded) this.#host.journal.add({ op: "start", index, started: { ...begun.started, until: wakeAt } });
    const left = wakeAt - now;
    return new Promise<void>((resolve) => {
      const wake = (): void => {
        const outcome = { value: valueToShadow(undefined, this.#host.context.registry) };
        this.#host.journal.add({ op: "end", index, outcome });
        this.#deliveries.deliverLive(resolve);
      };
      if (left <= 0) return wake();
      this.#suspensions.sleep(index, wakeAt, left, wake);
      this.#considerSuspending();
    });
  }

  async ask(text: string, data: unknown): Promise<unknown> {
    this.#waited = true;
    const begun = this.#begin({ kind: "ask", name: text });
    if (!begun) return never();
    const { index, recorded, started } = begun;
    if (recorded?.outcome) return this.#replay(recorded);
    if (!recorded) this.#host.journal.add({ op: "start", index, started });
    return this.#askFor(index, { id: `q${index}`, kind: "ask", text, ...(data !== undefined && { data }) });
  }

  /** The time by the store's clock; `undefined` where nobody can tell it, which ends the run here. */
  async #storeTime(): Promise<number | undefined> {
    this.#inFlight++;
    try {
      return await this.#host.context.store.now();
    } catch (error) {
      this.#fatal(error as Error);
      return undefined;
    } finally {
      this.#landed();
    }
  }

  /** Something that was under way is over. */
  #landed(): void {
    this.#inFlight--;
    for (const settle of this.#settlers.splice(0)) settle();
    this.#considerSuspending();
  }

  /** Does it, or finds out whether it was done; `undefined` where the run has ended under it. */
  async #do(begun: StartedEffect, run: EffectBody, settings: EffectSettings): Promise<EffectResult | undefined> {
    const { journal, context, signal } = this.#host;
    const { index, started, recorded, kept } = begun;
    const { onUnknown } = settings;
    const unknown = recorded?.isUnknown ?? kept?.isUnknown ?? false;
    const before = journal.added;
    const describe = (): string => describeCall(started, context.registry);
    if (kept || (onUnknown !== "retry" && !unknown)) {
      // An intent that is written already, and that nobody has taken back, need not be written again.
      journal.add({ op: "start", index, started });
      begun.hasIntent = true;
    }
    if (unknown && onUnknown === "ask") return { question: unknownOutcomeQuestion(begun, context.registry) };
    if (unknown && onUnknown === "fail") return { outcome: { error: recordError(outcomeUnknown(started)) } };
    if (unknown && onUnknown === "verify") {
      const verdict = await this.#verify(begun, settings);
      if (!verdict) return undefined;
      if (verdict.happened) return this.#encode({ value: verdict.result }, settings, describe);
    }
    if (!(await this.#durable(before, !recorded && !kept)) || this.#over) {
      // The effect has not begun, and will not in this attempt, so its outcome is known.
      if (begun.hasIntent && !unknown) journal.add({ op: "again", index });
      return undefined;
    }
    const { kind, name, callId } = started;
    this.#host.emit({ type: "effect", kind, name, callId, phase: "start" });
    const { session, branch } = this.#host;
    const nested = (context: EffectContext): unknown =>
      currentScope.run({ session, branch, effect: name }, () => run(context));
    const attempted = await attemptEffect(nested, begun.key, settings, {
      signal,
      describe,
      onRetry: (attempt, error, delay) =>
        this.#host.emit({ type: "retry", name, attempt, delay, reason: describeThrown(error) }),
      onPart: settings.emit,
    });
    // It was told to stop, and did: whether it happened is as unknown as after a crash.
    if (signal.aborted && "error" in attempted) return undefined;
    if ("error" in attempted && this.#isForTheLoop(kind, settings)) throw attempted.error as Error;
    return this.#encode(attempted, settings, describe);
  }

  /**
   * Is an error for a loop outside alone? It asks a model again as it likes, and a tool that it has stopped itself may have
   * happened or not. What else a tool throws is its result.
   */
  #isForTheLoop(kind: EffectKind, { stopped }: EffectSettings): boolean {
    return this.#open && (kind !== "tool" || stopped?.aborted === true);
  }

  /** Writes down how it went, and gives it to the step when its turn has come. */
  async #record(begun: StartedEffect, { outcome, attempted, usage }: EffectEnd): Promise<unknown> {
    const { index, started, recorded, hasIntent } = begun;
    const { journal } = this.#host;
    // Who it was is written once, with its intent if it has one.
    const who = recorded || hasIntent ? {} : { started };
    journal.add({ op: "end", index, ...who, outcome, ...(usage && { usage }) });
    if (this.#over) return never();
    const { kind, name, callId } = started;
    const error = "error" in outcome ? { error: outcome.error.message } : {};
    this.#host.emit({ type: "effect", kind, name, callId, phase: "end", ...error });
    // What a loop outside makes of it is out of our sight, so it must be durable by then.
    if (this.#open) await journal.flush();
    return this.#give(begun, outcome, usage, attempted, (give) => this.#deliveries.deliverLive(give));
  }

  /** Gives the step a result that was recorded. */
  #replay(effect: RecordedEffect): Promise<unknown> {
    const outcome = effect.outcome as EffectOutcome;
    return this.#give(effect, outcome, effect.usage, undefined, (give) =>
      this.#open ? this.#deliveries.deliverLive(give) : this.#deliveries.recorded(effect, give),
    );
  }

  #give(
    { index, started }: { readonly index: number; readonly started: EffectStart },
    outcome: EffectOutcome,
    usage: EffectUsage | undefined,
    given: AttemptResult | undefined,
    deliver: (give: () => void) => void,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      deliver(() => {
        addUsage(this.#usage, usage);
        this.#noteDue(started.kind);
        if ("error" in outcome) {
          const error = reviveError(outcome.error, given && "error" in given ? stackOf(given.error) : undefined);
          this.#errors.set(error, { index, delivered: this.#deliveries.count });
          reject(error);
          return;
        }
        const value =
          given && "value" in given ? given.value : shadowToValue(outcome.value, this.#host.context.registry);
        if (started.kind === "llm") this.#noteReply(value, given !== undefined);
        resolve(value);
      });
    });
  }

  /** Is this what the strategy wants a checkpoint for? */
  #noteDue(kind: EffectKind): void {
    const event = kind === "tool" ? "toolCallComplete" : kind === "llm" ? "llmResponse" : undefined;
    const { definition, step } = this.#host;
    if (event && shouldCheckpoint(definition.strategy, event, step)) this.#due = TRIGGERS[event];
  }

  /** Looks whether the model goes round in circles. */
  #noteReply(reply: unknown, live: boolean): void {
    const verdict = this.#host.detector?.check(textOfReply(reply)) ?? "none";
    this.#loop = verdict;
    if (!live || verdict === "none") return;
    this.#host.emit({ type: "loop", verdict });
    if (verdict === "halt") this.#halt("the model repeats itself, and did not stop when it was noticed");
  }

  /** Numbers what the step starts, and checks that it is what it was; `undefined` if the step is over. */
  #begin(call: EffectCall): StartedEffect | undefined {
    if (this.#over) return undefined;
    const { session, branch, effect } = currentScope.getStore() ?? {};
    // Another session's may: its journal is its own.
    const own = session === this.#host.session && branch === this.#host.branch;
    if (own && effect !== undefined) throw nestedEffect(call, effect);
    const match = this.#matching.next(call);
    if ("differs" in match) {
      this.#differs(match.differs, call);
      return undefined;
    }
    const { index, recorded } = match;
    const key = this.#keys.next(index, call.callId);
    const known = this.#recorded.claimKept(call);
    const kept = recorded ? undefined : known;
    const started: EffectStart = recorded?.started ?? {
      ...call,
      at: kept?.started.at ?? this.#host.context.now(),
      delivered: this.#deliveries.count,
    };
    if (!IMMEDIATE_KINDS.has(call.kind)) this.#lastStart = Math.max(this.#lastStart, this.#deliveries.count);
    if (!recorded && call.kind === "llm") {
      const reason = this.#host.overLimit(this.#usage);
      if (reason !== undefined) {
        this.#halt(reason);
        return undefined;
      }
    }
    return { index, started, recorded, kept, hasIntent: false, key };
  }

  /**
   * Waits until everything so far is durable, and takes a checkpoint along if one is due; `false` where that failed.
   *
   * @param before how much was recorded before what begins now, which is not part of the checkpoint
   */
  async #durable(before: number, live: boolean): Promise<boolean> {
    const { journal } = this.#host;
    try {
      const trigger = this.#due;
      if (trigger !== undefined && live && this.#inFlight === 1) {
        this.#due = undefined;
        if (!(await this.#host.checkpoint(trigger, before))) this.#due = trigger;
      } else if (journal.hasPending) await journal.flush();
      else await journal.idle();
      await journal.checkLease();
      return true;
    } catch (error) {
      this.#fatal(error as Error);
      return false;
    }
  }

  /**
   * What the world says about a tool that was interrupted. If it says nothing, the attempt has failed: the step must not
   * go on as if the tool had.
   */
  async #verify({ started, key }: StartedEffect, { verify }: EffectSettings): Promise<Verdict | undefined> {
    const host = { signal: this.#host.signal, describe: () => "verify()", onRetry: () => {}, onPart: undefined };
    const asked = verify && (await attemptEffect(verify, key, { timeout: undefined, retry: {} }, host));
    const verdict = asked && "value" in asked ? (asked.value as Verdict | undefined) : undefined;
    if (typeof verdict?.happened === "boolean") return verdict;
    const advice = "verify() must return { happened: true, result } or { happened: false }.";
    const wrong = new SavepointError("INVALID_ARGUMENT", `${JSON.stringify(started.name)}: ${advice}`);
    this.#finish({ kind: "threw", error: asked && "error" in asked ? asked.error : wrong, index: undefined });
    return undefined;
  }

  /** A result in the form in which it is recorded. One that cannot be stored is recorded as the error that says so. */
  #encode(attempted: AttemptResult, settings: EffectSettings, describe: () => string): EffectEnd {
    if ("error" in attempted) return { outcome: { error: recordError(attempted.error) }, attempted: attempted };
    try {
      const value = settleValue(attempted.value, this.#host.context.registry);
      const usage = this.#usageOf(attempted.value, settings);
      return { outcome: { value }, attempted: attempted, ...(usage && { usage }) };
    } catch (error) {
      // Never left unknown: it has happened, whatever came of it.
      const message = `What ${describe()} returned cannot be stored, and this is recorded in its place. ${(error as Error).message}`;
      const refused = new SavepointError("INVALID_STATE", message, { cause: error });
      return { outcome: { error: recordError(refused) }, attempted: { error: refused } };
    }
  }

  /** What a reply has used. It is recorded all the same if nobody can tell. */
  #usageOf(reply: unknown, { usageOf }: EffectSettings): EffectUsage | undefined {
    try {
      return usageOf && parseUsage(usageOf(reply));
    } catch (error) {
      const message = "the function that tells what a reply has used has failed; it counts as nothing";
      this.#host.context.events.emit("backgroundFailure", { message, error });
      return undefined;
    }
  }

  /** Waits for an answer. Nothing that happens here can bring it. */
  #askFor(index: number, question: Question): Promise<never> {
    this.#suspensions.ask(index, question);
    this.#considerSuspending();
    return never();
  }

  /** Nothing under way, and the step waits for something: it can wait without us. */
  #considerSuspending(): void {
    if (this.#suspensions.size === 0 || this.#inFlight > 0 || this.#over || this.#isDone) return;
    setImmediate(() => {
      const waits = this.#suspensions.size > 0 && this.#inFlight === 0 && !this.#over && !this.#isDone;
      if (!waits || !this.#deliveries.isQuiet) return;
      // It has not asked for all that was recorded: give it time to.
      if (this.#deliveries.missing) return this.#deliveries.startTimeout();
      const { questions, wakeAt } = this.#suspensions;
      this.#finish({ kind: "suspended", questions, wakeAt });
    });
  }

  async #returned(returned: unknown): Promise<void> {
    this.#isDone = true;
    await this.settled();
    await this.#deliveries.drained();
    const { unmatched } = this.#matching;
    if (unmatched && !this.#over) return this.#differs(unmatched, undefined);
    const completion = returned instanceof Completion ? returned : this.#completion;
    if (returned !== undefined && !(returned instanceof Completion)) {
      const message = `A step returned ${describeThrown(returned).slice(0, 100)}. Return run.complete(output), run.fail(reason), run.halt(reason), or nothing to be called again.`;
      const error = new SavepointError("INVALID_ARGUMENT", message);
      return this.#finish({ kind: "threw", error, index: undefined });
    }
    this.#finish({ kind: "returned", completion });
  }

  async #threw(error: unknown): Promise<void> {
    this.#isDone = true;
    await this.settled();
    await this.#deliveries.drained();
    const from = isError(error) ? this.#errors.get(error) : undefined;
    // What was started after it was given may depend on it.
    const last = from && this.#lastStart < from.delivered;
    this.#finish({ kind: "threw", error, index: last ? from.index : undefined });
  }

  #halt(reason: string): void {
    this.#finish({ kind: "halted", reason });
  }

  #fatal(error: Error): void {
    this.#finish({ kind: "fatal", error });
  }

  #finish(end: StepEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#end(end);
  }

  /** The code does something else than it did. */
  #differs(recorded: RecordedEffect, called: EffectCall | undefined): void {
    const { session, step, context } = this.#host;
    this.#fatal(nondeterminism(session, step, recorded, called, context.registry, this.#open));
  }
}
