/** What a run tells while it works. */
import type { CheckpointInfo, Question, Status } from "../records/index.js";

/** What an effect does. */
export type EffectKind = "llm" | "tool" | "effect" | "now" | "random" | "uuid" | "sleep" | "ask";

/** What to make of a model's reply: nothing; tell somebody; try something else; stop. */
export type LoopVerdict = "none" | "warn" | "alternative" | "halt";

/** What has happened, without where. */
export type RunEventBody =
  /** A process has begun to work on it, or goes on with it. */
  | { readonly type: "started"; readonly resumed: boolean; readonly turn: number }
  /** A step is done. */
  | { readonly type: "step"; readonly step: number }
  /** A checkpoint was saved that stays in the history. */
  | { readonly type: "checkpoint"; readonly checkpoint: CheckpointInfo }
  /** An effect begins, or has ended and is recorded with what comes next. Those that were recorded before are not told. */
  | {
      readonly type: "effect";
      readonly kind: EffectKind;
      readonly name: string;
      readonly callId: string | undefined;
      readonly phase: "start" | "end";
      readonly error?: string;
    }
  /** A part of a model's reply, as it comes. */
  | { readonly type: "delta"; readonly name: string; readonly delta: unknown }
  /** Something is tried again after a pause. */
  | {
      readonly type: "retry";
      readonly name: string;
      readonly attempt: number;
      readonly delay: number;
      readonly reason: string;
    }
  /** The model goes round in circles. */
  | { readonly type: "loop"; readonly verdict: LoopVerdict }
  /** How it stands has changed. */
  | {
      readonly type: "status";
      readonly status: Status;
      readonly reason: string | undefined;
      readonly question: Question | undefined;
      readonly wakeAt: number | undefined;
    }
  /** Somebody else runs it by now: nothing more is written here. */
  | { readonly type: "leaseLost" };

export type RunEventType = RunEventBody["type"];

/** What has happened in a run. */
export type RunEvent = RunEventBody & { readonly sessionId: string; readonly branch: string };

export type RunEventOf<Type extends RunEventType> = Extract<RunEvent, { readonly type: Type }>;
