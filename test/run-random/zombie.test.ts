import { expect, it } from "vitest";
import { defineAgent, isSavepointError, Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import { Victim } from "./world.js";

const LEASE = 30_000;

it.each([1, 2, 3, 4, 5])(
  "a process that falls asleep after its commit number %i starts no effect when it wakes up after another process has taken over",
  async (number) => {
    let time = 1_700_000_000_000;
    const now = (): number => time;
    const store = openMemoryStore({ now });
    const paid: string[] = [];
    const agentOf = (who: string): ReturnType<typeof defineAgent<number, object, unknown>> =>
      defineAgent({
        name: "bank",
        initial: (_input: number) => ({}),
        async step(run) {
          await run.tool({ id: "pay", name: "pay" }, () => void paid.push(who));
          await run.tool({ id: "tell", name: "tell" }, () => void paid.push(who));
          return run.complete("done") as unknown;
        },
      });
    const victim = new Victim({ at: "after commit", number, wakes: true });
    const asleep = await Savepoint.open(victim.storeOf(store), { now, lease: LEASE });
    const ending = asleep.run(agentOf("zombie"), { session: "s", input: 1 }).then(
      ({ status }) => status,
      (error: unknown) => (isSavepointError(error) ? error.code : String(error)),
    );
    await Promise.race([victim.fallen, ending]);
    const before = [...paid];
    time += LEASE + 1;

    const sp = await Savepoint.open(store, { now, lease: LEASE });
    for (;;) {
      const result = await sp.run(agentOf("heir"), { session: "s", input: 1 });
      if (result.status === "completed") break;
      const { call } = result.question ?? {};
      // The answer reports what has happened by now.
      const happened = call?.id === "pay" ? paid.length > 0 : paid.length > 1;
      await sp.answer("s", happened ? { happened, result: undefined } : { happened });
    }
    expect(paid).toHaveLength(2);
    victim.wake();
    expect(["LEASE_LOST", "completed"]).toContain(await ending);
    expect(paid).toHaveLength(2);
    expect(paid.filter((who) => who === "zombie")).toEqual(before);
  },
);
