import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Deliveries } from "./deliveries.js";

it("a step that returns after its run has ended does not wait for closed deliveries", async () => {
  const deliveries = new Deliveries([], { onMissing: () => {}, onQuiet: () => {} });
  deliveries.close();
  const controller = new AbortController();
  const hung = sleep(5000, "hung", controller);
  hung.catch(() => {});
  expect(await Promise.race([deliveries.drained().then(() => "ended"), hung])).toBe("ended");
  controller.abort();
});
