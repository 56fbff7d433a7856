/** Conversations, agents, search and the store as a whole. */
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import { SQLITE, targetsIn } from "../damage/world.js";
import { findHighlights } from "../../src/inspector/data/highlights.js";
import { defineShop } from "./agents.js";
import { Client, newFolder, open, useCleanup } from "./lab.js";

useCleanup();

const call = { id: "c1", name: "lookup", arguments: { order: "88" } };

async function withConversation(sp: Savepoint): Promise<void> {
  await sp.agents.save({
    id: "support",
    name: "Support",
    systemPrompt: "Be brief.",
    config: { model: "m" },
    state: { n: 1 },
  });
  await sp.conversations.create({
    id: "talk/1",
    agent: "support",
    title: "A cup",
    tags: ["refund"],
    messages: [message.user("Where is my cup?"), message.assistant("", [call]), message.toolResult("c1", "shipped")],
  });
}

describe("conversations", () => {
  it("are listed in pages, by agent and tag, and their messages page from the newest", async () => {
    const sp = await open();
    await withConversation(sp);
    for (let n = 0; n < 5; n++) await sp.conversations.create({ id: `more-${n}`, messages: [message.user(`${n}`)] });
    const client = new Client(sp);
    const first = await client.get("/api/conversations?limit=4");
    expect(first.entries).toHaveLength(4);
    const second = await client.get(`/api/conversations?limit=4&cursor=${first.next}`);
    expect(second.entries).toHaveLength(2);
    expect(second).not.toHaveProperty("next");
    expect(await client.fail(`/api/conversations?limit=4&cursor=${first.next}`)).toBe("409 CONFLICT");
    const { entries } = await client.get("/api/conversations?agent=support&tag=refund&archived=false");
    expect(entries).toMatchObject([{ id: "talk/1", title: "A cup", messageCount: 3 }]);
    expect(await client.fail("/api/conversations?archived=maybe")).toBe("400 INVALID_ARGUMENT");
    const talk = await client.get("/api/conversations/talk%2F1");
    expect(talk.conversation).toMatchObject({ id: "talk/1", agent: "support" });
    expect(talk.messages).toMatchObject({
      total: 3,
      messages: [
        { index: 0, role: "user", text: "Where is my cup?", timestamp: expect.any(Number) },
        {
          index: 1,
          role: "assistant",
          toolCalls: [{ id: "c1", arguments: { order: "88" }, result: { text: "shipped" } }],
        },
      ],
    });
    const page = await client.get("/api/conversations/talk%2F1?limit=1&before=1");
    expect(page.messages.messages.map(({ index }: { index: number }) => index)).toEqual([0]);
    expect(page.messages).not.toHaveProperty("before");
    expect((await client.get("/api/conversations/talk%2F1?limit=1")).messages).toMatchObject({
      messages: [],
      before: 2,
    });
    expect(await client.fail("/api/conversations/none")).toBe("404 CONVERSATION_NOT_FOUND");
  });
});

describe("agents", () => {
  it("are shown with their states and checkpoints, and restored after a preview", async () => {
    const sp = await open();
    await withConversation(sp);
    const { id } = await sp.checkpoints.create({ agent: "support", label: "before" });
    await sp.agents.update("support", { state: { n: 2 } });
    await sp.conversations.append("talk/1", [message.user("Thanks")]);
    const client = new Client(sp, { write: true });
    expect((await client.get("/api/agents")).entries).toMatchObject([{ id: "support", name: "Support" }]);
    expect(await client.get("/api/agents/support")).toMatchObject({
      agent: { id: "support" },
      systemPrompt: "Be brief.",
      config: { model: "m" },
      state: { n: 2 },
      isComplete: true,
    });
    const { entries } = await client.get("/api/agents/support/checkpoints");
    expect(entries.find((entry: { id: string }) => entry.id === id)).toMatchObject({
      label: "before",
      agent: "support",
    });
    const shown = await client.get(`/api/checkpoint?id=${encodeURIComponent(id)}`);
    expect(shown).toMatchObject({ checkpoint: { id }, state: { agent: { state: { n: 1 } } }, isComplete: true });
    const preview = await client.get(`/api/restore?id=${encodeURIComponent(id)}`);
    expect(preview).toMatchObject({
      agent: "support",
      restored: [{ id: "talk/1", messagesBefore: 4, messagesAfter: 3 }],
    });
    expect(preview.changeCount).toBe(preview.changes.length);
    expect((await sp.agents.load("support"))?.state).toEqual({ n: 2 });
    expect(await client.failPost("/api/restore", {})).toBe("400 INVALID_ARGUMENT");
    const { before } = await client.post("/api/restore", { id });
    expect((await sp.agents.load("support"))?.state).toEqual({ n: 1 });
    await client.post("/api/restore", { id: before.id });
    expect((await sp.agents.load("support"))?.state).toEqual({ n: 2 });
    expect(await client.fail("/api/agents/none")).toBe("404 AGENT_NOT_FOUND");
    expect(await client.fail("/api/checkpoint?id=none")).toBe("404 CHECKPOINT_NOT_FOUND");
  });

  it("a checkpoint of a session is found by its id alone", async () => {
    const sp = await open();
    const { id } = await sp.session("s").save({ messages: [message.user("Hi")] });
    const shown = await new Client(sp).get(`/api/checkpoint?id=${encodeURIComponent(id)}`);
    expect(shown).toMatchObject({ checkpoint: { id, sessionId: "s" }, messages: { total: 1 } });
  });
});

describe("a search", () => {
  it("finds messages of conversations and sessions, and ids, with the parts that match", async () => {
    const sp = await open();
    await withConversation(sp);
    await sp.session("cup-session", { agent: "shop" }).save({ messages: [message.user("My CUP is broken")] });
    const client = new Client(sp);
    await client.get("/api/sessions");
    const { hits, sessions } = await client.get("/api/search?text=cup");
    expect(hits.map(({ source, title }: { source: string; title?: string }) => [source, title]).sort()).toEqual([
      ["conversation", "A cup"],
      ["session", undefined],
    ]);
    for (const { snippet, highlights } of hits) {
      const [[start, end]] = highlights;
      expect(snippet.slice(start, end).toLowerCase()).toBe("cup");
    }
    expect(sessions).toMatchObject([{ id: "cup-session" }]);
    expect((await client.get("/api/search?text=cup&agent=shop&role=user&limit=1")).hits).toHaveLength(1);
    expect(await client.fail("/api/search")).toBe("400 INVALID_ARGUMENT");
    expect(await client.fail("/api/search?text=x&role=god")).toBe("400 INVALID_ARGUMENT");
  });

  it("highlights letters that have several lower-case units, and a bounded number of parts", () => {
    expect(findHighlights("İstanbul ISTANBUL", "stan")).toEqual([
      [1, 5],
      [10, 14],
    ]);
    expect(findHighlights("😀 cup", "CUP")).toEqual([[3, 6]]);
    expect(findHighlights("a".repeat(1000), "a")).toHaveLength(50);
    expect(findHighlights("text", "")).toEqual([]);
  });
});

describe("the store", () => {
  it("is shown with counts, policies, backups, its largest sessions and its growth", async () => {
    const folder = newFolder();
    const sp = await open(`sqlite:${folder}/store.db`);
    await sp.session("large").save({ messages: [] });
    for (let n = 0; n < 20; n++) await sp.session("large").append("/messages", [message.user("x".repeat(200))]);
    await sp.session("small").save({ n: 1 });
    await sp.retention.set({ session: "large" }, { keepLast: 5 });
    await sp.backup({ to: `${folder}/backups` });
    const client = new Client(sp);
    const store = await client.get("/api/store");
    expect(store).toMatchObject({
      stats: { sessions: 2, checkpoints: 22 },
      lastShutdown: { clean: true },
      policies: [{ target: { session: "large" }, options: { keepLast: 5 } }],
      damage: { events: [] },
    });
    expect(store.backups).toMatchObject([{ bytes: expect.any(Number), host: expect.any(String) }]);
    for (const by of ["bytes", "state", "checkpoints"]) {
      const { sessions } = await client.get(`/api/store/largest?by=${by}&limit=1`);
      expect(sessions, by).toMatchObject([{ id: "large" }]);
    }
    expect((await client.get("/api/store/largest")).sessions[0].bytes).toBeGreaterThan(1000);
    const growth = await client.get("/api/store/growth?buckets=10");
    expect(growth.sessions.reduce((sum: number, each: number) => sum + each, 0)).toBe(2);
    expect(growth.bytes.at(-1)).toBe(store.stats.bytes);
    expect(growth.bytes).toHaveLength(10);
    const detail = await client.get("/api/sessions/large");
    expect(detail.retention).toEqual({ keepLast: 5 });
    expect(await client.fail("/api/store/largest?by=name")).toBe("400 INVALID_ARGUMENT");
  });

  it("shows what a policy would remove, and why the rest is kept, without removing anything", async () => {
    const sp = await open();
    for (let n = 0; n < 10; n++) await sp.session("s").save({ n }, n === 2 ? { pinned: true } : {});
    const client = new Client(sp);
    const preview = await client.post("/api/store/retention-preview", { session: "s", options: { keepLast: 3 } });
    expect(preview).toMatchObject({ removed: 6, kept: 4, reasons: { last: 3, pinned: 1, head: 1 } });
    expect(preview.gone.map(({ seq }: { seq: number }) => seq)).toEqual([6, 5, 4, 3, 1, 0]);
    expect(preview.keeping.find(({ seq }: { seq: number }) => seq === 2)).toMatchObject({ reasons: ["pinned"] });
    expect(await sp.session("s").history().all()).toHaveLength(10);
    const fail = (body: unknown) => client.failPost("/api/store/retention-preview", body);
    expect(await fail({ session: "s" })).toBe("400 INVALID_ARGUMENT");
    expect(await fail({ session: "s", agent: "a", options: {} })).toBe("400 INVALID_ARGUMENT");
    expect(await fail({ session: "s", options: { keepLast: -1 } })).toBe("400 INVALID_ARGUMENT");
    expect(await fail({ session: "s", options: { keepLast: 1, dryRun: false } })).toBe("400 INVALID_ARGUMENT");
  });

  it("lists damage that reads have found, and the problems that a verification finds", async () => {
    const folder = newFolder();
    const url = SQLITE.url(folder);
    const writer = await open(url);
    await writer.run(defineShop(), { session: "order-88", input: "Refund" });
    await writer.close();
    for (const target of await targetsIn(url)) {
      if (target.kind === "item") await SQLITE.damage(folder, target, "flip");
    }
    const sp = await open(url);
    const client = new Client(sp);
    await client.send("/api/sessions");
    await client.send("/api/sessions/order-88/checkpoint");
    await client.send("/api/sessions/order-88/journal");
    await client.post("/api/store/verify", { deep: true });
    await expect.poll(async () => (await client.get("/api/store/damage")).verification.state).toBe("done");
    const { verification, events } = await client.get("/api/store/damage");
    expect(verification).toMatchObject({ ok: false, deep: true });
    expect(verification.problems.length).toBeGreaterThan(0);
    expect(events.length).toBeLessThanOrEqual(100);
    // Views of a damaged store are errors or holes, and never a failure of the inspector.
    for (const path of [
      "",
      "/history",
      "/graph",
      "/journal",
      "/timeline",
      "/messages",
      "/checkpoint",
      "/effects-after?at=0",
    ]) {
      const { status } = await client.send(`/api/sessions/order-88${path}`);
      expect([200, 404, 422], path).toContain(status);
    }
    for (const path of ["/api/queue", "/api/workers", "/api/questions", "/api/store", "/api/search?text=cup"]) {
      expect([200, 422], path).toContain((await client.send(path)).status);
    }
  });
});

it("a read-only inspector rejects every write, including those to runs and agents", async () => {
  const sp = await open();
  await sp.run(defineShop(), { session: "s", input: "Hi" });
  const client = new Client(sp);
  for (const verb of ["answer", "cancel", "resume", "tool-calls", "fork", "rewind", "label", "pin"]) {
    expect(await client.failPost(`/api/sessions/s/${verb}`, { value: true }), verb).toBe("403 READ_ONLY");
  }
  expect(await client.failPost("/api/restore", { id: "s#0" })).toBe("403 READ_ONLY");
  expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
});
