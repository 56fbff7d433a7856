import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Savepoint } from "../../../index.js";
import type { ItemChange } from "./changes.js";
import { Memory } from "./memory.js";
import { TurnQueue } from "./turn-queue.js";

const put = (key: string): Promise<ItemChange[]> =>
  Promise.resolve([{ kind: "put", key, item: { key, value: {}, updatedAt: 1 } }]);

it("a change is saved whenever it is requested, also while the save before it ends", async () => {
  await using sp = await Savepoint.open("memory:");
  const context = { sp, agent: "memory", now: Date.now, turns: new TurnQueue(sp, "memory", "turns") };
  const controller = new AbortController();
  const hung = sleep(20_000, "hung", controller);
  hung.catch(() => {});
  // Each memory gets its second change a different number of microtasks after its first one was saved.
  const changes = Array.from({ length: 12 }, async (_, microtasks) => {
    const memory = new Memory(context, `memory/${microtasks}`, [String(microtasks)]);
    await memory.change(put("first"));
    for (let each = 0; each < microtasks; each++) await Promise.resolve();
    await memory.change(put("second"));
    return memory.item("second");
  });
  const items = await Promise.race([Promise.all(changes), hung]);
  controller.abort();
  expect(items).toHaveLength(12);
});
