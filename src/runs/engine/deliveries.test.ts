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

it("an external loop gets its results immediately, and then a turn of the event loop before it counts as waiting", async () => {
  const log: string[] = [];
  const deliveries = new Deliveries([], { onMissing: () => {}, onQuiet: () => log.push("quiet") });
  deliveries.deliverUnordered(() => log.push("first"));
  deliveries.deliverUnordered(() => log.push("second"));
  expect(log).toEqual(["first", "second"]);
  expect(deliveries.count).toBe(2);
  expect(deliveries.isQuiet).toBe(false);
  await deliveries.drained();
  expect(log).toEqual(["first", "second", "quiet"]);
});

it("nothing is delivered to an external loop after its run has ended", () => {
  const deliveries = new Deliveries([], { onMissing: () => {}, onQuiet: () => {} });
  deliveries.close();
  deliveries.deliverUnordered(() => expect.unreachable());
  expect(deliveries.count).toBe(0);
});
