/** The events of runs. */
import type { CheckpointInfo, Question, Status } from "../records/index.js";

/** The kinds of effects. */
export type EffectKind = "llm" | "tool" | "effect" | "now" | "random" | "uuid" | "sleep" | "ask";

/** The loop detector's verdict on a model reply: continue, emit a warning, request an alternative, or halt the run. */
export type LoopVerdict = "none" | "warn" | "alternative" | "halt";

/** The payload of a run event, without the run. */
export type RunEventBody =
  /** This process has started or resumed the run. */
  | { readonly type: "started"; readonly resumed: boolean; readonly turn: number }
  /** A step has completed. */
  | { readonly type: "step"; readonly step: number }
  /** A checkpoint was added to the history. */
  | { readonly type: "checkpoint"; readonly checkpoint: CheckpointInfo }
  /** An effect has started or ended. Replayed effects are not reported. */
  | {
      readonly type: "effect";
      readonly kind: EffectKind;
      readonly name: string;
      readonly callId: string | undefined;
      readonly phase: "start" | "end";
      readonly error?: string;
    }
  /** A streamed part of a model's reply. */
  | { readonly type: "delta"; readonly name: string; readonly delta: unknown }
  /** An attempt has failed and is retried after a delay. */
  | {
      readonly type: "retry";
      readonly kind: EffectKind | "step";
      /** `step 3`, or the name of the effect. */
      readonly name: string;
      /** The number of failed attempts so far. */
      readonly attempt: number;
      /** The largest number of attempts. */
      readonly attempts: number;
      readonly delay: number;
      readonly reason: string;
    }
  /** The model repeats itself. */
  | { readonly type: "loop"; readonly verdict: LoopVerdict }
  /** The status has changed. */
  | {
      readonly type: "status";
      readonly status: Status;
      readonly reason: string | undefined;
      readonly question: Question | undefined;
      readonly wakeAt: number | undefined;
    }
  /**
   * The run has lost its branch to another writer, usually because its lease has expired. The run writes nothing more to it.
   */
  | { readonly type: "leaseLost" };

export type RunEventType = RunEventBody["type"];

/** A run has ended because its step has thrown: at once, or after its last attempt. */
export interface RunErrorEvent {
  readonly sessionId: string;
  readonly branch: string;
  /** The number of the step that threw. */
  readonly step: number;
  /** `failed`: running the session again resumes it. `halted`: `{ resume: true }` resumes it. */
  readonly status: "failed" | "halted";
  readonly reason: string;
  /** What the step threw, usually an `Error`. */
  readonly error: unknown;
}

/** An event of a run. */
export type RunEvent = RunEventBody & { readonly sessionId: string; readonly branch: string };

/** The event of one type. */
export type RunEventOf<Type extends RunEventType> = Extract<RunEvent, { readonly type: Type }>;
