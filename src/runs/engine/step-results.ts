/** The results that a step has received, and what follows from them: usage, loop detection and checkpoint triggers. */
import { isSavepointError } from "../../errors.js";
import type { Usage } from "../../records/index.js";
import type { EffectKind, LoopVerdict } from "../../events/index.js";
import { shadowToValue } from "../../state/index.js";
import { shouldCheckpoint } from "../agent/index.js";
import { type EffectStart, isError, reviveError } from "../journal/index.js";
import type { AttemptResult } from "./attempt.js";
import { addUsage, textOfReply } from "./reply.js";
import { isProgrammingError, mayPass } from "./run-error.js";
import type { EffectEnd, StartedEffect, StepHost } from "./step-types.js";

const TRIGGERS = { toolCallComplete: "toolCall", llmResponse: "llmResponse" } as const;

const MAX_CAUSES = 8;

/** The effect that an error comes from. */
interface ErrorSource {
  readonly index: number;
  readonly started: EffectStart;
  /** The number of results delivered so far, including this one. */
  readonly delivered: number;
  /** The error that the step got. */
  readonly error: Error;
}

/** An outcome that is delivered to the step. */
export interface DeliveredOutcome extends EffectEnd {
  readonly effect: Pick<StartedEffect, "index" | "started">;
}

export class StepResults {
  readonly usage: Required<Usage>;
  /** The verdict on the last reply of a model. */
  loop: LoopVerdict = "none";
  /** The trigger of a checkpoint that the strategy wants and that is not saved yet. */
  pendingTrigger: string | undefined;
  readonly #host: StepHost;
  readonly #onHalt: (reason: string) => void;
  /** The errors that the step has received, with the effects that threw them. */
  readonly #errors = new Map<Error, ErrorSource>();

  constructor(host: StepHost, onHalt: (reason: string) => void) {
    this.#host = host;
    this.#onHalt = onHalt;
    this.usage = { tokens: host.usage?.tokens ?? 0, cost: host.usage?.cost ?? 0 };
  }

  /**
   * Converts a delivered outcome to the value or the error that the step gets.
   *
   * @param delivered the number of results delivered so far, including this one
   */
  receive({ effect, outcome, usage, attempted }: DeliveredOutcome, delivered: number): AttemptResult {
    const { index, started } = effect;
    addUsage(this.usage, usage);
    this.#updateTrigger(started.kind);
    if ("error" in outcome) {
      const error = reviveError(outcome.error, attempted && "error" in attempted ? attempted.error : undefined);
      this.#errors.set(error, { index, started, delivered, error });
      return { error };
    }
    const value =
      attempted && "value" in attempted ? attempted.value : shadowToValue(outcome.value, this.#host.context.registry);
    if (started.kind === "llm") this.#checkLoop(value, attempted !== undefined);
    return { value };
  }

  /**
   * The effect that threw an error of the step, and the number of results delivered with it. The step may have thrown the error
   * of the effect itself, or another error that has it as a cause.
   */
  sourceOf(error: unknown, depth = 0): ErrorSource | undefined {
    if (!isError(error) || depth > MAX_CAUSES) return undefined;
    const source = this.#errors.get(error);
    if (source) return source;
    try {
      const joined = error instanceof AggregateError ? error.errors : [];
      for (const cause of [error.cause, ...joined]) {
        const found = this.sourceOf(cause, depth + 1);
        if (found) return found;
      }
    } catch {
      // A getter of the error has thrown.
    }
    return undefined;
  }

  /**
   * The effects to execute again: the given one, which failed, and those that the step started in parallel and that failed after
   * it in the same way. An effect that failed with an error of Savepoint, such as an unknown outcome, is included only if the
   * error may be temporary.
   */
  failedFrom(source: ErrorSource): number[] {
    const isBug = isProgrammingError(source.error);
    const failed = [...this.#errors.values()].filter(
      (each) =>
        each === source ||
        (each.delivered > source.delivered &&
          isProgrammingError(each.error) === isBug &&
          (!isSavepointError(each.error) || mayPass(each.error))),
    );
    return failed.map(({ index }) => index);
  }

  #updateTrigger(kind: EffectKind): void {
    const event = kind === "tool" ? "toolCallComplete" : kind === "llm" ? "llmResponse" : undefined;
    const { definition, step } = this.#host;
    if (event && shouldCheckpoint(definition.strategy, event, step)) this.pendingTrigger = TRIGGERS[event];
  }

  /** Checks whether the model repeats itself. A replayed reply only updates the detector. */
  #checkLoop(reply: unknown, isLive: boolean): void {
    const verdict = this.#host.detector?.check(textOfReply(reply)) ?? "none";
    this.loop = verdict;
    if (!isLive || verdict === "none") return;
    this.#host.emit({ type: "loop", verdict });
    if (verdict === "halt") this.#onHalt("the model repeats itself, and did not stop when it was warned");
  }
}
