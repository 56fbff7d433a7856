/** Tools whose results are recorded before the SDK gets them. A tool call with an unknown outcome is never silently repeated. */
import { createHash } from "node:crypto";
import type { FunctionTool, RunContext, Tool } from "@openai/agents-core";
import type { EffectContext } from "../../index.js";
import type { ToolPolicies, ToolPolicy } from "./policies.js";
import { anySignal, copyWith, invalidArgument, isObject, type Sdk } from "./sdk.js";
import { isForModel, type Turn } from "./turn.js";

type Invoke = FunctionTool["invoke"];
type Details = NonNullable<Parameters<Invoke>[2]>;

/** What all tools of a turn need. */
export interface ToolContext {
  readonly turn: Turn;
  readonly policies: ToolPolicies;
  readonly sdk: Sdk;
}

/** The names that the SDK uses for tools that are not functions. */
const EXECUTORS = { shell: ["shell"], apply_patch: ["editor"], computer: ["computer"] } as const;

/** The name of a tool whose calls are recorded; `undefined` if the tool runs elsewhere, at the provider for example. */
export function recordedName(tool: Tool): string | undefined {
  return tool.type === "function" || executorOf(tool) ? tool.name : undefined;
}

/** Wraps a tool so that its results are recorded. Tools that run elsewhere stay as they are. */
export function wrapTool(tool: Tool, context: ToolContext): Tool {
  if (tool.type === "function") return wrapFunction(tool, context);
  const field = executorOf(tool);
  if (!field) return tool;
  const executor = (tool as unknown as Record<string, unknown>)[field];
  if (!isObject(executor) || (field === "computer" && typeof executor["screenshot"] !== "function")) {
    throw invalidArgument(
      `The tool ${JSON.stringify(tool.name)} creates its ${field} for each run, so its calls cannot be recorded. Pass the ${field} itself to the tool.`,
    );
  }
  return copyWith(tool, { [field]: wrapExecutor(executor, tool.name, field === "computer", context) });
}

/** The property of a tool with the object that does its work in this process. */
function executorOf(tool: Tool): string | undefined {
  const [field] = (EXECUTORS as Readonly<Record<string, readonly string[]>>)[tool.type] ?? [];
  return field !== undefined && (tool as unknown as Record<string, unknown>)[field] !== undefined ? field : undefined;
}

function policyOf({ policies }: ToolContext, name: string): ToolPolicy {
  return Object.hasOwn(policies, name) ? (policies[name] ?? {}) : {};
}

function wrapFunction(tool: FunctionTool, context: ToolContext): FunctionTool {
  const { turn, sdk } = context;
  const { name } = tool;
  const policy = policyOf(context, name);
  const invoke: Invoke = async (runContext, input, details) => {
    const id = details?.toolCall?.callId;
    if (id === undefined) {
      throw invalidArgument(
        `The tool ${JSON.stringify(name)} was called without a call id. Call tools of a durable turn through the SDK's run().`,
      );
    }
    const execute = ({ idempotencyKey, signal }: EffectContext): Promise<unknown> => {
      const changes = { signal: anySignal(signal, details?.signal), idempotencyKey };
      const given = copyWith(details as Details, changes);
      // The timeout of the tool is part of the recorded call, because its message is a result.
      return sdk.invokeFunctionTool({ tool, runContext, input, details: given });
    };
    try {
      const call = { id, name, arguments: parseJson(input) };
      return await turn.callTool(call, policy, details?.signal, execute);
    } catch (error) {
      if (isForModel(error)) return `${error.message} Check whether it happened before you repeat it.`;
      throw error;
    }
  };
  turn.addTool(name, isDirect(tool, sdk));
  return copyWith(tool, {
    invoke,
    timeoutMs: undefined,
    ...(sdk.hasDynamicFunctionToolApprovalPolicy(tool) && { needsApproval: parseBeforeApproval(tool, sdk) }),
  });
}

/** Whether the SDK calls no code of the user before it executes a tool: no guardrail, and nothing about approval. */
async function isDirect(tool: FunctionTool, sdk: Sdk): Promise<boolean> {
  if ((tool.inputGuardrails?.length ?? 0) > 0 || sdk.hasDynamicFunctionToolApprovalPolicy(tool)) return false;
  const needsApproval = tool.needsApproval as () => Promise<boolean>;
  return !(await needsApproval());
}

/**
 * The SDK passes the parsed arguments of a call to `needsApproval`, but finds the parser by the function `invoke`, which is another one
 * in a wrapped tool. So they are parsed here. A call with invalid arguments needs no approval, because it is not executed.
 */
function parseBeforeApproval(tool: FunctionTool, sdk: Sdk): FunctionTool["needsApproval"] {
  const needsApproval = tool.needsApproval as (context: RunContext, input: unknown, id?: string) => Promise<boolean>;
  return async (context, input: unknown, id) => {
    const { result } = sdk.prepareFunctionToolInput(tool, JSON.stringify(input)) ?? {};
    if (result && !result.success) return false;
    return needsApproval(context as RunContext, result ? result.value : input, id);
  };
}

/**
 * Wraps the object that does the work of a tool. Its methods get no call id, so their calls are identified by their arguments.
 *
 * @param hasArguments whether its methods have several arguments; otherwise the first one has all that matters
 */
function wrapExecutor<Executor extends object>(
  executor: Executor,
  tool: string,
  hasArguments: boolean,
  context: ToolContext,
): Executor {
  const policy = policyOf(context, tool);
  return new Proxy(executor, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function" || typeof property !== "string") return value;
      return async (...args: unknown[]) => {
        // The context of the run, which some methods get, is not an argument of the model.
        const input = hasArguments ? args.filter((each) => !(isObject(each) && "usage" in each)) : (args[0] ?? null);
        const call = { id: `${property}:${digestOf(input)}`, name: tool, arguments: input };
        const execute = async (): Promise<unknown> => (await Reflect.apply(value, target, args)) as unknown;
        return context.turn.callTool(call, policy, undefined, execute);
      };
    },
  });
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64url").slice(0, 16);
}

/** The arguments of a call, which models give as JSON. The SDK reports invalid JSON to the model. */
function parseJson(input: string): unknown {
  try {
    return JSON.parse(input) as unknown;
  } catch {
    return input;
  }
}
