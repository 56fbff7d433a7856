import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { inboxKey, queueEntryKey } from "../../src/records/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import type { Store } from "../../src/store/contract/contract.js";

it("a completed run keeps its queue entry when the inbox has inputs that it cannot read", async () => {
  const store = openMemoryStore();
  const inbox = inboxKey("s", "main");
  let isDamaged = false;
  const get: Store["get"] = async (keys) =>
    (await store.get(keys)).map((record) =>
      isDamaged && record?.key === inbox ? { key: inbox, unreadable: "it is damaged" } : record,
    );
  const damaged = new Proxy(store, {
    get(target, name) {
      if (name === "get") return get;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const agent = defineAgent({
    name: "a",
    initial: (_input: string) => ({}),
    receive: () => {},
    async step(run) {
      await run.effect("leave", async () => {
        await sp.send("s", "later");
        isDamaged = true;
      });
      return run.complete("done");
    },
  });
  const damage: string[] = [];
  const sp = await Savepoint.open(damaged, { on: { damage: ({ reason }) => void damage.push(reason) } });
  expect(await sp.run(agent, { session: "s", input: "now" })).toMatchObject({ status: "completed", output: "done" });
  expect(damage).toEqual(["it is damaged"]);
  // The queue entry stays, so that the session is checked again.
  expect((await store.get([queueEntryKey("s", "main")]))[0]).toBeDefined();
});
