/** Processes that lose the connection to the store for longer than their leases last do not count as dead. */
import { expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint, SavepointError } from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import { createGate } from "../support/gate.js";
import { until } from "../support/until.mjs";

const LEASE = 300;

function agentOf(work: (context: { readonly signal: AbortSignal }) => unknown): Agent<undefined, object, string> {
  return defineAgent({
    name: "agent",
    initial: () => ({}),
    async step(run) {
      await run.effect("work", work);
      return run.complete("done");
    },
  });
}

/** Does nothing until it is aborted, or the test has ended. */
const testEnded = createGate();
const hang = ({ signal }: { readonly signal: AbortSignal }): Promise<void> =>
  new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error));
    void testEnded.promise.then(resolve);
  });

/** The same store as another process sees it, and a switch that cuts that process off. */
function wayTo(store: Store): { store: Store; cutOff: (isAway: boolean) => void } {
  let away = false;
  const way = new Proxy(store, {
    get(target, name) {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      return (...given: unknown[]): unknown =>
        away ? Promise.reject(new SavepointError("UNAVAILABLE", "no database")) : value.apply(target, given);
    },
  });
  return { store: way, cutOff: (isAway) => void (away = isAway) };
}

it("a process that was cut off for longer than its lease does not count as dead when it is back, even if it is idle", async () => {
  const store = await openStore("memory:");
  const [one, two] = [wayTo(store), wayTo(store)];
  const options = { lease: LEASE, on: { backgroundFailure: () => {} } };
  const first = await Savepoint.open(one.store, options);
  const handle = await first.start(agentOf(hang), { session: "s", input: undefined });
  const lost = expect(handle.result()).rejects.toMatchObject({ code: "LEASE_LOST" });
  one.cutOff(true);
  const second = await Savepoint.open(two.store, options);
  const another = second.worker([agentOf(hang)], { maxCrashes: 2, poll: 20, signals: false });
  await another.start();
  await until(() => another.running === 1, "the second process to take over");
  one.cutOff(false);
  await lost;
  // The first process has nothing to do: its lease would expire if it were not renewed.
  const expired = (await store.now()) + 2 * LEASE;
  await until(async () => (await store.now()) > expired, "two leases to pass");
  two.cutOff(true);
  const third = await Savepoint.open(store, options);
  const worker = third.worker([agentOf(() => "done")], { maxCrashes: 2, poll: 20, signals: false });
  await worker.start();
  const status = async () => (await third.sessions.load("s"))?.status;
  const isOver = async () => !["running", "interrupted"].includes((await status()) ?? "");
  await until(isOver, "the session to be completed or failed");
  expect(await status()).toBe("completed");
  two.cutOff(false);
  testEnded.open();
  await worker.stop();
  await another.stop({ grace: 0 });
  await first.close();
  await second.close();
  await third.close();
});
