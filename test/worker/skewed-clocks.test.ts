/** Machines that share a store have clocks that differ: what matters is the store's. */
import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { between } from "../../src/run/moment.js";
import { openStore } from "../../src/store/index.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

it("sleeps by the store's clock, whoever puts it to sleep and whoever wakes it", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const sleeper = defineAgent({
    name: "sleeper",
    initial: () => ({}),
    async step(run) {
      await run.sleep("1h");
      return run.complete("rested");
    },
  });
  for (const [first, second] of [
    [DAY, -DAY],
    [-DAY, DAY],
  ] as const) {
    const session = `s${first}`;
    const begun = time;
    const early = await Savepoint.open(store, { now: () => time + first });
    const asleep = await early.run(sleeper, { session, input: undefined });
    expect(asleep).toMatchObject({ status: "waiting", wakeAt: begun + HOUR });
    const other = await Savepoint.open(store, { now: () => time + second });
    expect(await other.recover([sleeper])).toEqual([]);
    time += HOUR;
    const [handle] = await other.recover([sleeper]);
    expect(await handle?.result()).toMatchObject({ status: "completed", output: "rested" });
  }
  await store.close();
});

it("is not fooled about how long it was stopped by a clock that is set back, or by one that stops with the machine", () => {
  expect(between({ clock: 10_000, ticks: 0 }, { clock: 2000, ticks: 700 })).toBe(700);
  expect(between({ clock: 10_000, ticks: 0 }, { clock: 70_000, ticks: 5 })).toBe(60_000);
});
