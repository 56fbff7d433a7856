/** Processes that write the same records in different orders. */
import { afterEach, expect, it } from "vitest";
import { openStore } from "../../src/store.js";
import type { Commit, Store } from "../../src/store/contract/contract.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

it("concurrent appends to the same conversations in different orders all succeed", async () => {
  const url = newPostgresUrl();
  undo.push(() => dropSchema(url));
  const stores: Store[] = await Promise.all([1, 2, 3].map(() => openStore(url, { durability: "process" })));
  for (const store of stores) undo.push(() => store.close());
  const names = Array.from({ length: 12 }, (_, index) => `n${index}`);
  await stores[0]?.commit({ puts: names.map((key) => ({ key, value: "0" })) });
  const append = (counter: string, text: string): Commit => ({
    checks: [{ key: counter, exists: true }],
    items: [{ tape: `tape of ${counter}`, counter, items: [{ json: JSON.stringify(text), refs: "" }] }],
  });
  const rounds = 5;
  for (let round = 0; round < rounds; round++) {
    await Promise.all(
      stores.flatMap((store, writer) => {
        const order = writer % 2 === 0 ? names : [...names].reverse();
        return order.map((name) => store.commit(append(name, `${writer} ${round}`)));
      }),
    );
  }
  for (const name of names) {
    const [counter] = (await stores[0]?.get([name])) ?? [];
    expect(counter).toMatchObject({ value: String(rounds * stores.length) });
    const items = await stores[0]?.items([{ tape: `tape of ${name}`, start: 0, count: rounds * stores.length }]);
    expect(new Set(items?.map((item) => ("json" in item ? item.json : ""))).size).toBe(rounds * stores.length);
  }
});
