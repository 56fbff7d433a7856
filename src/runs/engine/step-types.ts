/** What a step is made of: how it ends, what it needs, and what is known about its effects. */
import type { Question, Usage } from "../../records/index.js";
import type { Context } from "../../context.js";
import type { RunEventBody } from "../../events/index.js";
import type { Duration } from "../../util/index.js";
import type {
  Completion,
  EffectContext,
  LoopDetector,
  RetryOptions,
  AgentSpec,
  UnknownPolicy,
  Verdict,
} from "../agent/index.js";
import type { AttemptResult } from "./attempt.js";
import type { EffectUsage, Journal, EffectOutcome, RecordedEffect, EffectStart } from "../journal/index.js";

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
  readonly definition: AgentSpec;
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
  /** Records everything, and takes a checkpoint of the moment when so many entries were added; `false` if that is past. */
  checkpoint(trigger: string, entries: number): Promise<boolean>;
  emit(event: RunEventBody): void;
}

/** A started effect: its number, and what is known about it. */
export interface StartedEffect {
  readonly index: number;
  readonly started: EffectStart;
  readonly recorded: RecordedEffect | undefined;
  /** What is known of it from before the step was begun anew. */
  readonly kept: RecordedEffect | undefined;
  /** Was it written in this attempt that it begins? */
  hasIntent: boolean;
  /** Makes its idempotency key. */
  readonly key: () => string;
}

/** How an effect ended. */
export interface EffectEnd {
  readonly outcome: EffectOutcome;
  /** What its function returned or threw, in this very attempt. */
  readonly attempted?: AttemptResult;
  readonly usage?: EffectUsage;
}

/** It has ended, or somebody has to say whether it had. */
export type EffectResult = EffectEnd | { readonly question: Question };

/** The function behind an effect. */
export type EffectBody = (context: EffectContext) => unknown;

/** What was said about an effect, with its defaults. */
export interface EffectSettings {
  readonly onUnknown: UnknownPolicy;
  readonly verify: ((context: EffectContext) => Verdict | Promise<Verdict>) | undefined;
  readonly timeout: Duration | undefined;
  readonly retry: RetryOptions | undefined;
  /** What a model's reply has used. */
  readonly usageOf?: (reply: unknown) => EffectUsage | undefined;
  /** Aborted where a loop outside has stopped it by itself. */
  readonly stopped?: AbortSignal | undefined;
  /** Gets the parts of a reply that comes in parts. */
  readonly emit?: (delta: unknown) => void;
}
