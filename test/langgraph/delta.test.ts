/** Reading the parts of delta channels, which store only changes, for a long thread. */
import type { RunnableConfig } from "@langchain/core/runnables";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { expect, test } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";

const STEPS = 1000;

test("the history of a delta channel is read with a few statements, whatever its length", async () => {
  const store = await openStore("memory:");
  const saver = new SavepointSaver(await Savepoint.open(store));
  let at: RunnableConfig = { configurable: { thread_id: "t" } };
  for (let step = 0; step < STEPS; step++) {
    const values = step === 0 ? { log: "from here on" } : {};
    const made = { ...emptyCheckpoint(), id: uuid6(step), channel_values: values, channel_versions: { log: step + 1 } };
    at = await saver.put(at, made, { source: "loop", step, parents: {} }, { log: step + 1 });
    await saver.putWrites(at, [["log", `line ${step}`]], "task");
  }
  let reads = 0;
  for (const name of ["get", "list", "items", "blob"] as const) {
    const plain = store[name].bind(store) as (...given: unknown[]) => Promise<unknown>;
    Object.assign(store, { [name]: (...given: unknown[]) => (reads++, plain(...given)) });
  }
  const { log } = await saver.getDeltaChannelHistory({ config: at, channels: ["log"] });
  expect(log?.seed).toBe("from here on");
  expect(log?.writes.map(([, , value]) => value)).toEqual(
    Array.from({ length: STEPS - 1 }, (_, step) => `line ${step}`),
  );
  expect(reads).toBeLessThan(35);
});
