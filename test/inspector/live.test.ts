/** Live events: to all clients, without polling for nobody, and without gaps after a reconnection. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { message } from "../../src/index.js";
import { LiveHub } from "../../src/inspector/live/hub.js";
import { Poller } from "../../src/inspector/live/poller.js";
import { defineShop, EventReader, hangingTool } from "./agents.js";
import { Client, newFolder, open, serve, TOKEN, useCleanup } from "./lab.js";

useCleanup();

async function subscribe(client: Client, topics: string, lastId?: string): Promise<EventReader> {
  const headers: Record<string, string> = lastId === undefined ? {} : { "last-event-id": lastId };
  const response = await client.send(`/api/events?topics=${encodeURIComponent(topics)}`, { headers });
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
  return new EventReader(response);
}

describe("a client", () => {
  it("sees sessions that another process creates, changes and deletes", async () => {
    const url = `sqlite:${newFolder()}/store.db`;
    const [sp, other] = [await open(url), await open(url)];
    const client = new Client(sp);
    const events = await subscribe(client, "sessions");
    expect(await events.next("hello")).toMatchObject({ instance: expect.any(String) });
    await other.session("new", { agent: "shop" }).save({ messages: [message.user("<b>Hi</b>")] });
    const { rows } = await events.next("sessions", (data) => data.rows.length > 0);
    expect(rows).toMatchObject([{ id: "new", agent: "shop", status: "open" }]);
    await other.run(defineShop(), { session: "order-88", input: "Refund" });
    const asking = await events.next("sessions", (data) => data.asking === 1);
    expect(asking.rows.at(-1)).toMatchObject({ id: "order-88", status: "waiting", question: "Refund 42 €?" });
    await other.sessions.delete("new");
    expect(await events.next("sessions", (data) => data.removed.length > 0)).toMatchObject({
      removed: ["new"],
      total: 1,
    });
  });

  it("sees the checkpoints, questions and effects of a session while another process runs it", async () => {
    const url = `sqlite:${newFolder()}/store.db`;
    const [sp, other] = [await open(url), await open(url)];
    const tool = hangingTool();
    const handle = await other.start(defineShop({ price: tool.call }), { session: "order/88", input: "Hi" });
    handle.result().catch(() => {});
    const client = new Client(sp);
    const events = await subscribe(client, "session:order%2F88");
    await events.next("session", ({ session }) => session.status === "running");
    await tool.isCalled;
    await events.next("session", ({ journals }) => journals.includes("main"));
    await other.run(defineShop(), { session: "saved", input: "x" });
    await sp.session("order/88").fork({ seq: 0 }, { branch: "what-if" });
    const { branches } = await events.next("session", (data) => data.branches.length === 2);
    expect(branches).toMatchObject([{ name: "main" }, { name: "what-if", forkedFrom: 0 }]);
    await sp.session("order/88", { branch: "what-if" }).save({ messages: [] });
    const { checkpoints, newest } = await events.next("session", (data) => data.checkpoints.length > 0);
    expect(checkpoints.at(0)).toMatchObject({ branch: "what-if", seq: newest });
    await sp.sessions.delete("order/88");
    await events.next("session", ({ session }) => session === undefined);
  });

  it("sees what another client changes through the inspector: also older checkpoints", async () => {
    const sp = await open();
    for (const n of [1, 2]) await sp.session("s").save({ n });
    const client = new Client(sp, { write: true });
    const events = await subscribe(client, "session:s");
    await events.next("session");
    await client.post("/api/sessions/s/pin", { checkpoint: 0, pinned: true });
    expect(await events.next("session", ({ changed }) => changed.length > 0)).toMatchObject({ changed: [0] });
  });

  it("sees the queue, the workers, and damage", async () => {
    const sp = await open();
    const client = new Client(sp, { write: true });
    const events = await subscribe(client, "queue,store");
    expect(await events.next("queue")).toEqual({ states: {}, workers: 0 });
    await sp.enqueue(defineShop(), { session: "s", input: "Hi" });
    await events.next("queue", ({ states }) => states.queued === 1);
    const { damage } = await events.next("store");
    expect(damage).toEqual({ events: [] });
    await client.post("/api/store/verify", { deep: true });
    const done = await events.next("store", (data) => data.damage.verification?.state === "done");
    expect(done.damage.verification).toMatchObject({ ok: true, deep: true, problems: [] });
  });

  it("that reconnects gets the events that it has missed, or `reset` if they are gone", async () => {
    const sp = await open();
    await sp.session("s").save({ n: 1 });
    const client = new Client(sp);
    const first = await subscribe(client, "session:s");
    await first.next("session");
    const { lastId } = first;
    await first.cancel();
    await sp.session("s").save({ n: 2 });
    const other = await subscribe(client, "session:s");
    await other.next("session", ({ newest }) => newest === 1);
    const again = await subscribe(client, "session:s", lastId);
    expect(await again.next("session", ({ checkpoints }) => checkpoints.length === 1)).toMatchObject({ newest: 1 });
    expect(again.events.map(({ event }) => event)).not.toContain("reset");
    for (const lost of ["another-instance-3", `${lastId}9`, "x"]) {
      const late = await subscribe(client, "session:s", lost);
      await late.next("reset");
    }
    // Nobody has followed the list since.
    const unfollowed = await subscribe(client, "sessions", (again.events[0] as { id: string }).id);
    await unfollowed.next("reset");
    await sp.session("t").save({ n: 1 });
    await unfollowed.next("sessions", ({ rows }) => rows.some(({ id }: { id: string }) => id === "t"));
  });

  it("is disconnected when the inspector is closed, and cannot connect again", async () => {
    const sp = await open();
    const client = new Client(sp);
    const events = await subscribe(client, "sessions,queue,store");
    await events.next("hello");
    await client.inspector.close();
    await expect.poll(() => events.isEnded).toBe(true);
    expect(await client.fail("/api/events?topics=sessions")).toBe("503 CLOSED");
  });

  it("needs the token, and topics that exist", async () => {
    const client = new Client(await open());
    expect(await client.fail("/api/events?topics=sessions", { headers: { authorization: "none" } })).toBe(
      "401 UNAUTHORIZED",
    );
    const many = Array.from({ length: 21 }, (_, n) => `session:${n}`).join(",");
    for (const bad of ["", "?topics=", "?topics=all", "?topics=session:", "?topics=session:%25zz", `?topics=${many}`]) {
      expect(await client.fail(`/api/events${bad}`), bad).toBe("400 INVALID_ARGUMENT");
    }
  });

  it("over HTTP gets events at once, and its poll ends when it disconnects", async () => {
    const sp = await open();
    const { inspector } = new Client(sp);
    const port = await serve(inspector);
    const control = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}/api/events?topics=sessions`, {
      headers: { authorization: `Bearer ${TOKEN}` },
      signal: control.signal,
    });
    const events = new EventReader(response);
    await events.next("hello");
    await sp.session("s").save({ n: 1 });
    await events.next("sessions", ({ rows }) => rows.length === 1);
    control.abort();
  });
});

describe("polling", () => {
  afterEach(() => void vi.useRealTimers());

  it("ends a while after a subscription was rejected, because one of its topics does not exist", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
    let isClosed = false;
    const hub = new LiveHub("test", (name) => {
      if (name === "bogus") throw new Error("There is no such topic.");
      return {
        name,
        event: "queue",
        pace: { fast: 300, slow: 2000 },
        poll: () => Promise.resolve(false),
        current: () => undefined,
        close: () => (isClosed = true),
      };
    });
    expect(() => hub.connect(["queue", "bogus"], undefined, new AbortController().signal)).toThrow("no such topic");
    expect(hub.find("queue")).toBeDefined();
    await vi.advanceTimersByTimeAsync(31_000);
    expect(hub.find("queue")).toBeUndefined();
    expect(isClosed).toBe(true);
    await hub.close();
  });

  it("becomes slower without changes, and polls at once when a change is reported", async () => {
    let polls = 0;
    let hasChanged = false;
    const poller = new Poller(
      { fast: 5, slow: 60_000 },
      () => {
        polls++;
        return Promise.resolve(hasChanged);
      },
      () => {},
    );
    await expect.poll(() => poller.pause).toBeGreaterThan(20);
    const before = polls;
    hasChanged = true;
    poller.poke();
    expect(polls).toBe(before + 1);
    await expect.poll(() => polls).toBeGreaterThan(before + 3);
    expect(poller.pause).toBe(5);
    await poller.stop();
    const last = polls;
    poller.poke();
    expect(polls).toBe(last);
  });

  it("that fails reports it, and continues", async () => {
    let polls = 0;
    const errors: unknown[] = [];
    const poller = new Poller(
      { fast: 1, slow: 2 },
      () => Promise.reject(new Error(`poll ${++polls}`)),
      (error) => errors.push(error),
    );
    await expect.poll(() => polls).toBeGreaterThan(2);
    await poller.stop();
    expect(errors.length).toBeGreaterThan(1);
  });
});
