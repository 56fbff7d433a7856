// What TypeScript knows about the AI SDK's calls when they are durable: compiled with versions 6 and 7, never run.
import { generateText, type LanguageModel, type ModelMessage, stepCountIs, streamText, tool, ToolLoopAgent } from "ai";
import { Savepoint } from "savepoint";
import { type AiState, durable, idempotencyKeyOf } from "savepoint/ai";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function typed<_T extends true>(): void {}

const sp = await Savepoint.open("memory:");
const given = {} as Exclude<LanguageModel, string>;
const charge = tool({
  inputSchema: z.object({ amount: z.number() }),
  execute: async ({ amount }, options) => ({ charged: amount, key: idempotencyKeyOf(options) }),
});

const run = await durable(sp, { session: "s", agent: "shop", turn: "one", abandon: true });
const model = run.model(given, { name: "main", aside: false });
typed<Equal<typeof model, typeof given>>();

const tools = run.tools(
  { charge },
  {
    charge: {
      onUnknown: "verify",
      verify: ({ input, idempotencyKey }) => {
        typed<Equal<typeof input, { amount: number }>>();
        return { happened: true, result: { charged: input.amount, key: idempotencyKey } };
      },
    },
  },
);
typed<Equal<typeof tools, { charge: typeof charge }>>();
// @ts-expect-error there is no such tool
run.tools({ charge }, { refund: { onUnknown: "retry" } });
// @ts-expect-error there is no such policy
run.tools({ charge }, { charge: { onUnknown: "guess" } });

const messages = run.messages([{ role: "user", content: "Charge me." }]);
typed<Equal<typeof messages, ModelMessage[]>>();
// @ts-expect-error that is no message
run.messages([{ role: "nobody" }]);

const result = await generateText({ model, tools, messages, stopWhen: stepCountIs(3) });
for (const { toolName, output } of result.staticToolResults) {
  typed<Equal<typeof toolName, "charge">>();
  typed<Equal<typeof output, { charged: number; key: string | undefined }>>();
}
const { state, status } = await run.complete(result);
typed<Equal<typeof state, AiState>>();
if (status === "failed") await run.fail(new Error("no"));

const streamed = streamText({ model, tools, messages });
typed<Equal<Awaited<typeof streamed.text>, string>>();
const agent = new ToolLoopAgent({ model, tools });
await run.complete(await agent.generate({ prompt: "Charge me." }));
// @ts-expect-error a session is needed
await durable(sp, { turn: "one" });
