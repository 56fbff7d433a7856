/** A process that was stopped for longer than its lease, and whose branches no other process has claimed yet. */
import { AsyncResource } from "node:async_hooks";
import { expect, it } from "vitest";
import { type Agent, defineAgent, Savepoint } from "../../src/index.js";
import { journalKey } from "../../src/records/index.js";
import { openStore } from "../../src/store.js";

it("a process that was stopped for longer than its lease checks it before it starts a tool, although it may still write", async () => {
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
  // As soon as the first process has written what it did before it was stopped, the other one takes over.
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

it.each(["renewing it", "looking for others"])(
  "a process that was stopped checks its lease once more if %s took longer than the lease lasts",
  async (slow) => {
    let time = Date.parse("2026-01-01T00:00:00Z");
    const store = await openStore("memory:", { now: () => time });
    const done: string[] = [];
    let stopped = false;
    const agentOf = (name: string): Agent<undefined, object, string> =>
      defineAgent({
        name: "agent",
        initial: () => ({}),
        async step(run) {
          await run.effect("stopped", () => {
            stopped = true;
            time += 7_200_000;
          });
          await run.tool({ id: "t", name: "tool" }, () => done.push(name), { onUnknown: "retry" });
          return run.complete(name);
        },
      });
    const go = { session: "s", input: undefined };
    const open = (): Promise<Savepoint> => Savepoint.open(store, { now: () => time, lease: "1h" });
    const [first, second] = [await open(), await open()];
    // The database is away during the check, and the other process takes over as soon as it is back.
    const [commit, get] = [store.commit.bind(store), store.get.bind(store)];
    const outside = new AsyncResource("another process");
    let rival: Promise<unknown> | undefined;
    let delayed = false;
    store.commit = async (wanted) => {
      const isRenewal = wanted.puts?.length === 1 && wanted.puts[0]?.key.startsWith("h");
      if (slow === "renewing it" && stopped && isRenewal && !delayed) {
        delayed = true;
        time += 7_200_000;
      }
      return commit(wanted);
    };
    store.get = async (keys) => {
      const found = await get(keys);
      if (!stopped || rival || keys.length > 1 || keys[0] !== journalKey("s", "main")) return found;
      if (slow === "looking for others") time += 7_200_000;
      rival = outside.runInAsyncScope(() => second.run(agentOf("second"), go));
      expect(await rival).toMatchObject({ status: "completed", output: "second" });
      return found;
    };
    await expect(first.run(agentOf("first"), go)).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(rival).toBeDefined();
    expect(done).toEqual(["second"]);
  },
);
