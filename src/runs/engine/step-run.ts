/** The `run` argument of a step function: validates its calls, and passes them to the step. */
import { randomUUID } from "node:crypto";
import type { Usage } from "../../records/index.js";
import type { ToolCall } from "../../messages/index.js";
import type { LoopVerdict } from "../../events/index.js";
import { valueToShadow, type Shadow } from "../../state/index.js";
import { type Duration, invalidArgument, toMilliseconds } from "../../util/index.js";
import {
  type AskOptions,
  Completion,
  type EffectContext,
  type EffectOptions,
  type EmitOptions,
  type LlmContext,
  type OpenLlmOptions,
  type OpenToolOptions,
  type Reply,
  type Run,
  parseRetryOptions,
  type UnknownPolicy,
} from "../agent/index.js";
import { type EffectUsage, encodeNamed, hashValue, toReason } from "../journal/index.js";
import { usageOfReply } from "./reply.js";
import type { Step } from "./step.js";
import type { EffectBody, EffectSettings, StepHost } from "./step-types.js";

const POLICIES: readonly UnknownPolicy[] = ["ask", "retry", "verify", "fail"];
/**
 * The default policy for a tool whose outcome is unknown. A tool may have changed the outside world, so it is not executed again
 * before a person has answered whether it happened.
 */
const DEFAULT_TOOL_POLICY: UnknownPolicy = "ask";

export class StepRun implements Run {
  readonly #step: Step;
  readonly #host: StepHost;

  constructor(step: Step, host: StepHost) {
    this.#step = step;
    this.#host = host;
  }

  get session(): string {
    return this.#host.session;
  }

  get branch(): string {
    return this.#host.branch;
  }

  get step(): number {
    return this.#host.step;
  }

  get turn(): number {
    return this.#host.turn;
  }

  get signal(): AbortSignal {
    return this.#host.signal;
  }

  get usage(): Required<Usage> {
    return this.#step.usage;
  }

  get loop(): LoopVerdict {
    return this.#step.results.loop;
  }

  get state(): unknown {
    return this.#step.state;
  }

  set state(state: unknown) {
    this.#step.state = state;
  }

  update(change: (state: unknown) => unknown): void {
    const next = change(this.state);
    if (next !== undefined) this.state = next;
  }

  /** Calls a model. Only an external loop may pass `early`. */
  llm<Result>(
    call: (context: LlmContext) => Result | Promise<Result>,
    options: OpenLlmOptions<Awaited<Result>> = {},
  ): Promise<Reply<Awaited<Result>>> {
    return this.#try(() => {
      checkFunction(call, "llm");
      const { name = "llm", input, usage, retry = {}, early } = options;
      const { registry } = this.#host.context;
      const args = input === undefined ? {} : { args: hashValue(input, registry) };
      const settings: EffectSettings = {
        ...parseEffectOptions(options, "retry"),
        retry,
        usageOf: (usage ?? usageOfReply) as (reply: unknown) => EffectUsage | undefined,
        emit: (delta, index) => this.#step.emitDelta(name, delta, index),
        isEarly: early,
      };
      // With `emit` in its settings, an effect gets a context that has it too.
      const body = call as EffectBody;
      return this.#step.effect({ kind: "llm", name, ...args }, body, settings) as Promise<Reply<Awaited<Result>>>;
    });
  }

  /** Executes a tool. Only an external loop may pass `stopped`. */
  tool<Result>(
    call: ToolCall,
    run: (context: EffectContext) => Result | Promise<Result>,
    { stopped, ...options }: OpenToolOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    return this.#try(() => {
      const { id, name } = checkCall(call);
      checkFunction(run, "tool");
      const args = this.#encode(`The arguments of the tool ${JSON.stringify(name)}`, call.arguments);
      const settings = { ...parseEffectOptions(options, DEFAULT_TOOL_POLICY), stopped };
      return this.#step.effect({ kind: "tool", name, callId: id, args }, run, settings) as Promise<Awaited<Result>>;
    });
  }

  effect<Result>(
    name: string,
    run: (context: EffectContext) => Result | Promise<Result>,
    options: EffectOptions<Awaited<Result>> = {},
  ): Promise<Awaited<Result>> {
    return this.#try(() => {
      checkFunction(run, "effect");
      const settings = parseEffectOptions(options, "retry");
      return this.#step.effect({ kind: "effect", name: String(name) }, run, settings) as Promise<Awaited<Result>>;
    });
  }

  remember<Value>(name: string, make: () => Value): Value {
    return this.#step.immediate({ kind: "effect", name: String(name) }, make);
  }

  flush(): Promise<void> {
    return this.#step.flush();
  }

  emit(name: string, delta: unknown, options: EmitOptions): Promise<void> {
    return this.#step.emit(name, delta, options);
  }

  async stepDone(trigger: string): Promise<void> {
    await this.#step.stepDone(trigger);
  }

  /** Returns errors of invalid calls as rejections, like all other errors of an effect. */
  #try<T>(start: () => Promise<T>): Promise<T> {
    try {
      return start();
    } catch (error) {
      const rejected = Promise.reject<T>(error as Error);
      // An effect that the step does not await must not become an unhandled rejection.
      rejected.catch(() => {});
      return rejected;
    }
  }

  #encode(what: string, value: unknown): Shadow {
    return encodeNamed(what, () => valueToShadow(value, this.#host.context.registry));
  }

  now(): number {
    return this.#step.immediate({ kind: "now", name: "now" }, () => this.#host.context.now());
  }

  random(): number {
    return this.#step.immediate({ kind: "random", name: "random" }, () => Math.random());
  }

  uuid(): string {
    return this.#step.immediate({ kind: "uuid", name: "uuid" }, () => randomUUID());
  }

  async sleep(time: Duration | Date): Promise<void> {
    const target = time instanceof Date ? { until: time.getTime() } : { lasting: toMilliseconds(time, "sleep") };
    if (!Object.values(target).every(Number.isFinite))
      throw invalidArgument('run.sleep() needs milliseconds, a string such as "5m", or a valid Date.');
    await this.#step.sleep(target);
  }

  async ask<Answer>(question: string | AskOptions): Promise<Answer> {
    const { text, data } = typeof question === "string" ? { text: question, data: undefined } : question;
    if (typeof text !== "string" || text === "") {
      throw invalidArgument("run.ask() needs a non-empty string: run.ask(question) or run.ask({ text, data }).");
    }
    this.#encode("The data of the question", data);
    return this.#step.ask(text, data) as Promise<Answer>;
  }

  complete<Output>(output?: Output): Completion<Output> {
    // An output with unsupported values throws here, in the code that passes it.
    this.#encode("The output", output);
    return this.#step.complete(new Completion<Output>("completed", output, undefined));
  }

  fail(reason: string): Completion<never> {
    return this.#step.complete(new Completion<never>("failed", undefined, toReason(reason ?? "the run failed")));
  }

  halt(reason: string): Completion<never> {
    return this.#step.complete(new Completion<never>("halted", undefined, toReason(reason ?? "the run was halted")));
  }
}

function parseEffectOptions<Result>(options: EffectOptions<Result>, defaultPolicy: UnknownPolicy): EffectSettings {
  const { onUnknown = defaultPolicy, verify, timeout, retry } = options;
  if (!POLICIES.includes(onUnknown)) {
    throw invalidArgument(`onUnknown must be one of ${POLICIES.join(", ")}, got ${JSON.stringify(onUnknown)}.`);
  }
  if (onUnknown === "verify" && typeof verify !== "function") {
    throw invalidArgument(`onUnknown: "verify" needs a function "verify" that finds out whether the effect happened.`);
  }
  // Invalid options throw before anything is written.
  if (timeout !== undefined) toMilliseconds(timeout, "timeout");
  if (retry !== undefined) parseRetryOptions(retry);
  return { onUnknown, verify, timeout, retry };
}

function checkCall(call: ToolCall): ToolCall {
  const { id, name } = (call ?? {}) as Partial<ToolCall>;
  if (typeof id === "string" && id !== "" && typeof name === "string" && name !== "") return call;
  throw invalidArgument("run.tool() needs a call { id, name, arguments } with non-empty strings as id and name.");
}

function checkFunction(run: unknown, name: string): void {
  if (typeof run !== "function") throw invalidArgument(`run.${name}() needs a function to call.`);
}
