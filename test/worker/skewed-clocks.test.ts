/** Machines that share a store have different clocks: only the clock of the store counts. */
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

it("a session sleeps by the clock of the store, whatever the clocks of the processes that start and resume it", async () => {
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

it("elapsed time is right although the clock is set back, or the ticks stop while the machine sleeps", () => {
  expect(elapsedBetween({ clock: 10_000, ticks: 0 }, { clock: 2000, ticks: 700 })).toBe(700);
  expect(elapsedBetween({ clock: 10_000, ticks: 0 }, { clock: 70_000, ticks: 5 })).toBe(60_000);
});

it("the age of a message of another thread is right, even if the machine has slept since", () => {
  const told = { clock: 1000, ticks: 500 };
  const awake = toLocalMoment(told, { clock: 77_030, ticks: 530 }, { clock: 1030, ticks: 530 });
  expect(awake).toEqual({ clock: 77_000, ticks: 500 });
  // The ticks stopped while the machine slept.
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
  // Longer than a worker has for starting a session that it has reserved.
  time += 10_000;
  await until(async () => (await sp.sessions.load("s"))?.status === "completed", "the session to be completed");
  await worker.stop();
  await sp.close();
});
