/** Machines that share a store have clocks that differ: what matters is the store's. */
import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { queueEntryKey } from "../../src/records/index.js";
import { elapsedBetween, toLocalMoment } from "../../src/runs/leases/moment.js";
import { openStore } from "../../src/store.js";
import { until } from "../support/until.mjs";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const sleeper = defineAgent({
  name: "sleeper",
  initial: () => ({}),
  async step(run) {
    await run.sleep("1h");
    return run.complete("rested");
  },
});

it("sleeps by the store's clock, whoever puts it to sleep and whoever wakes it", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
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
  expect(elapsedBetween({ clock: 10_000, ticks: 0 }, { clock: 2000, ticks: 700 })).toBe(700);
  expect(elapsedBetween({ clock: 10_000, ticks: 0 }, { clock: 70_000, ticks: 5 })).toBe(60_000);
});

it("knows how long ago another thread was heard of, also where the machine was asleep since", () => {
  const told = { clock: 1000, ticks: 500 };
  const awake = toLocalMoment(told, { clock: 77_030, ticks: 530 }, { clock: 1030, ticks: 530 });
  expect(awake).toEqual({ clock: 77_000, ticks: 500 });
  // Its ticks stood still meanwhile.
  const now = { clock: 77_000 + 60_000, ticks: 510 };
  expect(elapsedBetween(toLocalMoment(told, now, { clock: 61_000, ticks: 510 }), now)).toBe(60_000);
});

it("a session that was found to be awake is not forgotten when the clock is set back", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const sp = await Savepoint.open(store, { now: () => time });
  expect(await sp.run(sleeper, { session: "s", input: undefined })).toMatchObject({ status: "waiting" });
  time += HOUR;
  let looked = 0;
  const get = store.get.bind(store);
  store.get = async (keys) => {
    const isFound = keys.length === 1 && keys[0] === queueEntryKey("s", "main");
    if (isFound && looked++ === 0) time -= 50;
    return get(keys);
  };
  const worker = sp.worker([sleeper], { poll: 10, signals: false });
  await worker.start();
  await until(() => looked >= 2, "the worker to find the session twice");
  expect(await get([queueEntryKey("s", "main")])).not.toEqual([undefined]);
  // Longer than whoever was given it has for beginning with it.
  time += 10_000;
  await until(async () => (await sp.sessions.load("s"))?.status === "completed", "the session to be completed");
  await worker.stop();
  await sp.close();
});
