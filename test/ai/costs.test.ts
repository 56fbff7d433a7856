// What a step of the SDK's loop writes.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { durable } from "../../src/integrations/ai/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import { World } from "../run/lab.js";
import { countCommits } from "../support/count-commits.js";
import { call, scriptedModel, text } from "./models.js";
import { type MockModel, VERSION } from "./sdk.js";
import { type Mode, runLoop, shopTools } from "./shop.js";

const STEPS = 10;
/** Turns of the event loop between two parts of a stream. */
const TURNS = 10;

/** A model whose streams arrive part by part, as over a network: the loop has handled a part before the next one comes. */
function slowly(model: MockModel): MockModel {
  const transform = async (part: unknown, controller: TransformStreamDefaultController): Promise<void> => {
    for (let turn = 0; turn < TURNS; turn++) await nextTurn();
    controller.enqueue(part);
  };
  const doStream = async (options: never): Promise<object> => {
    const { stream, ...rest } = (await model.doStream(options)) as { stream: ReadableStream };
    return { ...rest, stream: stream.pipeThrough(new TransformStream({ transform })) };
  };
  return Object.assign(Object.create(model) as MockModel, { doStream });
}

/** The commits of a turn in which so many steps call a tool, without its opening and its end. */
async function commitsOf(mode: Mode, steps: number, onUnknown: "ask" | "retry"): Promise<number> {
  let commits = 0;
  const world = new World();
  const sp = await Savepoint.open(countCommits(openMemoryStore(), () => commits++));
  const run = await durable(sp, { session: "s" });
  commits = 0;
  const calls = Array.from({ length: steps }, (_, index) => [call(`c${index}`, "charge", { amount: index })]);
  const { result } = await runLoop(mode, {
    model: run.model(slowly(scriptedModel(world, [...calls, [text("Done.")]]))),
    tools: run.tools(shopTools(world), { charge: { onUnknown } }),
    messages: run.messages("Go."),
    stopWhen: ({ steps: done }: { steps: unknown[] }) => done.length > steps,
  } as never);
  const before = commits;
  await run.complete(result);
  const history = await sp.session("s").history().all();
  expect(history).toHaveLength(steps + 2);
  await sp.close();
  return before;
}

describe(`AI SDK ${VERSION}: a step costs`, () => {
  it.each(["ask", "retry"] as const)("two commits with a model call and a tool, with the policy %s", async (policy) => {
    const [few, many] = [await commitsOf("generate", 1, policy), await commitsOf("generate", 1 + STEPS, policy)];
    expect((many - few) / STEPS).toBe(2);
  });

  it.each(["ask", "retry"] as const)(
    "three commits if the model streams, with the policy %s: the checkpoint is written meanwhile",
    async (policy) => {
      const [few, many] = [await commitsOf("stream", 1, policy), await commitsOf("stream", 1 + STEPS, policy)];
      expect((many - few) / STEPS).toBe(3);
    },
  );
});
