/** A process that was stopped for longer than its lease, and that nobody has taken over from yet. */
import { AsyncResource } from "node:async_hooks";
import { expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store/index.js";

it("makes sure of its lease before it begins with anything, although it may still write", async () => {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const store = await openStore("memory:", { now: () => time });
  const done: string[] = [];
  const agentOf = (name: string): Agent<undefined, object, string> =>
    defineAgent({
      name: "agent",
      initial: () => ({}),
      async step(run) {
        await run.effect("stopped", () => void (time += 7_200_000));
        await run.tool({ id: "t", name: "tool" }, () => done.push(name), { onUnknown: "retry" });
        return run.complete(name);
      },
    });
  const go = { session: "s", input: undefined };
  const open = (): Promise<Savepoint> => Savepoint.open(store, { now: () => time, lease: "1h" });
  const [first, second] = [await open(), await open()];
  // As soon as the first one has written what it did before it was stopped, the other one takes over.
  const commit = store.commit.bind(store);
  const outside = new AsyncResource("another process");
  let rival: Promise<unknown> | undefined;
  store.commit = async (wanted) => {
    const result = await commit(wanted);
    if (wanted.items?.length === 1 && !rival) {
      rival = outside.runInAsyncScope(() => second.run(agentOf("second"), go));
      expect(await rival).toMatchObject({ status: "completed", output: "second" });
    }
    return result;
  };
  await expect(first.run(agentOf("first"), go)).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(rival).toBeDefined();
  expect(done).toEqual(["second"]);
});
