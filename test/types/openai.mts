// What TypeScript knows about agents of the OpenAI Agents SDK when they are durable: compiled, never run.
import { Agent, handoff, type MCPServer, run, type RunContext, Runner, type Session, tool } from "@openai/agents-core";
import { Savepoint } from "savepoint";
import { durable, idempotencyKeyOf, type OpenAiState, SavepointSession } from "savepoint/openai";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function typed<_T extends true>(): void {}

interface Customer {
  readonly name: string;
}

const sp = await Savepoint.open("memory:");
const charge = tool({
  name: "charge",
  description: "charges",
  parameters: z.object({ amount: z.number() }),
  execute: async ({ amount }, _context?: RunContext<Customer>, details?: object) => [amount, idempotencyKeyOf(details)],
});
const cashier = new Agent<Customer>({ name: "cashier", tools: [charge] });
const shop = Agent.create({
  name: "shop",
  outputType: z.object({ total: z.number() }),
  handoffs: [handoff(cashier)],
  mcpServers: [] as MCPServer[],
});

const turn = await durable(sp, { session: "s", agent: "shop", turn: "one", abandon: true, runner: new Runner() });
const agent = turn.agent(shop, {
  charge: {
    onUnknown: "verify",
    verify: ({ input, idempotencyKey }) => {
      typed<Equal<typeof input, unknown>>();
      return { happened: true, result: idempotencyKey };
    },
  },
});
typed<Equal<typeof agent, typeof shop>>();
typed<Equal<typeof turn.session, Session>>();
// @ts-expect-error there is no such policy
turn.agent(shop, { charge: { onUnknown: "guess" } });
// @ts-expect-error that is no agent
turn.agent({ name: "shop" });

let result = await run(agent, "How much?", { session: turn.session, context: { name: "Ada" } });
while (await turn.approved(result)) result = await run(agent, result.state, { session: turn.session });
const total = result.finalOutput;
if (typeof total === "object") typed<Equal<typeof total.total, number>>();
const end = await turn.complete(result);
if (end.status === "waiting" && end.questions[0]) await sp.answer("s", true, { question: end.questions[0].id });
if (end.status === "completed") typed<Equal<typeof end.state, OpenAiState>>();
typed<Equal<NonNullable<typeof turn.finished>["state"], OpenAiState>>();

const streamed = await run(turn.agent(cashier), "How much?", { stream: true, context: { name: "Ada" } });
typed<Equal<typeof streamed.finalOutput, string | undefined>>();
await turn.approved(streamed);
await turn.complete(streamed);
// @ts-expect-error a session is needed
await durable(sp, { turn: "one" });

const plain: Session = new SavepointSession(sp, "chat-7", { branch: "main" });
await run(shop, "Hello", { session: plain });
