/** The parts of the SDK that are used here, and loading it. Its types are those of the package; its values are loaded when a turn is opened. */
import type * as Core from "@openai/agents-core";
import type * as Internal from "@openai/agents-core/utils/internal";
import { createRequire } from "node:module";
import { SavepointError } from "../../index.js";

const PACKAGE = "@openai/agents-core";

/** What is loaded of the SDK. */
export type Sdk = Pick<
  typeof Core,
  | "Agent"
  | "getDefaultModelSettings"
  | "invokeFunctionTool"
  | "MemorySession"
  | "RunContext"
  | "Runner"
  | "RunState"
  | "Usage"
> &
  Pick<typeof Internal, "hasDynamicFunctionToolApprovalPolicy" | "prepareFunctionToolInput">;

/** Loads the SDK. Throws `MISSING_DEPENDENCY` if it is not installed. */
export async function loadSdk(): Promise<Sdk> {
  try {
    const [core, internal] = await Promise.all([
      import("@openai/agents-core"),
      import("@openai/agents-core/utils/internal"),
    ]);
    return { ...core, ...internal };
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `Durable turns of the OpenAI Agents SDK need the package ${PACKAGE}, which could not be loaded. Run: npm install ${PACKAGE}@0.20 zod`,
      { cause },
    );
  }
}

/**
 * The copy of the SDK that has made an agent. A program that uses `require()` has another copy than one that uses `import`, and the
 * copies do not know each other's agents. Returns `undefined` if neither has made it.
 */
export function findSdkOf(agent: unknown, imported: Sdk): Sdk | undefined {
  if (agent instanceof imported.Agent) return imported;
  if (!isObject(agent) || typeof agent["clone"] !== "function") return undefined;
  const require = createRequire(import.meta.url);
  const required = { ...require(PACKAGE), ...require(`${PACKAGE}/utils/internal`) } as Sdk;
  return agent instanceof required.Agent ? required : undefined;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** A signal that is aborted as soon as one of these is. Returns `signal` itself if there is no other signal. */
export function anySignal(signal: AbortSignal, ...others: readonly (AbortSignal | undefined)[]): AbortSignal {
  const given = others.filter((other) => other !== undefined);
  return given.length === 0 ? signal : AbortSignal.any([signal, ...given]);
}

/** Copies arrays and plain objects, without fields that are `undefined`: to the SDK they are missing. */
export function copyDefined<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(copyDefined) as Value;
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([key, each]) => [key, copyDefined(each)])) as Value;
}

/** A copy of an object with its hidden properties and symbols, some of them replaced. */
export function copyWith<Target extends object>(target: Target, changes: object): Target {
  const copy = Object.create(
    Object.getPrototypeOf(target) as object | null,
    Object.getOwnPropertyDescriptors(target),
  ) as Target;
  for (const [key, value] of Object.entries(changes)) {
    Object.defineProperty(copy, key, { value: value as unknown, writable: true, enumerable: true, configurable: true });
  }
  return copy;
}

/** The error for an argument that is invalid; the message says what to pass instead. */
export function invalidArgument(message: string, details: Readonly<Record<string, unknown>> = {}): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", message, { details });
}
