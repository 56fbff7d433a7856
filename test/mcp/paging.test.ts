/** Lists that are longer than a page, also while entries are added and deleted. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { GENERATIONS, type TestClient } from "./clients.js";
import { useLab } from "./lab.js";

type Entry = { readonly id: string; readonly index: number };

/** Reads all pages of a list. @param between runs after each page */
async function readAll(
  client: TestClient,
  tool: string,
  key: string,
  args: Record<string, unknown>,
  between: (page: number) => Promise<void> = async () => {},
): Promise<Entry[]> {
  const all: Entry[] = [];
  let cursor: string | undefined;
  for (let page = 0; ; page++) {
    const result = await client.call(tool, { ...args, ...(cursor !== undefined && { cursor }) });
    const entries = result[key] as Entry[];
    expect(entries.length).toBeLessThanOrEqual(Number(args["limit"] ?? 20));
    if (tool === "conversation_load") all.unshift(...entries);
    else all.push(...entries);
    cursor = result["nextCursor"] as string | undefined;
    if (cursor === undefined) return all;
    await between(page);
  }
}

const names = Array.from({ length: 210 }, (_, n) => `n${String(n).padStart(3, "0")}`);
const ids = (entries: readonly Entry[]): string[] => entries.map(({ id }) => id);

describe("long lists, for clients of both generations", () => {
  const lab = useLab();

  it("conversations, agents and checkpoints can be read to the end with any page size", async () => {
    const sp = await lab.open();
    const session = sp.session("s");
    for (const id of names) {
      await Promise.all([sp.conversations.create({ id }), sp.agents.save({ id, name: id }), session.save({ id })]);
    }
    const newest = names.slice().reverse();
    const history = await session.history().all();
    for (const client of await lab.connectEach({})) {
      for (const limit of [23, 200]) {
        expect(ids(await readAll(client, "conversation_list", "conversations", { limit }))).toEqual(newest);
        expect(ids(await readAll(client, "agent_list", "agents", { limit }))).toEqual(names);
      }
      const checkpoints = await readAll(client, "checkpoint_list", "checkpoints", { session: "s" });
      expect(ids(checkpoints)).toEqual(history.map(({ id }) => id));
      expect((await client.call<{ agents: unknown[] }>("agent_list")).agents).toHaveLength(20);
    }
  });

  it("a page contains fewer entries if they are large", async () => {
    const sp = await lab.open();
    const metadata = { text: "x".repeat(100_000) };
    for (const id of names.slice(0, 40)) await sp.conversations.create({ id, metadata });
    for (const client of await lab.connectEach({})) {
      const first = await client.raw("conversation_list", { limit: 200 });
      expect(first.content[0]?.text.length).toBeLessThan(120_000);
      const found = await readAll(client, "conversation_list", "conversations", { limit: 200 });
      expect(ids(found)).toEqual(names.slice(0, 40).reverse());
    }
  });

  it("a resource that is a list ends early if its entries are large", async () => {
    const sp = await lab.open();
    const metadata = { text: "x".repeat(100_000) };
    for (const id of names.slice(0, 40)) {
      await Promise.all([
        sp.conversations.create({ id, metadata }),
        sp.session(id).save({}, { metadata }),
        sp.agents.save({ id, name: id, metadata }),
      ]);
    }
    for (const client of await lab.connectEach({})) {
      for (const kind of ["conversations", "sessions", "agents"]) {
        const read = await client.read<Record<string, Entry[]>>(`savepoint://${kind}`);
        expect(JSON.stringify(read).length, kind).toBeLessThan(120_000);
        expect(read[kind]?.length, kind).toBeGreaterThan(10);
        expect(read[kind]?.length, kind).toBeLessThan(40);
      }
    }
  });
});

describe.each(GENERATIONS)("long lists, for $name", (generation) => {
  const lab = useLab(generation);

  it("messages are read from the end to the beginning, each page in order", async () => {
    const sp = await lab.open();
    await sp.conversations.create({ id: "c", messages: names.map((name) => message.user(name)) });
    const client = await lab.connect({});
    // Messages that are appended in the meantime are newer than every following page.
    const all = await readAll(client, "conversation_load", "messages", { id: "c", limit: 50 }, async (page) => {
      await sp.conversations.append("c", [message.user(`meanwhile ${page}`)]);
    });
    expect(all.map(({ index }) => index)).toEqual(names.map((_, index) => index));
    expect(all.map((entry) => (entry as unknown as { message: { content: string } }).message.content)).toEqual(names);
  });

  it("changes can be read to the end, also if another checkpoint is saved in the meantime", async () => {
    const client = await lab.connect();
    await client.call("session_save", { session: "s", state: {} });
    await client.call("session_save", { session: "s", state: Object.fromEntries(names.map((name) => [name, 1])) });
    const args = { session: "s", from: { seq: 0 }, limit: 100 };
    const changes = await readAll(client, "checkpoint_diff", "changes", args, async () => {
      await client.call("session_save", { session: "s", state: {} });
    });
    expect(changes).toHaveLength(names.length);
  });

  it("no entry is lost or repeated while others are added", async () => {
    const sp = await lab.open();
    for (const id of names.slice(0, 60)) await sp.conversations.create({ id });
    const client = await lab.connect({});
    const found = await readAll(client, "conversation_list", "conversations", { limit: 10 }, async (page) => {
      await sp.conversations.create({ id: `later ${page}` });
    });
    expect(ids(found)).toEqual(names.slice(0, 60).reverse());
  });

  it("a list continues at its position if the last entry of the previous page was deleted", async () => {
    let now = 1000;
    const sp = await lab.open(() => now++);
    for (const id of names.slice(0, 60)) await sp.conversations.create({ id });
    for (const id of names.slice(0, 60)) await sp.agents.save({ id, name: id });
    const client = await lab.connect({});
    const left = names.slice(0, 60).reverse();
    const conversations = await readAll(client, "conversation_list", "conversations", { limit: 10 }, async (page) => {
      await sp.conversations.delete(left[page * 10 + 9] as string);
    });
    expect(ids(conversations)).toEqual(left);
    const agents = await readAll(client, "agent_list", "agents", { limit: 10 }, async (page) => {
      await sp.agents.delete(names[page * 10 + 9] as string);
    });
    expect(ids(agents)).toEqual(names.slice(0, 60));
  });

  it("a cursor of another list or of other filters, and a modified cursor, are rejected", async () => {
    const sp = await lab.open();
    for (const id of names.slice(0, 5)) {
      await sp.conversations.create({ id, agent: "a", messages: [message.user("1"), message.user("2")] });
    }
    const client = await lab.connect({});
    const { nextCursor } = await client.call<{ nextCursor: string }>("conversation_list", { agent: "a", limit: 2 });
    const page = await client.call<{ nextCursor: string }>("conversation_load", { id: "n001", limit: 1 });
    const wrong = [
      ["agent_list", { cursor: nextCursor }],
      ["conversation_list", { cursor: nextCursor }],
      ["conversation_list", { cursor: nextCursor, agent: "b" }],
      ["conversation_list", { cursor: nextCursor.slice(0, -4), agent: "a" }],
      ["conversation_list", { cursor: "", agent: "a" }],
      ["conversation_list", { cursor: "💥", agent: "a" }],
      ["conversation_load", { cursor: page.nextCursor, id: "n002" }],
      ["conversation_load", { cursor: nextCursor, id: "n001" }],
    ] as const;
    for (const [tool, args] of wrong) {
      const { code, text } = await client.fail(tool, args);
      expect(code, JSON.stringify(args)).toBe("INVALID_ARGUMENT");
      expect(text).toContain("`cursor`");
    }
    expect(
      (await client.call<{ conversations: unknown[] }>("conversation_list", { agent: "a", cursor: nextCursor }))
        .conversations,
    ).toHaveLength(3);
  });

  it("a page contains fewer changes if they are large, and none is omitted", async () => {
    const client = await lab.connect();
    const state = (letter: string): object =>
      Object.fromEntries(names.slice(0, 60).map((name) => [name, letter.repeat(5000)]));
    await client.call("session_save", { session: "s", state: state("x") });
    await client.call("session_save", { session: "s", state: state("y") });
    const args = { session: "s", from: { seq: 0 }, limit: 200 };
    expect((await client.raw("checkpoint_diff", args)).content[0]?.text.length).toBeLessThan(120_000);
    expect(await readAll(client, "checkpoint_diff", "changes", args)).toHaveLength(60);
    const restore = await client.raw("checkpoint_restore", { id: "s#0", dryRun: true });
    expect(restore.content[0]?.text.length).toBeLessThan(120_000);
    expect(restore.structuredContent).toMatchObject({ changeCount: 60 });
  });

  it("a search reports whether there are more hits", async () => {
    const sp = await lab.open();
    for (const id of names.slice(0, 30)) await sp.conversations.create({ id, messages: [message.user("storm")] });
    const client = await lab.connect({});
    expect(await client.call("conversation_search", { text: "storm", limit: 10 })).toMatchObject({ more: true });
    const all = await client.call<{ hits: unknown[]; more: boolean }>("conversation_search", {
      text: "storm",
      limit: 30,
    });
    expect(all.hits).toHaveLength(30);
    expect(all.more).toBe(false);
  });
});
