/** Policies for interrupted tool calls, and the idempotency keys of tools. */
import type { EffectContext, EffectOptions, Verdict } from "../../index.js";
import { invalidArgument, isObject } from "./sdk.js";

/** What to do if a tool call was interrupted, so that its outcome is unknown. */
export interface ToolPolicy<Output = unknown> extends Pick<EffectOptions, "onUnknown" | "timeout"> {
  /** Finds out whether the call has taken effect. Required by `onUnknown: "verify"`, and only allowed with it. */
  readonly verify?: (context: VerifyContext) => Verdict<Output> | Promise<Verdict<Output>>;
}

/** The interrupted tool call that `verify` checks. */
export interface VerifyContext extends EffectContext {
  readonly toolCallId: string;
  /** The arguments of the call, parsed. */
  readonly input: unknown;
}

/** Policies by the name of the tool, for the tools of an agent and of all agents that it hands off to or uses as tools. */
export type ToolPolicies = Readonly<Record<string, ToolPolicy>>;

/**
 * The idempotency key of a tool call, from the third argument of its `execute`. It is the same in every attempt of this call and differs
 * from that of any other call. `undefined` if the tool does not run in a durable turn.
 *
 * @example
 * execute: ({ amount }, context, details) => pay(amount, { idempotencyKey: idempotencyKeyOf(details) })
 */
export function idempotencyKeyOf(details: object | undefined): string | undefined {
  const key: unknown = (details as { readonly idempotencyKey?: unknown } | undefined)?.idempotencyKey;
  return typeof key === "string" ? key : undefined;
}

const UNKNOWN: readonly unknown[] = ["ask", "retry", "verify", "fail"];

/** Rejects invalid policies before anything runs. */
export function checkPolicies(policies: ToolPolicies): void {
  if (!isObject(policies))
    throw invalidArgument("The policies of turn.agent() must be an object, by the names of tools.");
  for (const [name, { onUnknown = "ask", verify }] of Object.entries(policies)) {
    if (!UNKNOWN.includes(onUnknown)) {
      throw invalidArgument(
        `The policy for ${JSON.stringify(name)} has onUnknown: ${JSON.stringify(onUnknown)}. Use one of ${UNKNOWN.join(", ")}.`,
      );
    }
    if ((onUnknown === "verify") !== (typeof verify === "function")) {
      throw invalidArgument(
        `The policy for ${JSON.stringify(name)} needs both onUnknown: "verify" and a function verify, or neither.`,
      );
    }
  }
}

/** Rejects policies for tools that no agent has. */
export function checkPolicyNames(policies: ToolPolicies, tools: ReadonlySet<string>): void {
  const unknown = Object.keys(policies).find((name) => !tools.has(name));
  if (unknown === undefined) return;
  throw invalidArgument(
    `There is a policy for ${JSON.stringify(unknown)}, but no agent has a tool of that name that runs in this process. Such tools: ${[...tools].join(", ") || "none"}.`,
  );
}
