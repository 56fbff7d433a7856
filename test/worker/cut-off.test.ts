/** Processes that the store was away from for longer than their leases last. They have not died. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint, SavepointError } from "../../src/index.js";
import { openStore, type Store } from "../../src/store/index.js";

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

/** Does nothing until it is told to stop. */
const hang = ({ signal }: { readonly signal: AbortSignal }): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));

/** The same store, as another process has it, and what cuts that one off. */
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

it("do not count as deaths when they are there again, also while they have nothing to do", async () => {
  const store = await openStore("memory:");
  const [one, two] = [wayTo(store), wayTo(store)];
  const options = { lease: 300, on: { backgroundFailure: () => {} } };
  const first = await Savepoint.open(one.store, options);
  const handle = await first.start(agentOf(hang), { session: "s", input: undefined });
  const lost = expect(handle.result()).rejects.toMatchObject({ code: "LEASE_LOST" });
  one.cutOff(true);
  const second = await Savepoint.open(two.store, options);
  const another = second.worker([agentOf(hang)], { maxDeaths: 2, poll: 20, signals: false });
  await another.start();
  while (another.running === 0) await sleep(10);
  one.cutOff(false);
  await lost;
  await sleep(600);
  two.cutOff(true);
  const third = await Savepoint.open(store, options);
  const worker = third.worker([agentOf(() => "done")], { maxDeaths: 2, poll: 20, signals: false });
  await worker.start();
  let status: string | undefined;
  do {
    await sleep(20);
    status = (await third.sessions.load("s"))?.status;
  } while (status === "running" || status === "interrupted");
  expect(status).toBe("completed");
  two.cutOff(false);
  await worker.stop();
  await another.stop({ grace: 0 });
  await first.close();
  await second.close();
  await third.close();
});
