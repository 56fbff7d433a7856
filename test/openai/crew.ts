/** Agents of the OpenAI Agents SDK that reply from a script, in a world that may hang, run or streamed. */
import { Agent, type AgentInputItem, type AgentOutputItem, run, setTracingDisabled, tool } from "@openai/agents-core";
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing";
import { z } from "zod";
import type { Savepoint } from "../../src/index.js";
import {
  durable,
  type DurableOptions,
  type DurableTurn,
  type ToolPolicies,
} from "../../src/integrations/openai/index.js";
import type { World } from "../run/lab.js";

setTracingDisabled(true);

export const MODES = ["run", "stream"] as const;
export type Mode = (typeof MODES)[number];

export type Output = readonly AgentOutputItem[];

export const say = (text: string): Output => [assistantMessage(text)];

export const call = (callId: string, name: string, input: Record<string, unknown> = {}): Output => [
  functionCall(name, input, { callId }),
];

/** Two tools in parallel, then one, then the answer. */
export const SCRIPT: readonly Output[] = [
  [...call("l1", "look", { what: "stock" }), ...call("c1", "charge", { amount: 1 })],
  call("c2", "charge", { amount: 2 }),
  say("Charged twice."),
];

/** What happens with {@link SCRIPT}. */
export const EVERYTHING = ["clerk 0", "look stock", "charge 1", "clerk 1", "charge 2", "clerk 2"];

/** How often a model has replied since the user has spoken. Calls of one reply are consecutive. */
export function repliesIn(input: string | readonly AgentInputItem[]): number {
  const items = typeof input === "string" ? [] : input;
  const from = items.map((item) => "role" in item && item.role).lastIndexOf("user") + 1;
  const kinds = items.slice(from).map(({ type }) => type);
  return kinds.filter((type, at) => type === "function_call_result" && kinds[at + 1] !== type).length;
}

/** @param script what it replies, by how often a model has replied since the user has spoken */
export function scriptedModel(world: World, name: string, script: readonly Output[]): ScriptedModel {
  const respond = modelResponder(async ({ request }) => {
    const turn = repliesIn(request.input);
    await world.do(`${name} ${turn}`);
    return [...(script[turn] ?? say("There is nothing more to say."))];
  });
  return new ScriptedModel(Array.from({ length: 50 }, () => respond));
}

export function shopTools(world: World) {
  return [
    tool({
      name: "look",
      description: "looks something up",
      parameters: z.object({ what: z.string() }),
      execute: async ({ what }) => world.do(`look ${what}`, `${what}: 7`),
    }),
    tool({
      name: "charge",
      description: "charges a card",
      parameters: z.object({ amount: z.number() }),
      execute: async ({ amount }) => world.do(`charge ${amount}`, { charged: amount }),
    }),
  ];
}

export function createClerk(world: World, script: readonly Output[] = SCRIPT): Agent {
  return new Agent({ name: "clerk", model: scriptedModel(world, "clerk", script), tools: shopTools(world) });
}

/** Runs an agent to its end. */
export async function runAgent(mode: Mode, agent: Agent, input: never, options: object = {}) {
  if (mode === "run") return run(agent, input, options);
  const result = await run(agent, input, { ...options, stream: true });
  const text = result.toTextStream();
  let shown = "";
  for await (const part of text) shown += String(part);
  await result.completed;
  return Object.assign(result, { shown });
}

export interface ServeOptions extends Partial<Omit<DurableOptions, "agent">> {
  readonly mode?: Mode;
  readonly input?: string;
  readonly policies?: ToolPolicies;
  readonly agent?: Agent;
  readonly script?: readonly Output[];
  readonly more?: object;
}

/** Opens a turn, runs the agent in it and completes it. Approvals are asked for. */
export async function serve(sp: Savepoint, world: World, options: ServeOptions = {}) {
  const { mode = "run", input = "Charge me.", policies = {}, script, agent, more = {}, ...opened } = options;
  const turn: DurableTurn = await durable(sp, { session: "s", agent: "shop", ...opened } as DurableOptions);
  const wrapped = turn.agent(agent ?? createClerk(world, script), policies);
  const settings = { session: turn.session, ...more };
  let result = await runAgent(mode, wrapped, input as never, settings);
  while (await turn.approved(result)) result = await runAgent(mode, wrapped, result.state as never, settings);
  return { turn, result, end: await turn.complete(result) };
}

/** Serves until the world hangs at this point, and lets the lease expire. */
export async function dieIn(
  lab: { open(): Promise<Savepoint>; crash(): void },
  world: World,
  name: string,
  options: ServeOptions = {},
): Promise<void> {
  const reached = world.hangIn(name);
  const served = serve(await lab.open(), world, options).then(() => {
    throw new Error(`It was done before it came to ${name}.`);
  });
  await Promise.race([reached, served]);
  served.catch(() => {});
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  lab.crash();
}
