import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { openPostgresStore, type Store } from "../../src/store/index.js";
import { startProxy } from "./proxy.js";
import { dropSchema, newPostgresUrl, query } from "./schemas.js";

const options = { durability: "process" } as const;

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(10);
}

/** Listens, and is told something until it is heard. */
async function expectToHear(store: Store): Promise<void> {
  const heard: string[] = [];
  const end = await store.listen?.((name) => heard.push(name));
  while (!heard.includes("here")) {
    await store.commit({ puts: [{ key: "k", value: "2" }], wakes: ["here"] });
    await sleep(50);
  }
  await end?.();
}

it("ends listening without a word, and hears again after its connection was cut", async () => {
  const url = newPostgresUrl();
  const [store, other] = [await openPostgresStore(url, options), await openPostgresStore(url, options)];
  const heard: string[] = [];
  const end = await store.listen?.((name) => heard.push(name));
  await other.commit({ puts: [{ key: "k", value: "1" }], wakes: ["before"] });
  await until(() => heard.includes("before"));
  await query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN savepoint%'");
  // It says itself that it may have missed something.
  await until(() => heard.includes(""));
  await other.commit({ puts: [{ key: "k", value: "2" }], wakes: ["after"] });
  await until(() => heard.includes("after"));
  await end?.();
  // What the connection says when it ends is nobody's any more; an error in that would end the process.
  await sleep(200);
  expect(heard).toEqual(["before", "", "after"]);
  await store.close();
  await other.close();
  await dropSchema(url);
});

it("takes times with parts of milliseconds", async () => {
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

it("survives that its connection is ended in the moment in which it gets it", async () => {
  const url = newPostgresUrl();
  await (await openPostgresStore(url, options)).close();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  proxy.cut();
  proxy.endNext();
  // An error that nobody hears would end the process.
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  expect(await store.get(["k"])).toMatchObject([{ value: "1" }]);
  proxy.cut();
  proxy.endNext();
  await expectToHear(store);
  await store.close();
  await proxy.close();
  await dropSchema(url);
});

it("hears in the end where its connection was ended together with the answer that it listens", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  proxy.endAnswered();
  await expectToHear(store);
  await store.close();
  await proxy.close();
  await dropSchema(url);
});

it("survives that its connections are ended while it closes", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const store = await openPostgresStore(proxy.url, options);
  await store.commit({ puts: [{ key: "k", value: "1" }] });
  await store.get(["k"]);
  proxy.endLeaving();
  await store.close();
  await sleep(200);
  await proxy.close();
  await dropSchema(url);
});
