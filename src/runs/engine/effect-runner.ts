/** Executes the effects of a step that have no recorded result, and applies their policy if their outcome is unknown. */
import { invalidArgument } from "../../util/index.js";
import { SavepointError } from "../../errors.js";
import type { EffectContext, Verdict } from "../agent/index.js";
import {
  describeCall,
  describeThrown,
  type EffectUsage,
  type JournalOperation,
  recordError,
  settleValue,
} from "../journal/index.js";
import { attemptEffect, type AttemptResult } from "./attempt.js";
import { parseUsage } from "./reply.js";
import { outcomeUnknown, unknownOutcomeQuestion } from "./step-errors.js";
import { currentScope } from "./step-scope.js";
import type { EffectBody, EffectEnd, EffectResult, EffectSettings, StartedEffect, StepHost } from "./step-types.js";

/** The step that the effects belong to. */
export interface EffectOwner {
  /** Whether the attempt of the step has ended. */
  readonly isOver: boolean;
  /** Whether all entries so far are durable and the lease is valid, so that {@link makeDurable} has nothing to do. */
  readonly isDurable: boolean;
  /**
   * Makes all entries so far durable, and checks the lease; `false` if that failed.
   *
   * @param entriesBefore the number of entries before the effect
   * @param isNew whether nothing was recorded of the effect before
   */
  makeDurable(entriesBefore: number, isNew: boolean): Promise<boolean>;
  /** Ends the attempt of the step with an error. */
  fail(error: unknown): void;
  /** Adds an entry to the journal. */
  record(entry: JournalOperation): void;
}

/**
 * Returns whether the start of an effect must be recorded before it is executed. A start that is recorded, and was not
 * revoked, is not recorded again.
 */
export function needsIntent({ recorded, kept }: StartedEffect, { onUnknown }: EffectSettings): boolean {
  if (kept) return kept.outcome === undefined;
  return onUnknown !== "retry" && !recorded?.isUnknown;
}

export class EffectRunner {
  readonly #host: StepHost;
  readonly #owner: EffectOwner;

  constructor(host: StepHost, owner: EffectOwner) {
    this.#host = host;
    this.#owner = owner;
  }

  /**
   * Executes an effect, or finds out whether it was executed. Returns `undefined` if the run has ended before the effect has a
   * known outcome.
   */
  async perform(effect: StartedEffect, run: EffectBody, settings: EffectSettings): Promise<EffectResult | undefined> {
    const { journal, context } = this.#host;
    const { index, started, recorded, kept } = effect;
    const { onUnknown } = settings;
    const isUnknown = recorded?.isUnknown ?? kept?.isUnknown ?? false;
    const entriesBefore = journal.added;
    const hasIntent = needsIntent(effect, settings);
    if (hasIntent) this.#owner.record({ op: "start", index, started });
    if (isUnknown && onUnknown === "ask") return { question: unknownOutcomeQuestion(effect, context.registry) };
    if (isUnknown && onUnknown === "fail") return { outcome: { error: recordError(outcomeUnknown(started)) } };
    if (isUnknown && onUnknown === "verify") {
      const verdict = await this.#verify(effect, settings);
      if (!verdict) return undefined;
      if (verdict.happened) {
        return { ...this.#encode(effect, { value: verdict.result }, settings), settledBy: "verify" };
      }
    }
    // The function is never called before this call has returned.
    const isDurable = await (this.#owner.isDurable || this.#owner.makeDurable(entriesBefore, !recorded && !kept));
    if (!isDurable || this.#owner.isOver) {
      // The effect has not started, and will not in this attempt, so its outcome is known.
      if (hasIntent && !isUnknown) this.#owner.record({ op: "again", index });
      return undefined;
    }
    return await this.#execute(effect, run, settings);
  }

  async #execute(effect: StartedEffect, run: EffectBody, settings: EffectSettings): Promise<EffectEnd | undefined> {
    const { session, branch, signal, definition } = this.#host;
    const { kind, name, callId } = effect.started;
    this.#host.emit({ type: "effect", kind, name, callId, phase: "start" });
    const scoped = (context: EffectContext): unknown =>
      currentScope.run({ session, branch, effect: name }, () => run(context));
    const { emit } = settings;
    // The deltas of an attempt that has failed or was interrupted are invalid.
    const retract = (): void => this.#host.recorder.retract([this.#host.step, effect.index]);
    retract();
    const attempted = await attemptEffect(scoped, effect.key, settings, {
      signal,
      describe: () => this.#describe(effect),
      onRetry: (attempt, attempts, error, delay) => {
        retract();
        this.#host.emit({ type: "retry", kind, name, attempt, attempts, delay, reason: describeThrown(error) });
      },
      onPart: emit && ((part) => emit(part, effect.index)),
    });
    if ("error" in attempted) retract();
    // It was aborted while it was executed: its outcome is as unknown as after a crash.
    if (signal.aborted && "error" in attempted) return undefined;
    // An external loop retries models as it likes, and a tool that it has stopped itself has an unknown outcome. Neither error
    // is recorded.
    const isForLoop = definition.open && (kind !== "tool" || settings.stopped?.aborted === true);
    if ("error" in attempted && isForLoop) throw attempted.error as Error;
    const { attempts, took } = attempted;
    const { outcome, attempted: result, usage } = this.#encode(effect, attempted, settings);
    return { outcome, attempted: result, usage, attempts, took };
  }

  /**
   * Asks the outside world whether an interrupted effect happened. Without an answer the attempt of the step fails: it must not
   * continue as if the effect had failed.
   */
  async #verify({ started, key }: StartedEffect, { verify }: EffectSettings): Promise<Verdict | undefined> {
    const host = { signal: this.#host.signal, describe: () => "verify()", onRetry: () => {}, onPart: undefined };
    const attempted = verify && (await attemptEffect(verify, key, { timeout: undefined, retry: {} }, host));
    const verdict = attempted && "value" in attempted ? (attempted.value as Verdict | undefined) : undefined;
    if (typeof verdict?.happened === "boolean") return verdict;
    const expected = "verify() must return { happened: true, result } or { happened: false }.";
    const invalid = invalidArgument(`${JSON.stringify(started.name)}: ${expected}`);
    this.#owner.fail(attempted && "error" in attempted ? attempted.error : invalid);
    return undefined;
  }

  /** Converts a result to its recorded form. A result with unsupported values is recorded as an error. */
  #encode(effect: StartedEffect, attempted: AttemptResult, settings: EffectSettings): EffectEnd {
    if ("error" in attempted) return { outcome: { error: recordError(attempted.error) }, attempted };
    try {
      const value = settleValue(attempted.value, this.#host.context.registry);
      return { outcome: { value }, attempted, usage: this.#usageOf(attempted.value, settings) };
    } catch (error) {
      // The effect has happened, so it must have a recorded outcome.
      const message = `The result of ${this.#describe(effect)} cannot be stored, and this error is recorded in its place. ${(error as Error).message}`;
      const invalid = new SavepointError("INVALID_STATE", message, { cause: error });
      return { outcome: { error: recordError(invalid) }, attempted: { error: invalid } };
    }
  }

  /** The usage of a reply. A reply is recorded even if its usage cannot be read. */
  #usageOf(reply: unknown, { usageOf }: EffectSettings): EffectUsage | undefined {
    try {
      return usageOf && parseUsage(usageOf(reply));
    } catch (error) {
      const message = "the function that reads the usage of a reply has thrown; the reply counts as no usage";
      this.#host.context.events.emit("backgroundFailure", { message, error });
      return undefined;
    }
  }

  #describe({ started }: StartedEffect): string {
    return describeCall(started, this.#host.context.registry);
  }
}
