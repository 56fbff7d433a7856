import { expect, it } from "vitest";
import { openPostgresStore, type Store } from "../../src/store.js";
import { until } from "../support/until.mjs";
import { startProxy } from "./proxy.js";
import { dropSchema, newPostgresUrl, query } from "./schemas.js";

const options = { durability: "process" } as const;

/** Listens, and sends a notification until it is received. */
async function expectToHear(store: Store): Promise<void> {
  const heard: string[] = [];
  const end = await store.listen?.((name) => heard.push(name));
  await until(async () => {
    await store.commit({ puts: [{ key: "k", value: "2" }], wakes: ["here"] });
    return heard.includes("here");
  }, "what was called out to be heard");
  await end?.();
}

it("a store receives notifications again after its connection was cut, and stops listening without an error", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const [store, other] = [await openPostgresStore(proxy.url, options), await openPostgresStore(url, options)];
  const heard: string[] = [];
  const end = await store.listen?.((name) => heard.push(name));
  await other.commit({ puts: [{ key: "k", value: "1" }], wakes: ["before"] });
  await until(() => heard.includes("before"), "the first name");
  await query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN savepoint%'");
  await until(() => heard.includes(""), "the store to report that it may have missed something");
  await other.commit({ puts: [{ key: "k", value: "2" }], wakes: ["after"] });
  await until(() => heard.includes("after"), "the second name");
  await end?.();
  // An error of the connection that ends would end the process.
  await other.commit({ puts: [{ key: "k", value: "3" }], wakes: ["too late"] });
  await store.close();
  await other.close();
  await until(() => proxy.connections === 0, "all connections to end");
  await proxy.close();
  expect(heard).toEqual(["before", "", "after"]);
  await dropSchema(url);
});

it("a store accepts times with fractions of milliseconds", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, options);
  const now = await store.now();
  await store.commit({ notBefore: now - 0.5, puts: [{ key: "k", value: "1" }] });
  await expect(store.commit({ notBefore: now + 60_000.5, puts: [{ key: "k", value: "2" }] })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  await store.close();
  await dropSchema(url);
});

it("a store survives the end of a connection at the moment at which it gets it", async () => {
  const url = newPostgresUrl();
  await (await openPostgresStore(url, options)).close();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  proxy.cut();
  proxy.endNext();
  // An error event without a listener would end the process.
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  expect(await store.get(["k"])).toMatchObject([{ value: "1" }]);
  proxy.cut();
  proxy.endNext();
  await expectToHear(store);
  await store.close();
  await proxy.close();
  await dropSchema(url);
});

it("a store listens again if its connection ends together with the answer to LISTEN", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  proxy.endAnswered();
  await expectToHear(store);
  await store.close();
  await proxy.close();
  await dropSchema(url);
});

it("a store survives the end of its connections while it closes", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  await store.get(["k"]);
  proxy.endLeaving();
  await store.close();
  // An error of a connection that ends would end the process.
  await until(() => proxy.connections === 0, "all connections to end");
  await proxy.close();
  await dropSchema(url);
});
