/**
 * Tools whose results are recorded before the SDK gets them. A tool call with an unknown outcome is never silently
 * repeated.
 */
import type { EffectContext, EffectOptions, Verdict } from "../../index.js";
import { toToolOutput } from "./messages.js";
import { anySignal, type ExecuteOptions, invalidArgument, isObject, type SdkTool } from "./sdk.js";
import type { Turn } from "./turn.js";

/** What to do if a tool call was interrupted, so that its outcome is unknown. */
export interface ToolPolicy<Input = unknown, Output = unknown> extends Pick<EffectOptions, "onUnknown" | "timeout"> {
  /** Finds out whether the call has taken effect. Required by `onUnknown: "verify"`, and only allowed with it. */
  readonly verify?: (context: VerifyContext<Input>) => Verdict<Output> | Promise<Verdict<Output>>;
}

/** The interrupted tool call that `verify` checks. */
export interface VerifyContext<Input = unknown> extends EffectContext {
  readonly toolCallId: string;
  readonly input: Input;
}

/** Policies by the name of the tool. */
export type ToolPolicies<Tools extends Record<string, object>> = {
  readonly [Name in keyof Tools]?: ToolPolicy<InputOf<Tools[Name]>>;
};

/** The input of a tool's `execute`. A tool may be a union of types, some of which have no `execute`. */
type InputOf<Tool> = Tool extends { execute?: infer Execute }
  ? [NonNullable<Execute>] extends [never]
    ? never
    : NonNullable<Execute> extends (input: infer Input, ...rest: never[]) => unknown
      ? Input
      : unknown
  : never;

/**
 * The idempotency key of a tool call, from the options of its `execute`. It is the same in every attempt of this call and
 * differs from that of any other call. `undefined` if the tool does not run in a durable turn.
 *
 * @example
 * execute: ({ amount }, options) => pay(amount, { idempotencyKey: idempotencyKeyOf(options) })
 */
export function idempotencyKeyOf(options: object): string | undefined {
  const key: unknown = (options as { readonly idempotencyKey?: unknown }).idempotencyKey;
  return typeof key === "string" ? key : undefined;
}

/**
 * Wraps tools so that their results are recorded. Tools that run elsewhere, at the provider or in a browser, stay as they
 * are.
 */
export function wrapTools<Tools extends Record<string, object>>(
  tools: Tools,
  policies: ToolPolicies<Tools>,
  turn: Turn,
): Tools {
  if (!isObject(tools) || !isObject(policies))
    throw invalidArgument("run.tools() needs an object of tools by name: run.tools({ name: tool({ … }) }).");
  for (const name of Object.keys(policies)) {
    if (Object.hasOwn(tools, name) && isLocalTool(tools[name])) continue;
    const available = Object.keys(tools).filter((each) => isLocalTool(tools[each]));
    throw invalidArgument(
      `There is a policy for ${JSON.stringify(name)}, but no tool of that name with an execute function. Tools that have one: ${available.join(", ") || "none"}.`,
    );
  }
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const policy = checkPolicy(name, (policies as Readonly<Record<string, ToolPolicy | undefined>>)[name] ?? {});
    return [name, isLocalTool(tool) ? wrapTool(name, tool, policy, turn) : tool];
  });
  return Object.fromEntries(wrapped) as Tools;
}

const UNKNOWN: readonly unknown[] = ["ask", "retry", "verify", "fail"];

/**
 * Rejects an invalid policy before anything runs: in the middle of the loop the SDK would report the error to the model.
 */
function checkPolicy(name: string, policy: ToolPolicy): ToolPolicy {
  const { onUnknown = "ask", verify } = policy;
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
  return policy;
}

function isLocalTool(tool: unknown): tool is SdkTool {
  return isObject(tool) && typeof tool["execute"] === "function";
}

function wrapTool(name: string, tool: SdkTool, { onUnknown, timeout, verify }: ToolPolicy, turn: Turn): SdkTool {
  turn.addTool(name, tool.inputSchema, !tool.needsApproval && !tool.onInputStart && !tool.onInputAvailable);
  const run = async (input: unknown, options: ExecuteOptions, onProgress: OnProgress = () => {}): Promise<unknown> => {
    const { toolCallId, abortSignal } = options;
    const settings = {
      ...(onUnknown && { onUnknown }),
      ...(timeout !== undefined && { timeout }),
      ...(verify && {
        verify: ({ idempotencyKey, signal, attempt }: EffectContext) =>
          verify({ idempotencyKey, signal, attempt, toolCallId, input }),
      }),
      stopped: abortSignal,
    };
    const execute = async (context: EffectContext): Promise<unknown> => {
      const given = {
        ...options,
        abortSignal: anySignal(context.signal, abortSignal),
        // Computed only when it is read.
        get idempotencyKey() {
          return context.idempotencyKey;
        },
      };
      return lastOf(await tool.execute(input, given), onProgress);
    };
    try {
      const output = await turn.callTool({ id: toolCallId, name, arguments: input }, execute, settings);
      const toOutput = (): unknown => tool.toModelOutput?.({ toolCallId, input, output }) ?? toToolOutput(output);
      turn.addToolOutput(toolCallId, name, toOutput);
      return output;
    } catch (error) {
      turn.addToolOutput(toolCallId, name, () => ({ type: "error-text", value: messageOf(error) }));
      throw error;
    }
  };
  const execute = isGenerator(tool)
    ? (input: unknown, options: ExecuteOptions) => streamResults((onProgress) => run(input, options, onProgress))
    : (input: unknown, options: ExecuteOptions) => run(input, options);
  return Object.assign(Object.create(Object.getPrototypeOf(tool) as object) as SdkTool, tool, { execute });
}

/** Called with each preliminary result of a tool. */
type OnProgress = (result: unknown) => void;

/** The text of an error, as the SDK reports it to a model. */
function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === "string" ? error : (JSON.stringify(error) ?? "unknown error");
}

/** The result of a tool: the last of its results, if it yields preliminary ones. */
async function lastOf(result: unknown, onProgress: OnProgress): Promise<unknown> {
  if (!isObject(result) || !(Symbol.asyncIterator in result)) return result;
  let last: unknown;
  for await (const part of result as unknown as AsyncIterable<unknown>) {
    last = part;
    onProgress(part);
  }
  return last;
}

/** Returns whether a tool yields preliminary results. The SDK must know this before it runs the tool. */
function isGenerator(tool: SdkTool): boolean {
  const { execute } = tool as { readonly execute: { readonly [Symbol.toStringTag]?: string } };
  return execute[Symbol.toStringTag] === "AsyncGeneratorFunction";
}

/**
 * Yields the preliminary results of a tool while it runs, for the SDK to iterate over.
 *
 * @param run runs the tool, or replays its result: then only that is yielded
 */
async function* streamResults(run: (onProgress: OnProgress) => Promise<unknown>): AsyncGenerator<unknown> {
  const pending: unknown[] = [];
  let wake: () => void = () => {};
  let count = 0;
  const result = run((preliminary) => {
    pending.push(preliminary);
    count++;
    wake();
  });
  let isDone = false;
  const end = (): void => {
    isDone = true;
    wake();
  };
  result.then(end, end);
  for (;;) {
    while (pending.length > 0) yield pending.shift();
    if (isDone) break;
    await new Promise<void>((resolve) => (wake = resolve));
  }
  const last = await result;
  if (count === 0) yield last;
}
