/** Tool calls that need approval: asking a person, and applying the answers to the run. */
import type { RunState, RunToolApprovalItem } from "@openai/agents-core";
import type { AskOptions, Json } from "../../index.js";
import { isObject } from "./sdk.js";

/** The most characters of the arguments of a call that a question shows. All of them are in its data. */
const MAX_ARGUMENTS = 200;

/** The question whether a tool may be called. */
export function toQuestion({ name, arguments: input = "", rawItem, agent }: RunToolApprovalItem): AskOptions {
  const { callId, id } = rawItem as { readonly callId?: string; readonly id?: string };
  const shown = input.length > MAX_ARGUMENTS ? `${input.slice(0, MAX_ARGUMENTS)}…` : input;
  return {
    text: `May ${agent.name} call ${name ?? "a tool"}(${shown})?`,
    data: { tool: name ?? null, arguments: parseJson(input), callId: callId ?? id ?? null, agent: agent.name },
  };
}

/**
 * The SDK's state of a run as plain data, in which the states of nested runs are parsed too. Without the context of the program, which may
 * have secrets and values that cannot be stored.
 */
export function snapshotRunState(state: RunState<unknown, never>): Json {
  return withoutContext(state.toJSON());
}

function withoutContext(state: object): Json {
  const { context, pendingAgentToolRuns = {}, ...rest } = state as Readonly<Record<string, object>>;
  const nested = Object.entries(pendingAgentToolRuns).map(([call, text]) => {
    const parsed = parseJson(String(text));
    return [call, isObject(parsed) ? withoutContext(parsed) : null];
  });
  const plain = {
    ...rest,
    context: { ...context, context: {} },
    pendingAgentToolRuns: Object.fromEntries(nested) as object,
  };
  return JSON.parse(JSON.stringify(plain)) as Json;
}

/** Approves or rejects a call. Anything that is not clearly an approval rejects the call; a string is passed to the model as the reason. */
export function applyAnswer(state: RunState<unknown, never>, item: RunToolApprovalItem, answer: unknown): void {
  const { approved, message } = parseAnswer(answer);
  if (approved) state.approve(item);
  else state.reject(item, message === undefined ? {} : { message });
}

function parseAnswer(answer: unknown): { readonly approved: boolean; readonly message?: string | undefined } {
  if (answer === true) return { approved: true };
  if (typeof answer === "string") {
    const word = answer.trim().toLowerCase();
    if (["y", "yes", "true", "approve", "approved"].includes(word)) return { approved: true };
    const isRefusal = ["", "n", "no", "false", "reject", "rejected"].includes(word);
    return { approved: false, message: isRefusal ? undefined : answer };
  }
  if (!isObject(answer)) return { approved: false };
  const { approved, message } = answer;
  return { approved: approved === true, message: typeof message === "string" ? message : undefined };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
