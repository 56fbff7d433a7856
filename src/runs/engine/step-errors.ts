/** What a step, or a person, is told about its effects. */
import { SavepointError } from "../../errors.js";
import type { ToolCall } from "../../messages/index.js";
import type { Question } from "../../records/index.js";
import { type ClassRegistry, shadowToValue } from "../../state/index.js";
import { describeCall, type EffectCall, type RecordedEffect, type EffectStart } from "../journal/index.js";

/** Asks a person about a tool that was interrupted. */
export function unknownOutcomeQuestion(
  { index, started }: { readonly index: number; readonly started: EffectStart },
  registry: ClassRegistry,
): Question {
  const { name, at, callId = "", args } = started;
  const given = args === undefined ? undefined : shadowToValue(args, registry);
  const call: ToolCall = { id: callId, name, ...(given !== undefined && { arguments: given }) };
  const text = `${JSON.stringify(name)} was started at ${new Date(at).toISOString()} and interrupted before its result was recorded. Did it happen? Answer { happened: true, result } or { happened: false }.`;
  return { id: `q${index}`, kind: "unknown", text, call, startedAt: at };
}

export function outcomeUnknown({ name }: EffectStart): SavepointError {
  return new SavepointError(
    "OUTCOME_UNKNOWN",
    `${JSON.stringify(name)} was interrupted, and nobody knows whether it happened.`,
  );
}

export function nestedEffect({ kind }: EffectCall, effect: string): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `run.${kind}() was called inside the function of ${JSON.stringify(effect)}. What an effect does is recorded as one: call run.${kind}() before or after it, in the step itself.`,
  );
}

/** @param called what the code does now; nothing, if it does not start that many effects any more */
export function nondeterminism(
  sessionId: string,
  step: number,
  recorded: RecordedEffect,
  called: EffectCall | undefined,
  registry: ClassRegistry,
  open = false,
): SavepointError<"NONDETERMINISM"> {
  const before = describeCall(recorded.started, registry);
  const same = called && describeCall(called, registry) === before;
  const now = same ? `${before} with another input` : called ? describeCall(called, registry) : "nothing of the kind";
  const advice = open
    ? "Open the turn with the loop that it was started with, or give it up with { abandon: true }."
    : "Run it with the code it was started with; or with { restartStep: true }, which begins the step anew and keeps what its tools have answered.";
  return new SavepointError(
    "NONDETERMINISM",
    `Step ${step} of session ${JSON.stringify(sessionId)} does not do what it did before it was interrupted: its effect number ${recorded.index + 1} was ${before}, and is ${now}. Nothing was lost. ${advice}`,
    { details: { sessionId, step, index: recorded.index, recorded: before, called: now } },
  );
}
