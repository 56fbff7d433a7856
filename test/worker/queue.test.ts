/** Listing the queue and the owners of leases, without changing anything. */
import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { until } from "../support/until.mjs";

const HOUR = 3_600_000;

it("the queue and the workers list every unfinished run once, with its state", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const open = (): Promise<Savepoint> => Savepoint.open(store, { now: () => time, lease: "1h" });
  let hanging = 0;
  const shop = defineAgent({
    name: "shop",
    initial: (how: string) => ({ how }),
    async step(run) {
      if (run.state.how === "asks") await run.ask("Refund?");
      if (run.state.how === "sleeps") await run.sleep("3h");
      if (run.state.how === "hangs") await run.effect("work", () => (hanging++, new Promise<never>(() => {})));
      return run.complete("done");
    },
  });
  const dead = await open();
  await dead.start(shop, { session: "deadly", input: "hangs" });
  await until(() => hanging === 1, "the session to hang");
  time += 2 * HOUR;

  const sp = await open();
  expect(await sp.workers().all()).toMatchObject([
    { alive: false, pid: process.pid, runs: [{ sessionId: "deadly", branch: "main", agent: "shop" }] },
  ]);
  const worker = sp.worker([shop], { concurrency: 1, maxCrashes: 1, poll: 10, signals: false });
  await worker.start();
  await until(async () => (await sp.sessions.list({ status: "failed" }).all()).length === 1, "it to be quarantined");
  await worker.stop({ grace: 0 });

  expect((await sp.run(shop, { session: "question", input: "asks" })).status).toBe("waiting");
  expect((await sp.run(shop, { session: "sleeper", input: "sleeps" })).status).toBe("waiting");
  await sp.enqueue("shop", { session: "second", input: "" });
  await sp.enqueue("shop", { session: "first", input: "", priority: 9 });
  await sp.enqueue("shop", { session: "tomorrow", input: "", runAt: "24h" });
  await sp.enqueue("other", { session: "alone", input: "" });
  await sp.run(shop, { session: "ended", input: "" });
  await sp.openRun({ session: "own loop", agent: "chat", initial: () => ({}) });
  const other = await open();
  const running = await other.start(shop, { session: "busy", input: "hangs" });
  await until(() => hanging === 2, "the session to hang");

  const queue = await sp.queue().all();
  expect(queue.map(({ sessionId, state, position }) => [sessionId, state, position])).toEqual([
    ["alone", "queued", 1],
    ["first", "queued", 1],
    ["second", "queued", 2],
    ["sleeper", "scheduled", undefined],
    ["tomorrow", "scheduled", undefined],
    ["question", "waiting", undefined],
    ["deadly", "quarantined", undefined],
  ]);
  const of = (id: string): (typeof queue)[number] | undefined => queue.find(({ sessionId }) => sessionId === id);
  expect(of("question")).toMatchObject({ questions: [{ text: "Refund?" }], agent: "shop", external: false });
  expect(of("tomorrow")?.readyAt).toBe(time + 24 * HOUR);
  expect(of("first")?.priority).toBe(9);
  expect(of("deadly")?.reason).toMatch(/^1 processes? in a row/);
  for (const run of queue) expect(await sp.queue({ session: run.sessionId }).all()).toEqual([run]);
  expect(await sp.queue({ session: "ended" }).all()).toEqual([]);
  expect(await sp.queue({ session: "second", agent: "other" }).all()).toEqual([]);
  expect((await sp.queue({ agent: "other" }).all()).map(({ sessionId }) => sessionId)).toEqual(["alone"]);

  const workers = await sp.workers().all();
  expect(workers.map(({ alive, runs }) => [alive, runs.map(({ sessionId }) => sessionId)])).toEqual(
    expect.arrayContaining([
      [true, ["busy"]],
      [true, ["own loop"]],
    ]),
  );
  expect(workers.find(({ runs }) => runs[0]?.sessionId === "busy")?.leaseUntil).toBe(time + HOUR);
  expect(workers.every(({ alive }) => alive)).toBe(true);

  time += 2 * HOUR;
  const later = await sp.queue().all();
  expect(
    later.filter(({ state }) => state === "interrupted").map(({ sessionId, external }) => [sessionId, external]),
  ).toEqual(
    expect.arrayContaining([
      ["busy", false],
      ["own loop", true],
    ]),
  );
  expect(running.session).toBe("busy");
  // A quarantined run that is resumed is not quarantined any more.
  const fixed = defineAgent({ name: "shop", initial: () => ({}), step: (run) => run.complete("done") });
  expect((await sp.run(fixed, { session: "deadly", resume: true, restartStep: true })).status).toBe("completed");
  expect((await sp.queue().all()).filter(({ state }) => state === "quarantined")).toEqual([]);
});
