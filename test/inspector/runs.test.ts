/** What the inspector shows of runs, and how a person settles what they wait for. */
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import { defineShop, hangingTool } from "./agents.js";
import { Client, newFolder, open, useCleanup } from "./lab.js";

useCleanup();

/** A session that waits for the answer of a person. */
async function asking(sp: Savepoint, session = "order-88"): Promise<void> {
  await sp.run(defineShop(), { session, input: "Refund my cup." });
}

/** A session whose refund was interrupted, so that its outcome is unknown; the lease of its process has expired. */
async function interrupted(): Promise<{ sp: Savepoint; url: string; now: () => number }> {
  let time = Date.parse("2026-11-19T12:00:00Z");
  const now = (): number => time;
  const url = `sqlite:${newFolder()}/store.db`;
  const first = await open(url, { now });
  await asking(first);
  await first.answer("order-88", true);
  const refund = hangingTool();
  const handle = await first.start(defineShop({ refund: refund.call }), { session: "order-88" });
  handle.result().catch(() => {});
  await refund.isCalled;
  time += 120_000;
  const sp = await open(url, { now });
  const result = await sp.run(defineShop(), { session: "order-88" });
  expect(result.status).toBe("waiting");
  return { sp, url, now };
}

describe("the messages of a checkpoint", () => {
  it("have the results of tools with their calls, and page from the newest to the oldest", async () => {
    const sp = await open();
    await asking(sp);
    const client = new Client(sp);
    const page = await client.get("/api/sessions/order-88/messages");
    expect(page).toMatchObject({ pointer: "/messages", total: 4 });
    expect(page.messages).toMatchObject([
      { index: 0, role: "user", text: "Refund my cup.", pointer: "/messages/0", toolCalls: [] },
      {
        index: 1,
        role: "assistant",
        text: "Let me look.",
        toolCalls: [
          { id: "call_stock", name: "stock", arguments: { sku: "cup" }, status: "completed", result: { text: "7" } },
          { id: "call_price", result: { text: "4200", pointer: "/messages/3" } },
        ],
      },
    ]);
    const { messages } = (await client.get("/api/sessions/order-88/checkpoint")).messages;
    expect(messages).toEqual(page.messages);
    const last = await client.get("/api/sessions/order-88/messages?limit=1");
    expect(last).toMatchObject({ messages: [], before: 3 });
    const first = await client.get("/api/sessions/order-88/messages?limit=3&before=3");
    expect(first.messages).toHaveLength(2);
    expect(first).not.toHaveProperty("before");
  });

  it("of any length and content are cut and never interpreted", async () => {
    const sp = await open();
    const hostile = "<img src=x onerror=alert(1)>\u0000\u202e";
    await sp.session("s").save({
      messages: [message.user("x".repeat(50_000)), message.toolResult("lost", hostile), message.assistant(hostile)],
    });
    const client = new Client(sp);
    const { messages } = await client.get("/api/sessions/s/messages?maxText=100");
    expect(messages[0]).toMatchObject({ textLength: 50_000 });
    expect(messages[0].text).toHaveLength(101);
    expect(messages[1]).toMatchObject({ resultOf: "lost", text: hostile });
    expect(messages[2]).toMatchObject({ text: hostile });
    await sp.session("none").save({ n: 1 });
    expect(await client.get("/api/sessions/none/messages")).toEqual({ pointer: "", total: 0, messages: [] });
    expect(await client.get("/api/sessions/none/checkpoint")).not.toHaveProperty("messages");
  });
});

describe("the journal", () => {
  it("lists effects with bounded values, newest first, in pages of complete steps", async () => {
    const sp = await open();
    await asking(sp);
    await sp.answer("order-88", true);
    await sp.run(defineShop({ refund: () => "x".repeat(10_000) }), { session: "order-88" });
    const client = new Client(sp);
    const all = await client.get("/api/sessions/order-88/journal");
    expect(all.entries.map((entry: { name: string; step: number }) => [entry.step, entry.name])).toEqual([
      [3, "refund"],
      [2, "Refund 42 €?"],
      [1, "price"],
      [1, "stock"],
      [1, "llm"],
    ]);
    expect(all).not.toHaveProperty("next");
    const [refund] = all.entries;
    expect(refund).toMatchObject({
      kind: "tool",
      callId: "call_refund",
      outcome: "recorded",
      arguments: { cents: 4200 },
    });
    expect(JSON.stringify(refund).length).toBeLessThan(2000);
    expect((await client.get(`/api/sessions/order-88/effect?key=${refund.key}`)).value).toHaveLength(10_000);
    const paged: unknown[] = [];
    let cursor = "";
    for (let pages = 0; pages < 3; pages++) {
      const page = await client.get(`/api/sessions/order-88/journal?limit=1&cursor=${cursor}`);
      paged.push(...page.entries);
      cursor = page.next ?? "";
      expect(cursor === "").toBe(pages === 2);
    }
    expect(paged).toEqual(all.entries);
    for (const bad of ["journal?cursor=x", "effect?key=x", "effect?key=1.2.3.4.x", "journal?branch=a%00b"]) {
      expect(await client.fail(`/api/sessions/order-88/${bad}`), bad).toBe(
        bad.includes("%00") ? "400 INVALID_ID" : "400 INVALID_ARGUMENT",
      );
    }
    expect(await client.fail("/api/sessions/none/journal")).toBe("404 SESSION_NOT_FOUND");
    expect(await client.fail(`/api/sessions/order-88/effect?key=${refund.key.replace(/\d+$/, "1")}`)).toBe(
      "404 NOT_FOUND",
    );
  });

  it("has the effects of the current step, with the question about an unknown outcome and its idempotency key", async () => {
    const { sp } = await interrupted();
    const client = new Client(sp);
    const { entries } = await client.get("/api/sessions/order-88/journal?limit=1");
    const { questions } = await client.get("/api/sessions/order-88");
    expect(entries).toMatchObject([
      {
        name: "refund",
        outcome: "unknown",
        question: questions[0].id,
        idempotencyKey: expect.stringMatching(/^\w{32}$/),
      },
    ]);
    const [entry] = entries;
    expect(await client.get(`/api/sessions/order-88/effect?key=${entry.key}`)).toEqual(entry);
  });
});

describe("the timeline", () => {
  it("shows parallel tools in lanes, waits, takeovers by their kind, and repeated executions", async () => {
    let time = Date.parse("2026-11-19T12:00:00Z");
    const now = (): number => time;
    const url = `sqlite:${newFolder()}/store.db`;
    const later =
      <Result>(milliseconds: number, result: Result) =>
      () => {
        time += milliseconds;
        return result;
      };
    // The first process is killed while it looks the price up.
    const price = hangingTool();
    const first = await open(url, { now });
    const handle = await first.start(defineShop({ stock: () => 7, price: price.call }), { session: "s", input: "Hi" });
    handle.result().catch(() => {});
    await price.isCalled;
    await expect.poll(async () => (await first.journal("s").all()).map(({ outcome }) => outcome)).toContain("running");
    await expect.poll(async () => (await first.journal("s").all()).map(({ name }) => name)).toContain("stock");
    time += 120_000;
    const second = await open(url, { now });
    expect((await second.run(defineShop({ price: later(50, 4200) }), { session: "s" })).status).toBe("waiting");
    time += 60_000;
    await second.answer("s", true);
    await second.run(defineShop({ refund: later(30, "paid") }), { session: "s" });
    const { steps } = await new Client(second).get("/api/sessions/s/timeline");
    expect(steps.map(({ step }: { step: number }) => step)).toEqual([3, 2, 1]);
    const [refund, ask, lookup] = steps;
    expect(refund.spans).toMatchObject([{ kind: "tool", name: "refund", outcome: "recorded", lane: 0, replays: 0 }]);
    expect(refund.endedAt - refund.startedAt).toBeGreaterThanOrEqual(0);
    expect(ask.spans).toMatchObject([{ kind: "ask", name: "Refund 42 €?", outcome: "recorded" }]);
    expect(ask.spans[0].endedAt - ask.spans[0].startedAt).toBe(60_000);
    expect(lookup.usage).toEqual({ tokens: 120, cost: 0.01 });
    expect(lookup.spans.map(({ name }: { name: string }) => name)).toEqual(["llm", "stock", "price"]);
    // The lookups ran at the same time.
    expect(lookup.spans.map(({ lane }: { lane: number }) => lane)).toEqual([0, 1, 2]);
    expect(lookup.spans.map(({ replays }: { replays: number }) => replays)).toEqual([1, 1, 0]);
    const [takeover] = lookup.takeovers;
    expect(lookup.takeovers).toHaveLength(1);
    expect(takeover.kind).toBe("interrupted");
    expect(takeover.at - takeover.lastAt).toBeGreaterThanOrEqual(119_000);
    expect([...ask.takeovers, ...refund.takeovers].map(({ kind }: { kind: string }) => kind)).toEqual(["resumed"]);
    const [, , span] = lookup.spans;
    // It was started before the takeover, and executed again after it.
    expect(span.startedAt).toBeLessThan(takeover.at);
    expect(span.endedAt).toBeGreaterThanOrEqual(takeover.at);
    const pages = [];
    for (let cursor = ""; ;) {
      const page = await new Client(second).get(`/api/sessions/s/timeline?limit=1&cursor=${cursor}`);
      pages.push(...page.steps);
      if (!page.next) break;
      cursor = page.next;
    }
    expect(pages).toEqual(steps);
  });

  it("of a session that was never run, or is running, is empty or open", async () => {
    const sp = await open();
    await sp.session("saved").save({ n: 1 });
    const client = new Client(sp);
    expect(await client.get("/api/sessions/saved/timeline")).toMatchObject({ steps: [] });
    const tool = hangingTool();
    const handle = await sp.start(defineShop({ price: tool.call }), { session: "s", input: "Hi" });
    handle.result().catch(() => {});
    await tool.isCalled;
    const { steps } = await client.get("/api/sessions/s/timeline");
    expect(steps).toHaveLength(1);
    expect(steps[0]).not.toHaveProperty("endedAt");
    const lanes = steps[0].spans.map(({ name, lane }: { name: string; lane: number }) => [name, lane]);
    expect(lanes.at(-1)[0]).toBe("price");
  });
});

describe("a person", () => {
  it("answers a question of an agent with any value", async () => {
    const sp = await open();
    await asking(sp);
    const client = new Client(sp, { write: true });
    const { questions } = await client.get("/api/sessions/order-88");
    expect(questions).toMatchObject([{ kind: "ask", text: "Refund 42 €?", data: { cents: 4200 } }]);
    expect(await client.get("/api/questions")).toMatchObject({
      total: 1,
      entries: [{ session: "order-88", branch: "main", agent: "shop", questions }],
    });
    for (const bad of [
      {},
      { value: 1, happened: true },
      { happened: true },
      { value: 1, result: 2 },
      { value: 1, more: 1 },
    ]) {
      expect(await client.failPost("/api/sessions/order-88/answer", bad), JSON.stringify(bad)).toBe(
        "400 INVALID_ARGUMENT",
      );
    }
    expect(await client.post("/api/sessions/order-88/answer", { question: questions[0].id, value: true })).toEqual({
      done: true,
    });
    expect((await client.get("/api/questions")).total).toBe(0);
    expect(await client.failPost("/api/sessions/order-88/answer", { value: true })).toBe("409 NOT_WAITING");
    expect(await client.failPost("/api/sessions/none/answer", { value: true })).toBe("404 SESSION_NOT_FOUND");
    expect((await sp.run(defineShop(), { session: "order-88" })).status).toBe("completed");
  });

  it("settles an unknown outcome: it happened, it did not, or it fails", async () => {
    const expected = {
      happened: { status: "completed", output: "from the bank" },
      "did not": { status: "completed", output: "paid" },
      failed: { status: "failed", reason: expect.stringContaining("the bank has no such payment") },
    };
    const answers: Record<keyof typeof expected, object> = {
      happened: { happened: true, result: "from the bank" },
      "did not": { happened: false },
      failed: { failed: "the bank has no such payment" },
    };
    for (const key of Object.keys(expected) as (keyof typeof expected)[]) {
      const { sp } = await interrupted();
      const client = new Client(sp, { write: true });
      expect(await client.failPost("/api/sessions/order-88/answer", { value: true }), key).toBe("400 INVALID_ARGUMENT");
      expect(await client.post("/api/sessions/order-88/answer", answers[key])).toEqual({ done: true });
      let calls = 0;
      const refund = (): string => {
        calls++;
        return "paid";
      };
      expect(await sp.run(defineShop({ refund }), { session: "order-88" }), key).toMatchObject(expected[key]);
      expect(calls, key).toBe(key === "did not" ? 1 : 0);
    }
  });

  it("cancels a run, schedules it again, and sees it in the queue", async () => {
    const sp = await open();
    await asking(sp);
    const client = new Client(sp, { write: true });
    expect((await client.get("/api/queue")).entries).toMatchObject([{ sessionId: "order-88", state: "waiting" }]);
    expect(await client.post("/api/sessions/order-88/resume", {})).toEqual({ done: false });
    expect(await client.post("/api/sessions/order-88/cancel", { reason: "a mistake" })).toEqual({ done: true });
    expect(await client.get("/api/sessions/order-88")).toMatchObject({
      status: "halted",
      reason: "cancelled: a mistake",
    });
    expect(await client.post("/api/sessions/order-88/cancel", {})).toEqual({ done: false });
    expect(await client.post("/api/sessions/order-88/resume", {})).toEqual({ done: true });
    expect(await client.get("/api/queue?state=queued")).toMatchObject({
      matches: 1,
      states: { queued: 1 },
      entries: [{ sessionId: "order-88", agent: "shop", position: 1 }],
    });
    expect((await client.get("/api/queue?agent=other")).matches).toBe(0);
    expect((await client.get("/api/sessions/order-88")).queue).toHaveLength(1);
    expect(await client.failPost("/api/sessions/none/resume", {})).toBe("404 SESSION_NOT_FOUND");
    expect(await client.failPost("/api/sessions/none/cancel", {})).toBe("404 SESSION_NOT_FOUND");
    const worker = sp.worker([defineShop()], { poll: 10, signals: false });
    await worker.start();
    const isAsking = async (): Promise<boolean> => (await sp.sessions.load("order-88"))?.questions.length === 1;
    await expect.poll(isAsking).toBe(true);
    expect((await client.get("/api/workers")).workers).toMatchObject([{ pid: process.pid, alive: true, runs: [] }]);
    await worker.stop();
  });

  it("resolves tool calls of a session without a run", async () => {
    const sp = await open();
    const call = { id: "c1", name: "refund", arguments: {} };
    await sp.session("s").save({ messages: [message.assistant("", [call])] });
    const client = new Client(sp, { write: true });
    expect((await client.get("/api/sessions/s/checkpoint")).pendingToolCalls).toEqual([call]);
    expect(await client.failPost("/api/sessions/s/tool-calls", { resolution: "forget" })).toBe("400 INVALID_ARGUMENT");
    expect(await client.failPost("/api/sessions/s/tool-calls", { resolution: { other: 1 } })).toBe(
      "400 INVALID_ARGUMENT",
    );
    expect(await client.post("/api/sessions/s/tool-calls", { resolution: { c1: "paid" } })).toEqual({ done: true });
    expect(await client.post("/api/sessions/s/tool-calls", { resolution: "drop" })).toEqual({ done: false });
    const { messages } = await client.get("/api/sessions/s/messages");
    expect(messages[0].toolCalls[0]).toMatchObject({ id: "c1", result: { text: "paid" } });
    await asking(sp);
    expect(await client.failPost("/api/sessions/order-88/tool-calls", { resolution: "drop" })).toBe("409 CONFLICT");
  });

  it("replaces the result of a tool on a fork, after a preview", async () => {
    const sp = await open();
    await asking(sp);
    const client = new Client(sp, { write: true });
    const edit = { checkpoint: "order-88#1", results: { call_stock: 0 } };
    const { checkpoints } = await client.get("/api/sessions/order-88/history");
    expect(checkpoints.map(({ seq }: { seq: number }) => seq)).toContain(1);
    expect((await client.post("/api/sessions/order-88/preview", edit)).changes).toEqual([
      { op: "replace", path: "/results/call_stock", before: 7, value: 0 },
    ]);
    const unknown = { checkpoint: 1, results: { none: 0 } };
    expect(await client.failPost("/api/sessions/order-88/preview", unknown)).toBe("400 INVALID_ARGUMENT");
    expect(await client.failPost("/api/sessions/order-88/fork", unknown)).toBe("400 INVALID_ARGUMENT");
    const { branch } = await client.post("/api/sessions/order-88/fork", { ...edit, branch: "sold-out" });
    expect(branch).toBe("sold-out");
    await client.post("/api/sessions/order-88/resume", { branch });
    const calls: string[] = [];
    const stock = (): void => void calls.push("stock");
    await sp.run(defineShop({ stock }), { session: "order-88", branch });
    expect(calls).toEqual([]);
    const page = await client.get("/api/sessions/order-88/messages?branch=sold-out");
    expect(page.messages[1].toolCalls[0]).toMatchObject({ id: "call_stock", result: { text: "0" } });
  });

  it("sees the tool calls after a checkpoint before a rewind", async () => {
    const sp = await open();
    await asking(sp);
    const client = new Client(sp, { write: true });
    const { effects } = await client.get("/api/sessions/order-88/effects-after?at=0");
    expect(effects.map(({ name }: { name: string }) => name)).toEqual(["stock", "price"]);
    const { effectsAfter } = await client.post("/api/sessions/order-88/rewind", { checkpoint: 0 });
    expect(effectsAfter).toEqual(effects);
  });
});
