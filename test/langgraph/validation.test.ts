/** LangGraph's own suite for checkpointers, on every store. */
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { STORES } from "../model/stores.js";

// The suite expects these functions where other test runners define them.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

for (const kind of STORES) {
  const teardowns = new Map<SavepointSaver, () => Promise<void>>();
  const initializer = {
    checkpointerName: `savepoint/langgraph on ${kind.name}`,
    async createCheckpointer(): Promise<SavepointSaver> {
      const data = await kind.setup();
      const saver = new SavepointSaver(await data.open());
      teardowns.set(saver, () => data.teardown());
      return saver;
    },
    async destroyCheckpointer(saver: SavepointSaver): Promise<void> {
      await teardowns.get(saver)?.();
      teardowns.delete(saver);
    },
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
}
