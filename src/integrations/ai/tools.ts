/** Tools whose results are recorded before the SDK gets them, and that are never silently run twice. */
import type { EffectContext, EffectOptions, Verdict } from "../../index.js";
import { invalidArgument } from "./invalid.js";
import { toOutput } from "./reply-message.js";
import { Preliminary } from "./preliminary.js";
import { anySignal, type ExecuteOptions, isObject, type SdkTool } from "./sdk.js";
import type { Turn } from "./turn.js";

/** What to do about a tool that was interrupted, so that nobody knows whether it happened. */
export interface ToolPolicy<Input = unknown, Output = unknown> extends Pick<EffectOptions, "onUnknown" | "timeout"> {
  /** Finds out whether it happened; for `onUnknown: "verify"`. */
  readonly verify?: (context: VerifyContext<Input>) => Verdict<Output> | Promise<Verdict<Output>>;
}

/** What is known about a tool that was interrupted. */
export interface VerifyContext<Input = unknown> extends EffectContext {
  readonly toolCallId: string;
  readonly input: Input;
}

/** Policies by the names of tools. */
export type ToolPolicies<Tools extends Record<string, object>> = {
  readonly [Name in keyof Tools]?: ToolPolicy<InputOf<Tools[Name]>>;
};

/** What a tool's function is given first. A tool may be one of several types, some of which have no function. */
type InputOf<Tool> = Tool extends { execute?: infer Execute }
  ? [NonNullable<Execute>] extends [never]
    ? never
    : NonNullable<Execute> extends (input: infer Input, ...rest: never[]) => unknown
      ? Input
      : unknown
  : never;

/**
 * The key by which the outside world can tell that a tool call is made a second time, from what its function is given:
 * the same in every attempt of this very call, and no other's. `undefined` where the tool is not run by a durable turn.
 *
 * @example
 * execute: ({ amount }, options) => pay(amount, { idempotencyKey: idempotencyKeyOf(options) })
 */
export function idempotencyKeyOf(options: object): string | undefined {
  const key: unknown = (options as { readonly idempotencyKey?: unknown }).idempotencyKey;
  return typeof key === "string" ? key : undefined;
}

/** The same tools, recorded. Those that are run elsewhere, by the provider or the user's browser, stay what they are. */
export function wrapTools<Tools extends Record<string, object>>(
  tools: Tools,
  policies: ToolPolicies<Tools>,
  turn: Turn,
): Tools {
  if (!isObject(tools) || !isObject(policies))
    throw invalidArgument("run.tools() needs tools by their names: run.tools({ name: tool({ … }) }).");
  for (const name of Object.keys(policies)) {
    if (Object.hasOwn(tools, name) && isRunHere(tools[name])) continue;
    const known = Object.keys(tools).filter((each) => isRunHere(tools[each]));
    throw invalidArgument(
      `There is a policy for ${JSON.stringify(name)}, which is no tool that is run here. Those are: ${known.join(", ") || "none"}.`,
    );
  }
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const policy = checkPolicy(name, (policies as Readonly<Record<string, ToolPolicy | undefined>>)[name] ?? {});
    return [name, isRunHere(tool) ? wrapTool(name, tool, policy, turn) : tool];
  });
  return Object.fromEntries(wrapped) as Tools;
}

const UNKNOWN: readonly unknown[] = ["ask", "retry", "verify", "fail"];

/** Told before anything is run: in the middle of the loop it would be told to the model. */
function checkPolicy(name: string, policy: ToolPolicy): ToolPolicy {
  const { onUnknown = "ask", verify } = policy;
  if (!UNKNOWN.includes(onUnknown)) {
    throw invalidArgument(
      `The policy for ${JSON.stringify(name)} says onUnknown: ${JSON.stringify(onUnknown)}. Use ${UNKNOWN.join(", ")}.`,
    );
  }
  if ((onUnknown === "verify") !== (typeof verify === "function")) {
    throw invalidArgument(
      `The policy for ${JSON.stringify(name)} needs both onUnknown: "verify" and a function verify, or neither.`,
    );
  }
  return policy;
}

function isRunHere(tool: unknown): tool is SdkTool {
  return isObject(tool) && typeof tool["execute"] === "function";
}

function wrapTool(name: string, tool: SdkTool, policy: ToolPolicy, turn: Turn): SdkTool {
  const run = (input: unknown, options: ExecuteOptions, tell: (part: unknown) => void): Promise<unknown> =>
    runTool(name, tool, policy, turn, input, options, tell);
  const execute = isGenerator(tool)
    ? (input: unknown, options: ExecuteOptions) => new Preliminary((tell) => run(input, options, tell))
    : (input: unknown, options: ExecuteOptions) => run(input, options, () => {});
  return Object.assign(Object.create(Object.getPrototypeOf(tool) as object) as SdkTool, tool, { execute });
}

async function runTool(
  name: string,
  tool: SdkTool,
  { onUnknown, timeout, verify }: ToolPolicy,
  turn: Turn,
  input: unknown,
  options: ExecuteOptions,
  tell: (part: unknown) => void,
): Promise<unknown> {
  const { toolCallId, abortSignal } = options;
  const call = { id: toolCallId, name, arguments: input };
  const settings = {
    ...(onUnknown && { onUnknown }),
    ...(timeout !== undefined && { timeout }),
    ...(verify && { verify: (context: EffectContext) => verify(verifyContext(context, toolCallId, input)) }),
    stopped: abortSignal,
  };
  const execute = async ({ idempotencyKey, signal }: EffectContext): Promise<unknown> => {
    const given = { ...options, abortSignal: anySignal(signal, abortSignal), idempotencyKey };
    return lastOf(await tool.execute(input, given), tell);
  };
  try {
    const output = await turn.tool(call, execute, settings);
    const told = (): unknown => tool.toModelOutput?.({ toolCallId, input, output }) ?? toOutput(output);
    turn.answered(toolCallId, name, told);
    return output;
  } catch (error) {
    turn.answered(toolCallId, name, () => ({ type: "error-text", value: messageOf(error) }));
    throw error;
  }
}

/** As the SDK tells a model. */
function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === "string" ? error : (JSON.stringify(error) ?? "unknown error");
}

function verifyContext(context: EffectContext, toolCallId: string, input: unknown): VerifyContext {
  const { idempotencyKey, signal, attempt } = context;
  return { idempotencyKey, signal, attempt, toolCallId, input };
}

/** What a tool returns that tells how far it is: the last that it tells. */
async function lastOf(result: unknown, tell: (part: unknown) => void): Promise<unknown> {
  if (!isObject(result) || !(Symbol.asyncIterator in result)) return result;
  let last: unknown;
  for await (const part of result as unknown as AsyncIterable<unknown>) {
    last = part;
    tell(part);
  }
  return last;
}

/** Does it tell how far it is? The SDK has to know before it is run. */
function isGenerator(tool: SdkTool): boolean {
  const { execute } = tool as { readonly execute: { readonly [Symbol.toStringTag]?: string } };
  return execute[Symbol.toStringTag] === "AsyncGeneratorFunction";
}
