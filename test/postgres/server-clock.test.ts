import { expect, it } from "vitest";
import { ServerClock } from "../../src/store/postgres/server-clock.js";

it("the server clock does not go back if an answer arrives after the answer to a later request", async () => {
  const asked: ((time: number) => void)[] = [];
  const clock = new ServerClock(() => new Promise((resolve) => asked.push(resolve)));
  const [slow, fast] = [clock.now(), clock.now()];
  asked[1]?.(5040);
  expect(await fast).toBe(5040);
  const before = await clock.now();
  expect(before).toBeGreaterThanOrEqual(5040);
  asked[0]?.(5000);
  expect(await slow).toBe(5000);
  expect(await clock.now()).toBeGreaterThanOrEqual(before);
  expect(asked).toHaveLength(2);
});

it("the server clock is not computed from an answer to a query that was sent before it was reset", async () => {
  const asked: ((time: number) => void)[] = [];
  const clock = new ServerClock(() => new Promise((resolve) => asked.push(resolve)));
  const early = clock.now();
  clock.forget();
  asked[0]?.(5000);
  expect(await early).toBe(5000);
  const late = clock.now();
  asked[1]?.(5090);
  expect(await late).toBe(5090);
});
