/** Errors of effects, and the question about an interrupted one. */
import { SavepointError } from "../../errors.js";
import { briefJson, type ToolCall } from "../../messages/index.js";
import type { Question } from "../../records/index.js";
import { type ClassRegistry, shadowToValue } from "../../state/index.js";
import { invalidArgument } from "../../util/index.js";
import { describeCall, type EffectCall, type EffectStart, type RecordedEffect } from "../journal/index.js";
import type { StartedEffect, StepHost } from "./step-types.js";

/** The largest number of arguments in a question, and the largest number of characters of each. */
const MAX_ARGUMENTS = 8;
const MAX_ARGUMENT = 100;
const KIND_NAMES: Readonly<Record<string, string>> = { tool: "tool", llm: "model call" };

/** The question whether an interrupted tool call happened. */
export function unknownOutcomeQuestion({ index, started }: StartedEffect, registry: ClassRegistry): Question {
  const { kind, name, at, callId = "", args } = started;
  const callArguments = args === undefined ? undefined : shadowToValue(args, registry);
  const call: ToolCall = { id: callId, name, ...(callArguments !== undefined && { arguments: callArguments }) };
  const what = `${KIND_NAMES[kind] ?? "effect"} ${JSON.stringify(name)}${kind === "tool" ? describeArguments(callArguments) : ""}`;
  const text = `Did the ${what} happen? It was started at ${new Date(at).toISOString()} and interrupted before its result was recorded.`;
  return { id: `q${index}`, kind: "unknown", text, call, startedAt: at };
}

/** The arguments of a tool call in parentheses, of limited length: ` (order: "88")`. */
function describeArguments(value: unknown): string {
  if (value === undefined) return "";
  const isFields = typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  const parts = isFields
    ? Object.entries(value)
        .slice(0, MAX_ARGUMENTS)
        .map(([key, each]) => `${cut(key)}: ${cut(briefJson(each))}`)
    : [cut(briefJson(value))];
  if (isFields && Object.keys(value).length > MAX_ARGUMENTS) parts.push("…");
  return parts.length > 0 ? ` (${parts.join(", ")})` : "";
}

function cut(text: string): string {
  return text.length > MAX_ARGUMENT ? `${text.slice(0, MAX_ARGUMENT).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
}

/** The error of an interrupted effect with `onUnknown: "fail"`. */
export function outcomeUnknown({ name }: EffectStart): SavepointError {
  return new SavepointError(
    "OUTCOME_UNKNOWN",
    `${JSON.stringify(name)} was interrupted, and whether it happened is unknown.`,
  );
}

/** The error of a synchronous effect that is started after the end of its step. */
export function calledAfterEnd({ kind, name }: EffectCall): SavepointError {
  const what = kind === "effect" ? `remember(${JSON.stringify(name)})` : `run.${kind}()`;
  return new SavepointError("CLOSED", `${what} was called after the ${kind === "effect" ? "run" : "step"} had ended.`);
}

/** The error of an effect that is started inside another one. */
export function nestedEffect({ kind }: EffectCall, outer: string): SavepointError {
  return invalidArgument(
    `run.${kind}() was called inside the function of ${JSON.stringify(outer)}. An effect is recorded as one entry and cannot contain others: call run.${kind}() before or after it, in the step itself.`,
  );
}

/**
 * The error of a step that does not repeat its recorded effects.
 *
 * @param called the effect that the step started instead; `undefined` if it did not start one
 */
export function nondeterminism(
  { session: sessionId, step, definition, context: { registry } }: StepHost,
  recorded: RecordedEffect,
  called: EffectCall | undefined,
): SavepointError<"NONDETERMINISM"> {
  const before = describeCall(recorded.started, registry);
  const isSame = called && describeCall(called, registry) === before;
  const now = isSame ? `${before} with another input` : called ? describeCall(called, registry) : "missing";
  const advice = definition.open
    ? "Open the turn with the loop that started it, or abandon it with { abandon: true }."
    : "Run it with the code that started it, or with { restartStep: true }, which restarts the step and keeps the results of its tools.";
  return new SavepointError(
    "NONDETERMINISM",
    `Step ${step} of session ${JSON.stringify(sessionId)} does not repeat what it did before it was interrupted: its effect number ${recorded.index + 1} was ${before}, and is now ${now}. Nothing was lost. ${advice}`,
    { details: { sessionId, step, index: recorded.index, recorded: before, called: now } },
  );
}
