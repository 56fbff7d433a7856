/** One attempt of a step: runs the agent's function, does its effects or gives it what was recorded of them. */
import { createHash, randomUUID } from "node:crypto";
import { SavepointError } from "../errors.js";
import type { Usage } from "../model/checkpoint.js";
import type { Context } from "../model/context.js";
import type { ToolCall } from "../model/message.js";
import type { LoopVerdict, RunEventBody } from "../model/run-events.js";
import type { Question } from "../model/run-records.js";
import { cloneValue } from "../state/clone.js";
import { settleElement } from "../state/settle.js";
import { shadowToValue } from "../state/value.js";
import { type Duration, toMilliseconds } from "../store/duration.js";
import type { TakenDefinition } from "./agent.js";
import { type Attempted, attemptEffect } from "./attempt.js";
import { Completion } from "./completion.js";
import { Deliveries, describeCall, isSameCall, type RecordedEffect, RecordedEffects } from "./effects.js";
import type { Journal } from "./journal.js";
import type { EffectCall, EffectUsage, Entry, Outcome, Started } from "./journal-entry.js";
import type { LoopDetector } from "./loop-detector.js";
import { addUsage, textOfReply, usageOfReply } from "./reply.js";
import { recordError, reviveError } from "./recorded-error.js";
import type { AskOptions, EffectContext, EffectOptions, LlmContext, LlmOptions, Reply, Run, Verdict } from "./run.js";
import { shouldCheckpoint } from "./strategy.js";

/** How an attempt ended. */
export type StepEnd =
  | { readonly kind: "returned"; readonly completion: Completion<unknown> | undefined }
  /** @property index the effect whose error it is, where nothing was started after it */
  | { readonly kind: "threw"; readonly error: unknown; readonly index: number | undefined }
  | { readonly kind: "suspended"; readonly questions: readonly Question[]; readonly wakeAt: number | undefined }
  | { readonly kind: "halted"; readonly reason: string }
  | { readonly kind: "fatal"; readonly error: Error };

/** What a step needs of the run it belongs to. */
export interface StepHost {
  readonly context: Context;
  readonly definition: TakenDefinition;
  readonly session: string;
  readonly branch: string;
  readonly step: number;
  readonly turn: number;
  readonly journal: Journal;
  readonly signal: AbortSignal;
  readonly detector: LoopDetector | undefined;
  /** What the session had used when the step began. */
  readonly usage: Usage | undefined;
  /** Makes idempotency keys different from those of every other step. */
  readonly keySeed: string;
  /** Why the run must not go on, if it must not. */
  overLimit(usage: Required<Usage>): string | undefined;
  /** Takes a checkpoint in the middle of the step, with everything that is to be recorded. */
  checkpoint(trigger: string, entries: number): Promise<void>;
  emit(event: RunEventBody): void;
}

/** Something that the step waits for and that no process needs to wait for. */
interface Suspension {
  readonly question?: Question;
  readonly wakeAt?: number;
  readonly timer?: NodeJS.Timeout;
}

/** A started effect: its number, and what is known about it. */
interface Begun {
  readonly index: number;
  readonly started: Started;
  readonly recorded: RecordedEffect | undefined;
  /** What is known of it from before the step was begun anew. */
  readonly kept: RecordedEffect | undefined;
  /** Was it written in this attempt that it begins? */
  intent: boolean;
}

/** How an effect ended. */
interface Ended {
  readonly outcome: Outcome;
  /** What its function returned or threw, in this very attempt. */
  readonly given?: Attempted;
  readonly usage?: EffectUsage;
}

/** It has ended, or somebody has to say whether it had. */
type Done = Ended | { readonly question: Question };

const NEVER = new Promise<never>(() => {});
/** Longer timers overflow. */
const MAX_TIMER = 2 ** 31 - 1;

export class Step implements Run {
  state: unknown;
  readonly #host: StepHost;
  readonly #recorded: RecordedEffects;
  readonly #deliveries: Deliveries;
  readonly #usage: Required<Usage>;
  readonly #suspended = new Map<number, Suspension>();
  readonly #calls = new Map<string, number>();
  /** Errors that were given to the step, by the effects they came from. */
  readonly #errors = new Map<Error, { index: number; delivered: number }>();
  #next = 0;
  #inFlight = 0;
  #lastStart = 0;
  #loop: LoopVerdict = "none";
  #waited = false;
  #completion: Completion<unknown> | undefined;
  /** What has happened that the strategy wants a checkpoint for. */
  #due: string | undefined;
  #over = false;
  #end: (end: StepEnd) => void = () => {};
  readonly #settlers: (() => void)[] = [];

  constructor(host: StepHost, state: unknown, entries: readonly Entry[]) {
    this.#host = host;
    this.state = state;
    this.#recorded = new RecordedEffects(entries);
    this.#usage = { tokens: host.usage?.tokens ?? 0, cost: host.usage?.cost ?? 0 };
    this.#deliveries = new Deliveries(this.#recorded.ordered, (effect) => this.#differs(effect, undefined));
  }

  get session(): string {
    return this.#host.session;
  }

  get branch(): string {
    return this.#host.branch;
  }

  get step(): number {
    return this.#host.step;
  }

  get turn(): number {
    return this.#host.turn;
  }

  get signal(): AbortSignal {
    return this.#host.signal;
  }

  get usage(): Required<Usage> {
    return { ...this.#usage };
  }

  get loop(): LoopVerdict {
    return this.#loop;
  }

  /** Did it sleep, or ask somebody? */
  get waited(): boolean {
    return this.#waited;
  }

  /** Is something asked for that stays in the history? */
  get due(): string | undefined {
    return this.#due;
  }

  /** Effects that are under way. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Runs the agent's function until it returns, throws, or waits for what no process needs to wait for. */
  async execute(): Promise<StepEnd> {
    const ended = new Promise<StepEnd>((resolve) => (this.#end = resolve));
    const { definition } = this.#host;
    // Its own promise, so that what it throws synchronously is no different.
    void Promise.resolve()
      .then(() => definition.step(this))
      .then(
        (returned) => this.#returned(returned),
        (error: unknown) => this.#threw(error),
      );
    const end = await ended;
    this.#over = true;
    this.#deliveries.close();
    for (const { timer } of this.#suspended.values()) clearTimeout(timer);
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

  update(change: (state: unknown) => unknown): void {
    const next = change(this.state);
    if (next !== undefined) this.state = next;
  }

  async llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options: LlmOptions<Awaited<Result>> = {},
  ): Promise<Reply<Awaited<Result>>> {
    const { name = "llm", input } = options;
    const { registry } = this.#host.context;
    const args = input === undefined ? {} : { args: hashOf(JSON.stringify(cloneValue(input, registry))) };
    const emit = (delta: unknown): void => {
      if (!this.#over) this.#host.emit({ type: "delta", name, delta });
    };
    const withEmit = (context: EffectContext): Result | Promise<Result> => call({ ...context, emit });
    const usageOf = (options.usage ?? usageOfReply) as (reply: unknown) => EffectUsage | undefined;
    const settings = { onUnknown: "retry", ...options, retry: options.retry ?? {}, usageOf, emit } as EffectSettings;
    return this.#effect({ kind: "llm", name, ...args }, withEmit, settings) as Promise<Reply<Awaited<Result>>>;
  }

  async tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    options: EffectOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    const { id, name } = checkCall(call);
    const args = cloneValue(call.arguments, this.#host.context.registry);
    const settings = { onUnknown: "ask", ...options } as EffectSettings;
    return this.#effect({ kind: "tool", name, callId: id, args }, run, settings) as Promise<Awaited<Result>>;
  }

  async effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options: EffectOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    const settings = { onUnknown: "retry", ...options } as EffectSettings;
    return this.#effect({ kind: "effect", name: String(name) }, run, settings) as Promise<Awaited<Result>>;
  }

  now(): number {
    return this.#immediate("now", () => this.#host.context.now());
  }

  random(): number {
    return this.#immediate("random", () => Math.random());
  }

  uuid(): string {
    return this.#immediate("uuid", () => randomUUID());
  }

  async sleep(time: Duration | Date): Promise<void> {
    const until = time instanceof Date ? time.getTime() : this.#host.context.now() + toMilliseconds(time, "sleep");
    if (!Number.isFinite(until)) throw new SavepointError("INVALID_ARGUMENT", "run.sleep() was given no valid time.");
    this.#waited = true;
    const begun = this.#begin({ kind: "sleep", name: "sleep" }, until);
    if (!begun) return NEVER;
    const { index, recorded } = begun;
    if (recorded?.outcome) return this.#replay(recorded) as Promise<void>;
    if (!recorded) this.#host.journal.add({ op: "start", index, started: begun.started });
    const wakeAt = recorded?.started.until ?? until;
    return this.#suspend(index, { wakeAt }) as Promise<void>;
  }

  async ask<Answer>(question: string | AskOptions): Promise<Answer> {
    const { text, data } = typeof question === "string" ? { text: question, data: undefined } : question;
    if (typeof text !== "string" || text === "") {
      throw new SavepointError(
        "INVALID_ARGUMENT",
        "run.ask() needs a text: run.ask(question) or run.ask({ text, data }).",
      );
    }
    this.#waited = true;
    const begun = this.#begin({ kind: "ask", name: text });
    if (!begun) return NEVER;
    const { index, recorded, started } = begun;
    if (recorded?.outcome) return this.#replay(recorded) as Promise<Answer>;
    if (!recorded) this.#host.journal.add({ op: "start", index, started });
    const asked: Question = { id: `q${index}`, kind: "ask", text, ...(data !== undefined && { data }) };
    return this.#suspend(index, { question: asked }) as Promise<Answer>;
  }

  complete<Output>(output?: Output): Completion<Output> {
    // What cannot be stored is told where it is said.
    cloneValue(output, this.#host.context.registry);
    return this.#complete(new Completion<Output>("completed", output, undefined));
  }

  fail(reason: string): Completion<never> {
    return this.#complete(new Completion<never>("failed", undefined, String(reason)));
  }

  halt(reason: string): Completion<never> {
    return this.#complete(new Completion<never>("halted", undefined, String(reason)));
  }

  #complete<Output>(completion: Completion<Output>): Completion<Output> {
    this.#completion = completion;
    return completion;
  }

  /** Anything that is recorded when it is done. */
  async #effect(call: EffectCall, run: EffectBody, settings: EffectSettings): Promise<unknown> {
    const begun = this.#begin(call);
    if (!begun) return NEVER;
    if (begun.recorded?.outcome) return this.#replay(begun.recorded);
    this.#inFlight++;
    let done: Done | undefined;
    try {
      done = begun.kept?.outcome ? { outcome: begun.kept.outcome } : await this.#do(begun, run, settings);
    } finally {
      this.#inFlight--;
      for (const settle of this.#settlers.splice(0)) settle();
      this.#considerSuspending();
    }
    if (!done) return NEVER;
    return "question" in done ? this.#suspend(begun.index, done) : this.#record(begun, done);
  }

  /** Does it, or finds out whether it was done; `undefined` where the run has ended under it. */
  async #do(begun: Begun, run: EffectBody, settings: EffectSettings): Promise<Done | undefined> {
    const { journal, context, signal } = this.#host;
    const { index, started, recorded, kept } = begun;
    const { onUnknown } = settings;
    const idempotencyKey = this.#keyOf(started, index);
    const unknown = recorded?.unknown ?? kept?.unknown ?? false;
    const before = journal.added;
    if (kept || (onUnknown !== "retry" && !unknown)) {
      // An intent that is written already, and that nobody has taken back, need not be written again.
      journal.add({ op: "start", index, started });
      begun.intent = true;
    }
    if (unknown && onUnknown === "ask") return { question: this.#whetherItHappened(begun) };
    if (unknown && onUnknown === "fail") return { outcome: { error: recordError(this.#outcomeUnknown(begun)) } };
    if (unknown && onUnknown === "verify") {
      const verdict = await this.#verify(begun, settings, idempotencyKey);
      if (verdict.happened) return this.#encode({ value: verdict.result }, settings);
    }
    if (!(await this.#durable(before, !recorded && !kept)) || this.#over) return undefined;
    const { kind, name, callId } = started;
    this.#host.emit({ type: "effect", kind, name, callId, phase: "start" });
    const attempted = await attemptEffect(run, idempotencyKey, settings, {
      signal,
      describe: () => describeCall(started, context.registry),
      onRetry: (attempt, error, delay) =>
        this.#host.emit({ type: "retry", name, attempt, delay, reason: String(error) }),
      onPart: settings.emit,
    });
    // It was told to stop, and did: whether it happened is as unknown as after a crash.
    if (signal.aborted && "error" in attempted) return undefined;
    return this.#encode(attempted, settings);
  }

  /** Writes down how it went, and gives it to the step when its turn has come. */
  #record(begun: Begun, { outcome, given, usage }: Ended): Promise<unknown> {
    const { index, started, recorded, intent } = begun;
    const { journal, definition } = this.#host;
    // Who it was is written once, with its intent if it has one.
    const who = recorded || intent ? {} : { started };
    journal.add({ op: "end", index, ...who, outcome, ...(usage && { usage }) });
    if (this.#over) return NEVER;
    const { kind, name, callId } = started;
    const error = "error" in outcome ? { error: outcome.error.message } : {};
    this.#host.emit({ type: "effect", kind, name, callId, phase: "end", ...error });
    const event = kind === "tool" ? "toolCallComplete" : kind === "llm" ? "llmResponse" : undefined;
    if (event && shouldCheckpoint(definition.strategy, event, this.step)) this.#due = TRIGGERS[event];
    return this.#give(begun, outcome, usage, given, (give) => this.#deliveries.live(give));
  }

  /** Gives the step a result that was recorded. */
  #replay(effect: RecordedEffect): Promise<unknown> {
    const outcome = effect.outcome as Outcome;
    return this.#give(effect, outcome, effect.usage, undefined, (give) => this.#deliveries.recorded(effect, give));
  }

  #give(
    { index, started }: { readonly index: number; readonly started: Started },
    outcome: Outcome,
    usage: EffectUsage | undefined,
    given: Attempted | undefined,
    deliver: (give: () => void) => void,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      deliver(() => {
        addUsage(this.#usage, usage);
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

  /** Looks whether the model goes round in circles. */
  #noteReply(reply: unknown, live: boolean): void {
    const verdict = this.#host.detector?.check(textOfReply(reply)) ?? "none";
    this.#loop = verdict;
    if (!live || verdict === "none") return;
    this.#host.emit({ type: "loop", verdict });
    if (verdict === "halt") this.#halt("the model repeats itself, and did not stop when it was noticed");
  }

  /** Numbers what the step starts, and checks that it is what it was; `undefined` if the step is over. */
  #begin(call: EffectCall, until?: number): Begun | undefined {
    if (this.#over) return undefined;
    const index = this.#next++;
    const recorded = this.#recorded.byIndex.get(index);
    if (recorded && !isSameCall(recorded.started, call, this.#host.context.registry)) {
      this.#differs(recorded, call);
      return undefined;
    }
    const kept = recorded ? undefined : this.#takeKept(call);
    const started: Started = recorded?.started ?? {
      ...call,
      at: kept?.started.at ?? this.#host.context.now(),
      delivered: this.#deliveries.count,
      ...(until !== undefined && { until }),
    };
    this.#lastStart = Math.max(this.#lastStart, this.#deliveries.count);
    if (!recorded && call.kind === "llm") {
      const reason = this.#host.overLimit(this.#usage);
      if (reason !== undefined) {
        this.#halt(reason);
        return undefined;
      }
    }
    return { index, started, recorded, kept, intent: false };
  }

  /** What is known of a tool from before its step was begun anew. */
  #takeKept({ callId, name }: EffectCall): RecordedEffect | undefined {
    const kept = callId === undefined ? undefined : this.#recorded.kept.get(callId);
    if (callId === undefined || kept?.started.name !== name) return undefined;
    this.#recorded.kept.delete(callId);
    return kept;
  }

  #immediate<T extends string | number>(kind: "now" | "random" | "uuid", make: () => T): T {
    const begun = this.#begin({ kind, name: kind });
    if (!begun) throw new SavepointError("CLOSED", `run.${kind}() was called after the step was over.`);
    const { index, recorded, started } = begun;
    if (recorded?.outcome && "value" in recorded.outcome) return recorded.outcome.value as T;
    const value = make();
    this.#host.journal.add({ op: "end", index, started, outcome: { value } });
    return value;
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
        await this.#host.checkpoint(trigger, before);
      } else if (journal.hasPending) await journal.flush();
      else await journal.idle();
      return true;
    } catch (error) {
      this.#fatal(error as Error);
      return false;
    }
  }

  /** What the world says about a tool that was interrupted. */
  async #verify({ started }: Begun, { verify }: EffectSettings, idempotencyKey: string): Promise<Verdict> {
    const verdict = await verify?.({ idempotencyKey, signal: this.#host.signal, attempt: 1 });
    if (typeof verdict?.happened === "boolean") return verdict;
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `${JSON.stringify(started.name)} has onUnknown: "verify": that needs a function verify, which returns { happened: true, result } or { happened: false }.`,
    );
  }

  #whetherItHappened({ index, started }: Begun): Question {
    const { name, at, callId = "", args } = started;
    const given = args === undefined ? undefined : shadowToValue(args, this.#host.context.registry);
    const call: ToolCall = { id: callId, name, ...(given !== undefined && { arguments: given }) };
    const text = `${JSON.stringify(name)} was started at ${new Date(at).toISOString()} and interrupted before its result was recorded. Did it happen? Answer { happened: true, result } or { happened: false }.`;
    return { id: `q${index}`, kind: "unknown", text, call, startedAt: at };
  }

  #outcomeUnknown({ started }: Begun): SavepointError {
    return new SavepointError(
      "OUTCOME_UNKNOWN",
      `${JSON.stringify(started.name)} was interrupted, and nobody knows whether it happened.`,
    );
  }

  /** A result in the form in which it is recorded. One that cannot be stored is recorded as the error that says so. */
  #encode(attempted: Attempted, settings: EffectSettings): Ended {
    if ("error" in attempted) return { outcome: { error: recordError(attempted.error) }, given: attempted };
    try {
      const usage = settings.usageOf?.(attempted.value);
      const value = settleElement(cloneValue(attempted.value, this.#host.context.registry));
      return { outcome: { value }, given: attempted, ...(usage && { usage }) };
    } catch (error) {
      return { outcome: { error: recordError(error) }, given: { error } };
    }
  }

  #keyOf({ callId }: EffectCall, index: number): string {
    const name = callId === undefined ? `#${index}` : `=${callId}`;
    const nth = this.#calls.get(name) ?? 0;
    this.#calls.set(name, nth + 1);
    return hashOf(`${this.#host.keySeed} ${name} ${nth}`);
  }

  /** Waits for what no process needs to wait for. When nothing else is under way, the run is put aside. */
  #suspend(index: number, { question, wakeAt }: { question?: Question; wakeAt?: number }): Promise<unknown> {
    const wake = (): void => {
      this.#suspended.delete(index);
      const outcome = { value: cloneValue(undefined, this.#host.context.registry) };
      this.#host.journal.add({ op: "end", index, outcome });
      this.#deliveries.live(() => resolve(undefined));
    };
    let resolve: (value: unknown) => void = () => {};
    const woken = new Promise((settle) => (resolve = settle));
    const left = wakeAt === undefined ? Number.POSITIVE_INFINITY : wakeAt - this.#host.context.now();
    if (left <= 0) wake();
    else {
      const timer = left <= MAX_TIMER ? { timer: setTimeout(wake, left) } : {};
      this.#suspended.set(index, { ...(question && { question }), ...(wakeAt !== undefined && { wakeAt }), ...timer });
      this.#considerSuspending();
    }
    return woken;
  }

  /** Nothing under way, and the step waits for something: it can wait without us. */
  #considerSuspending(): void {
    if (this.#suspended.size === 0 || this.#inFlight > 0 || this.#over) return;
    setImmediate(() => {
      const waits = this.#suspended.size > 0 && this.#inFlight === 0 && !this.#over;
      if (!waits || this.#deliveries.missing) return;
      if (!this.#deliveries.isQuiet) return this.#considerSuspending();
      const waiting = [...this.#suspended.values()];
      const times = waiting.flatMap(({ wakeAt }) => (wakeAt === undefined ? [] : [wakeAt]));
      this.#finish({
        kind: "suspended",
        questions: waiting.flatMap(({ question }) => (question ? [question] : [])),
        wakeAt: times.length > 0 ? Math.min(...times) : undefined,
      });
    });
  }

  async #returned(returned: unknown): Promise<void> {
    await this.settled();
    const unasked = this.#deliveries.missing ?? this.#unasked();
    if (unasked && !this.#over) return this.#differs(unasked, undefined);
    const completion = returned instanceof Completion ? returned : this.#completion;
    this.#finish({ kind: "returned", completion });
  }

  async #threw(error: unknown): Promise<void> {
    await this.settled();
    const from = error instanceof Error ? this.#errors.get(error) : undefined;
    // What was started after it was given may depend on it.
    const last = from && this.#lastStart < from.delivered;
    this.#finish({ kind: "threw", error, index: last ? from.index : undefined });
  }

  /** An effect that was recorded and that the step has not started this time. */
  #unasked(): RecordedEffect | undefined {
    return [...this.#recorded.byIndex.values()].find(({ index }) => index >= this.#next);
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
    const { registry } = this.#host.context;
    const before = describeCall(recorded.started, registry);
    const now = called ? describeCall(called, registry) : "nothing of the kind";
    const { session, step } = this.#host;
    this.#fatal(
      new SavepointError(
        "NONDETERMINISM",
        `Step ${step} of session ${JSON.stringify(session)} does not do what it did before it was interrupted: its effect number ${recorded.index + 1} was ${before}, and is ${now}. Nothing was lost. Run it with the code it was started with; or with { restartStep: true }, which begins the step anew and keeps what its tools have answered.`,
        { details: { sessionId: session, step, index: recorded.index, recorded: before, called: now } },
      ),
    );
  }
}

type EffectBody = (context: EffectContext) => unknown;

interface EffectSettings extends EffectOptions {
  readonly onUnknown: NonNullable<EffectOptions["onUnknown"]>;
  readonly usageOf?: (reply: unknown) => EffectUsage | undefined;
  readonly emit?: (delta: unknown) => void;
  readonly verify?: (context: EffectContext) => Verdict | Promise<Verdict>;
}

const TRIGGERS = { toolCallComplete: "toolCall", llmResponse: "llmResponse" } as const;

function checkCall(call: ToolCall): ToolCall {
  const { id, name } = (call ?? {}) as Partial<ToolCall>;
  if (typeof id === "string" && id !== "" && typeof name === "string" && name !== "") return call;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    "run.tool() needs a call: { id, name, arguments }, with texts as id and name.",
  );
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined;
}
