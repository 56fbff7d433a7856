/** A shop on the SDK's own loop: one lookup and two charges, generated or streamed. */
import { z } from "zod";
import { durable, type DurableOptions, type DurableRun, type ToolPolicy } from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import type { World } from "../run/lab.js";
import { call, type Content, scriptedModel, text } from "./models.js";
import { generateText, stepCountIs, streamText, tool } from "./sdk.js";

export const MODES = ["generate", "stream"] as const;
export type Mode = (typeof MODES)[number];

/** Two tools in parallel, then one, then the answer. */
export const SCRIPT: readonly (readonly Content[])[] = [
  [text("I look."), call("l1", "look", { what: "stock" }), call("c1", "charge", { amount: 1 })],
  [call("c2", "charge", { amount: 2 })],
  [text("Charged twice.")],
];

export function shopTools(world: World) {
  return {
    look: tool({
      inputSchema: z.object({ what: z.string() }),
      execute: async ({ what }) => world.do(`look ${what}`, `${what}: 7`),
    }),
    charge: tool({
      inputSchema: z.object({ amount: z.number() }),
      execute: async ({ amount }) => world.do(`charge ${amount}`, { charged: amount, at: new Date(0) }),
    }),
  };
}

export interface Done {
  readonly text: string;
  readonly messages: readonly unknown[];
  readonly result: object;
}

/** The arguments of the SDK call. */
export type Call = Parameters<typeof generateText>[0];

/** Runs the SDK's loop to its end. */
export async function runLoop(mode: Mode, options: Call): Promise<Done> {
  const settings = { stopWhen: stepCountIs(8), maxRetries: 0, ...options } as Call;
  if (mode === "generate") {
    const result = await generateText(settings);
    return { text: result.text, messages: messagesOf(result, result.response), result };
  }
  let failure: unknown;
  const result = streamText({
    ...settings,
    onError: ({ error }: { error: unknown }) => void (failure = error),
  } as never);
  let said = "";
  for await (const part of result.textStream) said += part;
  if (failure !== undefined) throw failure as Error;
  const response = await result.response;
  const all = (await (result as unknown as { responseMessages?: unknown }).responseMessages) as unknown[] | undefined;
  return { text: said && (await result.text), messages: all ?? response.messages, result };
}

function messagesOf(result: object, response: { messages: unknown[] }): unknown[] {
  return "responseMessages" in result ? (result.responseMessages as unknown[]) : response.messages;
}

export interface ShopOptions extends Partial<DurableOptions> {
  readonly mode?: Mode;
  readonly prompt?: string;
  readonly policy?: ToolPolicy;
  readonly script?: readonly (readonly Content[])[];
  readonly more?: Partial<Call>;
}

/** Opens a turn, runs the loop in it and completes it. */
export async function serve(
  sp: Savepoint,
  world: World,
  options: ShopOptions = {},
): Promise<Done & { run: DurableRun }> {
  const { mode = "generate", prompt = "Charge me.", policy, script = SCRIPT, more = {}, ...turn } = options;
  const run = await durable(sp, { session: "s", agent: "shop", ...turn });
  const done = await runLoop(mode, {
    model: run.model(scriptedModel(world, script)),
    tools: run.tools(shopTools(world), policy && { charge: policy }),
    messages: run.messages(prompt),
    ...more,
  } as Call);
  await run.complete(done.result);
  return { ...done, run };
}

/** Serves until the world hangs at this point, and lets the lease expire. */
export async function dieIn(
  lab: { open(): Promise<Savepoint>; crash(): void },
  world: World,
  name: string,
  options: ShopOptions = {},
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
