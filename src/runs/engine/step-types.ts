/** The types that the parts of a step share. */
import type { Question, Usage } from "../../records/index.js";
import type { Context } from "../../context.js";
import type { RunEventBody } from "../../events/index.js";
import type { Duration } from "../../util/index.js";
import type {
  AgentSpec,
  Completion,
  EffectContext,
  LoopDetector,
  RetryOptions,
  UnknownPolicy,
  Verdict,
} from "../agent/index.js";
import type { StreamRecorder } from "../streams/index.js";
import type { AttemptResult } from "./attempt.js";
import type {
  EffectOutcome,
  EffectStart,
  EffectUsage,
  Journal,
  KeySeed,
  RecordedEffect,
  Settler,
} from "../journal/index.js";

/** How an attempt of a step ended. */
export type StepEnd =
  | { readonly kind: "returned"; readonly completion: Completion<unknown> | undefined }
  /**
   * @property failed the effects to be executed again, because they failed and no effect was started after that
   * @property isOwn whether it is an error of the agent's code, so that another attempt would throw it again
   * @property unstored the start of an effect that was executed and returned a value that cannot be stored, if that is the error
   */
  | {
      readonly kind: "threw";
      readonly error: unknown;
      readonly failed: readonly number[];
      readonly isOwn: boolean;
      readonly unstored?: { readonly index: number; readonly started: EffectStart } | undefined;
    }
  | { readonly kind: "suspended"; readonly questions: readonly Question[]; readonly wakeAt: number | undefined }
  | { readonly kind: "halted"; readonly reason: string }
  | { readonly kind: "fatal"; readonly error: Error };

/** The run that a step belongs to. */
export interface StepHost {
  readonly context: Context;
  readonly definition: AgentSpec;
  readonly session: string;
  readonly branch: string;
  readonly step: number;
  readonly turn: number;
  readonly journal: Journal;
  readonly recorder: StreamRecorder;
  readonly signal: AbortSignal;
  readonly detector: LoopDetector | undefined;
  /** The usage of the session when the step started. */
  readonly usage: Usage | undefined;
  /** Differs for each step of each session, for idempotency keys. */
  readonly keySeed: KeySeed;
  /** The reason to halt the run, if the usage has reached a limit. */
  overLimit(usage: Required<Usage>): string | undefined;
  /**
   * Makes all entries durable, and saves a checkpoint that contains the first `entries` of them; `false` if later entries are
   * already durable, so that no such checkpoint can be saved.
   */
  checkpoint(trigger: string, entries: number): Promise<boolean>;
  /**
   * Saves a checkpoint of the state and the entries of this moment with the next write. The state must not be modified until the
   * promise resolves.
   */
  checkpointWithNext(trigger: string): Promise<void>;
  emit(event: RunEventBody): void;
}

/** An effect that the step has started in this attempt. */
export interface StartedEffect {
  readonly index: number;
  readonly started: EffectStart;
  readonly recorded: RecordedEffect | undefined;
  /** The record of the same tool call, from before the step was restarted. */
  readonly kept: RecordedEffect | undefined;
  /** Computes its idempotency key. */
  readonly key: () => string;
}

/** The outcome of an effect in this attempt. */
export interface EffectEnd {
  readonly outcome: EffectOutcome;
  /** The value that its function returned or threw, if it was called. */
  readonly attempted?: AttemptResult | undefined;
  readonly usage?: EffectUsage | undefined;
  /** How long its function ran, in milliseconds, and how often it was called. */
  readonly took?: number;
  readonly attempts?: number;
  /** What settled its outcome, if that was unknown. */
  readonly settledBy?: Settler;
}

/** The outcome of an effect, or the question whether it happened. */
export type EffectResult = EffectEnd | { readonly question: Question };

/** The function that executes an effect. */
export type EffectBody = (context: EffectContext) => unknown;

/** The validated options of an effect. */
export interface EffectSettings {
  readonly onUnknown: UnknownPolicy;
  readonly verify: ((context: EffectContext) => Verdict | Promise<Verdict>) | undefined;
  readonly timeout: Duration | undefined;
  readonly retry: RetryOptions | undefined;
  /** Reads the usage of a model's reply. */
  readonly usageOf?: (reply: unknown) => EffectUsage | undefined;
  /** Aborted if an external loop has stopped the tool itself. */
  readonly stopped?: AbortSignal | undefined;
  /** Called with the parts of a streamed reply, and the number of the effect. */
  readonly emit?: (delta: unknown, index: number) => void;
  /** Whether an external loop gets the result before it is durable. */
  readonly isEarly?: boolean | undefined;
}
