/** Every route, on stores of every form in which they are opened: read-only, for one agent, and empty. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { defineShop } from "./agents.js";
import { Client, newFolder, open, useCleanup } from "./lab.js";

useCleanup();

const READS = [
  "/api/meta",
  "/api/sessions",
  "/api/sessions/order-88",
  "/api/sessions/order-88/history",
  "/api/sessions/order-88/graph",
  "/api/sessions/order-88/checkpoint",
  "/api/sessions/order-88/state?pointer=/messages/0",
  "/api/sessions/order-88/messages",
  "/api/sessions/order-88/diff",
  "/api/sessions/order-88/journal",
  "/api/sessions/order-88/timeline",
  "/api/sessions/order-88/effects-after?at=0",
  "/api/checkpoint?id=order-88%230",
  "/api/questions",
  "/api/workers",
  "/api/queue",
  "/api/conversations",
  "/api/conversations/talk",
  "/api/agents",
  "/api/agents/shop",
  "/api/agents/shop/checkpoints",
  "/api/search?text=refund",
  "/api/store",
  "/api/store/largest",
  "/api/store/growth",
  "/api/store/damage",
];

async function fill(url: string): Promise<string> {
  const sp = await open(url);
  await sp.agents.save({ id: "shop", name: "Shop" });
  await sp.conversations.create({ id: "talk", agent: "shop", messages: [message.user("A refund, please.")] });
  await sp.run(defineShop(), { session: "order-88", input: "Refund my cup." });
  const [{ id } = expect.fail()] = await sp.session("order-88").history({ order: "oldest", limit: 1 }).all();
  await sp.close();
  return id;
}

describe("every read works", () => {
  it.each(["sqlite:", "file:"])("on a store that is opened read-only, on %s", async (scheme) => {
    const url = `${scheme}${newFolder()}/store`;
    const id = await fill(url);
    const client = new Client(await open(url, { readOnly: true }));
    for (const path of READS) await client.get(path.replace("order-88%230", encodeURIComponent(id)));
    await client.post("/api/store/retention-preview", { options: { keepLast: 1 } });
    await client.post("/api/sessions/order-88/preview", {
      checkpoint: 0,
      changes: [{ op: "add", path: "/x", value: 1 }],
    });
    const { verification } = await client.post("/api/store/verify", {});
    expect(verification.state).toBe("running");
    await expect.poll(async () => (await client.get("/api/store/damage")).verification.state).toBe("done");
    expect(await client.failPost("/api/sessions/order-88/answer", { value: true })).toBe("403 READ_ONLY");
  });

  it("for an inspector of one agent, except what is about the whole store", async () => {
    const url = `sqlite:${newFolder()}/store`;
    const id = await fill(url);
    const client = new Client(await open(url, { scope: { agent: "shop" } }));
    for (const path of READS) {
      const { status } = await client.send(path.replace("order-88%230", encodeURIComponent(id)));
      expect([200, 403], path).toContain(status);
      if (path.startsWith("/api/sessions")) expect(status, path).toBe(200);
    }
    const other = new Client(await open(url, { scope: { agent: "other" } }));
    expect(await other.fail("/api/sessions/order-88")).toMatch(/^40[34] /);
    expect((await other.get("/api/sessions")).sessions).toEqual([]);
  });

  it("of missing things with 404, and of an empty store with empty lists", async () => {
    const client = new Client(await open());
    for (const path of READS) {
      const isOfOne = /order-88|talk|agents\/shop$|checkpoint\?/.test(path);
      const { status } = await client.send(path);
      expect(status, path).toBe(isOfOne ? 404 : 200);
    }
    expect(await client.get("/api/store/growth")).toMatchObject({ isIndexing: false });
  });
});

it("no response is larger than its bounds, whatever the store has", async () => {
  const sp = await open();
  const long = "x".repeat(3_000_000);
  const messages = Array.from({ length: 600 }, (_, n) => message.user(`${n} ${"y".repeat(30_000)}`));
  await sp
    .session("large", { agent: long.slice(0, 100) })
    .save({ messages, long, list: Array(50_000).fill(7) }, { label: "l" });
  await sp.session("large").save({ messages: [], long: `${long}!`, list: [] });
  const client = new Client(sp);
  const size = async (path: string): Promise<number> => (await (await client.send(path)).text()).length;
  expect(await size("/api/sessions")).toBeLessThan(5000);
  expect(await size("/api/sessions/large")).toBeLessThan(20_000);
  expect(await size("/api/sessions/large/history")).toBeLessThan(20_000);
  expect(await size("/api/sessions/large/checkpoint?at=0")).toBeLessThan(2_000_000);
  expect(await size("/api/sessions/large/checkpoint?at=0&maxBytes=1000000000")).toBeLessThan(12_000_000);
  expect(await size("/api/sessions/large/state?at=0&pointer=/long")).toBeLessThan(300_000);
  expect(await size("/api/sessions/large/messages?at=0&limit=100000&maxText=100")).toBeLessThan(200_000);
  expect(await size("/api/sessions/large/diff")).toBeLessThan(5_000_000);
});
