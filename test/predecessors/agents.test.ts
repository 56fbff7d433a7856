/** The behaviour of the systems that Savepoint replaces, line by line: agents, conversations, messages, session fields. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type Attachment,
  type AttachmentType,
  type CheckpointStatus,
  type Message,
  message,
  pendingToolCalls,
  Savepoint,
  type ToolCall,
} from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe.each(STORES)("000 on $name", (kind) => {
  const data = useData(kind);

  it("000-S1 a checkpoint has id, agent, session, step from 0, messages, tool calls, partial results, time and status", async () => {
    const sp = await data.open({ now: () => 1_700_000_000_000 });
    const state = {
      messages: [{ role: "user", content: "Hi" }],
      toolCalls: [{ toolName: "search", arguments: "{}", success: true }],
      partialResults: ["half", "of it"],
    };
    const session = sp.session<typeof state>("sess1", { agent: "ares" });
    const first = await session.save(state, { status: "running" });
    const second = await session.save({ ...state, partialResults: ["half", "of it", "all"] });
    expect([first.step, second.step]).toEqual([0, 1]);
    expect(first).toMatchObject({ agent: "ares", sessionId: "sess1", createdAt: 1_700_000_000_000, status: "running" });
    expect(first.id).toMatch(UUID);
    const again = (await data.open()).session<typeof state>("sess1");
    expect((await again.load({ step: 0 }))?.state).toStrictEqual(state);
    expect((await again.load({ step: 1 }))?.state.partialResults).toEqual(["half", "of it", "all"]);
  });

  it("000-S2 a message can have any string as its role", async () => {
    const messages = ["user", "assistant", "system", "critic", "", "観察者"].map((role) => ({
      role,
      content: `I, ${role}`,
    }));
    await (await data.open()).session("s").save({ messages });
    expect((await (await data.open()).session("s").latest())?.state).toStrictEqual({ messages });
  });

  it("000-S3 a record of a tool call keeps its name, arguments, result and success", async () => {
    const toolCalls = [
      { toolName: "search", arguments: '{"q": "x"}', result: "found\n\u0000", success: true },
      { toolName: "write", arguments: "not JSON {", success: false },
      { toolName: "write", arguments: "", result: "", success: false },
    ];
    await (await data.open()).session("s").save({ toolCalls });
    expect((await (await data.open()).session("s").latest())?.state).toStrictEqual({ toolCalls });
  });

  it.each<[CheckpointStatus, string | undefined]>([
    ["running", undefined],
    ["completed", undefined],
    ["failed", "OOM"],
    ["halted", "loop detected: 3 × «search»\n"],
  ])("000-S4 the status %s with the reason %s survives", async (status, reason) => {
    await (await data.open()).session("s").save({}, { status, ...(reason !== undefined && { reason }) });
    const sp = await data.open();
    expect(await sp.session("s").head()).toMatchObject({ status, reason });
    expect(await sp.session("s").latest()).toMatchObject({ status, reason });
    expect((await sp.session("s").history().all())[0]).toMatchObject({ status, reason });
  });
});

describe.each(STORES)("002 on $name", (kind) => {
  const data = useData(kind);

  it("002-S1 a checkpoint has id, session, label, time, state, context bytes and metadata", async () => {
    const context = Uint8Array.from({ length: 70_000 }, (_, n) => (n * 7919) >> 3);
    const state = { plan: ["a", "b"], context };
    const sp = await data.open({ now: () => 77 });
    const saved = await sp.session("s").save(state, { label: "first", metadata: { extra: { deep: [1, null] } } });
    expect(saved.id).toMatch(UUID);
    const loaded = await (await data.open()).session<typeof state>("s").load(saved.id);
    expect(loaded).toMatchObject({
      sessionId: "s",
      label: "first",
      createdAt: 77,
      metadata: { extra: { deep: [1, null] } },
    });
    expect(loaded?.state.context).toBeInstanceOf(Uint8Array);
    expect(Buffer.compare(loaded?.state.context as Uint8Array, context)).toBe(0);
    expect(loaded?.state.plan).toEqual(["a", "b"]);
  });

  it("002-S2 a checkpoint has tasks completed, tokens, state size, parent and custom metadata", async () => {
    const session = (await data.open()).session("s");
    const parent = await session.save({ n: 1 });
    const metadata = { host: "ci-7", nested: { list: [1, "two", { three: 3 }] } };
    const saved = await session.save({ n: 2 }, { tasksCompleted: 4, usage: { tokens: 1234 }, metadata });
    expect(parent.parentId).toBeUndefined();
    const head = await (await data.open()).session("s").head();
    expect(head).toStrictEqual(saved);
    expect(head).toMatchObject({ tasksCompleted: 4, usage: { tokens: 1234 }, parentId: parent.id, stateBytes: 7 });
    expect(head?.metadata).toStrictEqual(metadata);
  });

  it("002-S3 label, context and metadata belong to one checkpoint and do not change those of another", async () => {
    const session = (await data.open()).session("s");
    const context = new Uint8Array([0, 255, 1]);
    const a = await session.save({ context }, { label: "a", metadata: { one: 1, both: 1 } });
    const b = await session.save({ context }, { metadata: { two: 2, both: 2 } });
    const again = (await data.open()).session("s");
    expect(await again.load(a.id)).toMatchObject({ label: "a", metadata: { one: 1, both: 1 }, state: { context } });
    const second = await again.load(b.id);
    expect(second).toMatchObject({ label: undefined, state: { context } });
    expect(second?.metadata).toStrictEqual({ two: 2, both: 2 });
  });

  it.each([{}, [], null, "é", { a: 1, b: [true, "x\n"] }, { deep: { deeper: ["😀", 1e21, -0.5] } }])(
    "002-S4 the state size is the length of the compact JSON of %o, and tasks completed start at 0",
    async (state) => {
      const saved = await (await data.open()).session("s").save(state);
      expect(saved.stateBytes).toBe(Buffer.byteLength(JSON.stringify(state)));
      expect(saved.tasksCompleted).toBe(0);
      expect((await (await data.open()).session("s").head())?.stateBytes).toBe(saved.stateBytes);
    },
  );
});

describe.each(STORES)("003 on $name", (kind) => {
  const data = useData(kind);

  it("003-S1 an agent has all its fields, setting its state updates modifiedAt, and missing fields are undefined", async () => {
    let time = 100;
    const sp = await data.open({ now: () => time });
    const fields = {
      id: "agent-1",
      name: "Test",
      type: "gpt-4",
      systemPrompt: "Be kind.",
      capabilities: ["search", "code"],
      config: { temperature: 0.5, tools: { web: true } },
      state: { counter: 42 },
      metadata: { team: "red" },
    };
    await sp.agents.save(fields);
    const { id: conversation } = await sp.conversations.create({ agent: "agent-1" });
    const loaded = await (await data.open()).agents.load("agent-1");
    expect(loaded).toStrictEqual({
      ...fields,
      activeConversations: [conversation],
      createdAt: 100,
      modifiedAt: 100,
      version: 1,
      skipped: [],
    });
    time = 200;
    await sp.agents.update<{ counter: number }>("agent-1", ({ state }) => ({ state: { ...state, other: true } }));
    const after = await sp.agents.load("agent-1");
    expect(after).toMatchObject({ createdAt: 100, modifiedAt: 200, state: { counter: 42, other: true } });
    expect(after?.state["missing"]).toBeUndefined();
  });

  it("003-S2 a conversation has all its fields, and a new message updates lastMessageAt", async () => {
    let time = 100;
    const sp = await data.open({ now: () => time });
    const created = await sp.conversations.create({ agent: "a", tags: ["x"], metadata: { k: 1 } });
    expect(created).toStrictEqual({
      id: expect.stringMatching(UUID) as string,
      agent: "a",
      title: undefined,
      tags: ["x"],
      archived: false,
      metadata: { k: 1 },
      createdAt: 100,
      lastMessageAt: 100,
      messageCount: 0,
    });
    time = 200;
    await sp.conversations.append(created.id, [message.user("Hi"), message.assistant("Hello")]);
    const loaded = await (await data.open()).conversations.load(created.id);
    expect(loaded).toMatchObject({ createdAt: 100, lastMessageAt: 200, messageCount: 2, title: "Hi" });
    expect(loaded?.messages).toStrictEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello" },
    ]);
  });

  it("003-S3 a missing title is derived from the first user message and cut to 47 characters and three dots", async () => {
    const { conversations } = await data.open();
    const titleOf = async (messages: Message[], title?: string): Promise<string | undefined> =>
      (await conversations.create({ messages, ...(title !== undefined && { title }) })).title;
    const fifty = "x".repeat(50);
    expect(await titleOf([message.system("no"), message.user("first"), message.user("second")])).toBe("first");
    expect(await titleOf([message.user(fifty)])).toBe(fifty);
    expect(await titleOf([message.user(`${fifty}y`)])).toBe(`${"x".repeat(47)}...`);
    expect(await titleOf([message.system("a"), message.assistant("b"), message.toolResult("c", "d")])).toBeUndefined();
    expect(await titleOf([message.user("first")], "given")).toBe("given");
    const { id } = await conversations.create();
    await conversations.append(id, [message.assistant("Welcome")]);
    expect((await conversations.load(id))?.title).toBeUndefined();
    await conversations.append(id, [message.user("late")]);
    await conversations.append(id, [message.user("later")]);
    expect((await conversations.load(id))?.title).toBe("late");
  });

  it("003-S4 a message has id, role, content, time, tokens, attachments, tool calls, parent and metadata", async () => {
    const { conversations } = await data.open();
    const full: Message = {
      id: "m-1",
      role: "assistant",
      content: "Look",
      timestamp: 1_700_000_000_000,
      tokens: 17,
      attachments: [{ type: "code", name: "a.ts" }],
      toolCalls: [{ id: "c", name: "f", arguments: {} }],
      parentId: "m-0",
      metadata: { any: ["thing"] },
    };
    const made = [
      message.user("u"),
      message.assistant("a"),
      message.system("s"),
      message.toolResult("call-123", "42"),
      message.toolResult("call-124", { answer: 42 }),
    ];
    const { id } = await conversations.create({ messages: [full, ...made] });
    const loaded = await (await data.open()).conversations.load(id);
    expect(loaded?.messages).toStrictEqual([full, ...made]);
    expect(loaded?.entries[0]).toMatchObject({ id: "m-1", timestamp: 1_700_000_000_000, role: "assistant" });
    expect(loaded?.messages.map(({ role }) => role)).toEqual([
      "assistant",
      "user",
      "assistant",
      "system",
      "tool",
      "tool",
    ]);
    expect(loaded?.messages[4]).toMatchObject({ toolCallId: "call-123", content: "42" });
    expect(loaded?.messages[5]).toMatchObject({ toolCallId: "call-124", content: '{"answer":42}' });
    expect(new Set(loaded?.entries.map((entry) => entry.id)).size).toBe(6);
  });

  const attachmentsOf = (type: AttachmentType, bytes: number): Attachment[] => {
    const content = Uint8Array.from({ length: bytes }, (_, n) => n % 251);
    return [
      { id: "1", type, name: "näme.bin", mimeType: "application/octet-stream", content, size: bytes },
      { id: "2", type, name: "remote", url: "https://example.org/x?y=z" },
    ];
  };
  const roundTrip = async (attachments: Attachment[]): Promise<Message[] | undefined> => {
    const { id } = await (await data.open()).conversations.create({ messages: [message.user("see", { attachments })] });
    return (await (await data.open()).conversations.load(id))?.messages;
  };

  it.each<AttachmentType>(["image", "audio", "video", "file", "code"])(
    "003-S5 an attachment of type %s keeps its fields, and its bytes exactly",
    async (type) => {
      const attachments = attachmentsOf(type, 1000);
      const loaded = await roundTrip(attachments);
      expect(loaded).toStrictEqual([{ role: "user", content: "see", attachments }]);
      expect(loaded?.[0]?.attachments?.[0]?.content).toBeInstanceOf(Uint8Array);
    },
  );

  it("003-S5 an attachment of any size keeps its bytes exactly", async () => {
    const attachments = attachmentsOf("image", 5000);
    expect(await roundTrip(attachments)).toStrictEqual([{ role: "user", content: "see", attachments }]);
  });

  it("003-S6 a tool call has id, name, arguments, result and any of four statuses", async () => {
    const toolCalls: ToolCall[] = [
      { id: "1", name: "f", arguments: { deep: { list: [1] } }, status: "pending" },
      { id: "2", name: "f", arguments: {}, status: "running" },
      { id: "3", name: "f", arguments: {}, result: { ok: true }, status: "completed" },
      { id: "4", name: "f", arguments: {}, result: "no", status: "failed" },
    ];
    const messages = [message.assistant("", toolCalls)];
    const sp = await data.open();
    const { id } = await sp.conversations.create({ messages });
    await sp.session("s").save({ messages });
    const again = await data.open();
    expect((await again.conversations.load(id))?.messages).toStrictEqual(messages);
    const latest = await again.session("s").latest();
    expect(latest?.pendingToolCalls.map((call) => call.id)).toEqual(["1", "2"]);
    expect(pendingToolCalls({ messages: [...messages, message.toolResult("1", "x")] }).map((call) => call.id)).toEqual([
      "2",
    ]);
  });

  it("003-S8 agents, conversations and checkpoints are saved, loaded, listed and deleted; missing ones load as undefined", async () => {
    const sp = await data.open();
    expect(await sp.agents.load("a")).toBeUndefined();
    expect(await sp.conversations.load("c")).toBeUndefined();
    expect(await sp.checkpoints.load("cp")).toBeUndefined();
    expect(await sp.agents.list().all()).toEqual([]);
    expect(await sp.conversations.list().all()).toEqual([]);
    expect(await sp.checkpoints.list().all()).toEqual([]);
    expect(await sp.conversations.search("x")).toEqual([]);
    expect(await sp.stats()).toMatchObject({ agents: 0, conversations: 0, messages: 0, checkpoints: 0, sessions: 0 });
    await sp.agents.save({ id: "a", name: "A" });
    await sp.conversations.create({ id: "c", agent: "a" });
    const { id } = await sp.checkpoints.create({ agent: "a" });
    const other = await data.open();
    expect((await other.agents.list().all()).map((agent) => agent.id)).toEqual(["a"]);
    expect((await other.conversations.list().all()).map((conversation) => conversation.id)).toEqual(["c"]);
    expect((await other.checkpoints.list().all()).map((checkpoint) => checkpoint.id)).toEqual([id]);
    expect(await other.checkpoints.load(id)).toMatchObject({ id, agent: "a" });
    expect([await other.checkpoints.delete(id), await other.checkpoints.delete(id)]).toEqual([true, false]);
    expect([await other.conversations.delete("c"), await other.conversations.delete("c")]).toEqual([true, false]);
    expect([await other.agents.delete("a"), await other.agents.delete("a")]).toEqual([true, false]);
    expect(await sp.agents.load("a")).toBeUndefined();
    expect(await sp.conversations.load("c")).toBeUndefined();
    expect(await sp.checkpoints.load(id)).toBeUndefined();
  });

  it("003-S10 search finds any part of a message in any case, of its own agent only, up to the limit", async () => {
    const sp = await data.open();
    const create = async (agent: string, ...texts: string[]): Promise<string> =>
      (await sp.conversations.create({ agent, messages: texts.map((text) => message.assistant(text)) })).id;
    const one = await create("a", "nothing", "Hello WORLD: Straße, 100% of a_b");
    const other = await create("b", "hello world");
    const search = async (text: string, agent?: string, limit?: number): Promise<string[]> => {
      const options = { ...(agent !== undefined && { agent }), ...(limit !== undefined && { limit }) };
      return (await sp.conversations.search(text, options)).map((hit) => hit.conversationId).sort();
    };
    for (const text of ["hello world", "LO WOR", "w", "straße", "100%", "a_b"]) {
      expect(await search(text, "a"), text).toEqual([one]);
    }
    expect(await search("hello world", "b")).toEqual([other]);
    expect(await search("hello world")).toEqual([one, other].sort());
    for (const text of ["worlds", "%", "axb", ".*", "hello  world", "", '"; drop']) {
      expect(await search(text, "b"), text).toEqual([]);
    }
    const many = await Promise.all(Array.from({ length: 7 }, () => create("c", "needle", "needle again")));
    expect(await search("NEEDLE", "c", 3)).toHaveLength(3);
    expect(await search("NEEDLE", "c", 0)).toEqual([]);
    expect(await search("NEEDLE", "c", 100)).toEqual(many.sort());
  });

  it("003-S11 stats count agents, conversations, checkpoints, messages and bytes", async () => {
    const sp = await data.open();
    for (const id of ["a", "b"]) await sp.agents.save({ id, name: id });
    for (const agent of ["a", "a", "b"]) {
      await sp.conversations.create({ agent, messages: [message.user("1"), message.assistant("2")] });
    }
    await sp.checkpoints.create({ agent: "a" });
    const stats = await (await data.open()).stats();
    expect(stats).toMatchObject({ agents: 2, conversations: 3, checkpoints: 1, messages: 6, sessions: 0 });
    expect(stats.bytes).toBeGreaterThan(0);
  });

  it("003-S15 deleting an agent deletes its conversations and checkpoints, and none of other agents", async () => {
    const sp = await data.open();
    for (const id of ["a", "ab"]) {
      await sp.agents.save({ id, name: id });
      await sp.conversations.create({ id: `c-${id}`, agent: id, messages: [message.user(`I am ${id}`)] });
      await sp.session(`s-${id}`, { agent: id }).save({ id });
      await sp.checkpoints.create({ agent: id });
    }
    expect(await sp.agents.delete("a")).toBe(true);
    const again = await data.open();
    expect(await again.agents.load("a")).toBeUndefined();
    expect(await again.conversations.load("c-a")).toBeUndefined();
    expect(await again.session("s-a").latest()).toBeUndefined();
    expect(await again.conversations.search("I am a", { agent: "a" })).toEqual([]);
    expect(await again.stats()).toMatchObject({
      agents: 1,
      conversations: 1,
      sessions: 1,
      checkpoints: 2,
      messages: 1,
    });
    expect((await again.conversations.load("c-ab"))?.messages).toHaveLength(1);
    expect((await again.session("s-ab").latest())?.state).toEqual({ id: "ab" });
    for (const sp2 of [sp, again]) {
      await expect(sp2.conversations.append("c-a", [message.user("x")])).rejects.toMatchObject({
        code: "CONVERSATION_NOT_FOUND",
      });
    }
  });

  it("003-B1 a checkpoint with many keys in its maps loads intact everywhere, in the order of its keys", async () => {
    const keys = Array.from({ length: 40 }, (_, n) => `key-${(n * 17) % 40}`);
    const map = Object.fromEntries(keys.map((key, n) => [key, n]));
    const agent = {
      id: "a",
      name: "A",
      config: { ...map },
      state: { ...map, inner: { ...map } },
      metadata: { ...map },
    };
    const sp = await data.open();
    await sp.agents.save(agent);
    const { id } = await sp.checkpoints.create({ agent: "a" });
    await sp.agents.save({ id: "a", name: "B" });
    for (let n = 0; n < 3; n++) {
      const again = await data.open();
      await again.checkpoints.restore(id);
      const loaded = await again.agents.load("a");
      expect(loaded).toMatchObject(agent);
      expect(Object.keys(loaded?.config ?? {})).toEqual(keys);
      expect(Object.keys(loaded?.state ?? {})).toEqual([...keys, "inner"]);
      expect(Object.keys(loaded?.metadata ?? {})).toEqual(keys);
    }
  });

  it("003-B2 a title is never cut inside a character", async () => {
    const { conversations } = await data.open();
    const titleOf = async (text: string): Promise<string | undefined> =>
      (await conversations.create({ messages: [message.user(text)] })).title;
    expect(await titleOf("あ".repeat(20))).toBe("あ".repeat(20));
    expect(await titleOf("あ".repeat(60))).toBe(`${"あ".repeat(47)}...`);
    for (let before = 40; before < 52; before++) {
      const title = await titleOf(`${"x".repeat(before)}${"👩‍👩‍👧‍👦".repeat(20)}`);
      expect(title).toBe(`${"x".repeat(Math.min(before, 47))}${"👩‍👩‍👧‍👦".repeat(Math.max(0, 47 - before))}...`);
    }
  });

  it("003-B3 restore removes newer conversations, saves the previous state first, and can be undone", async () => {
    const sp = await data.open();
    await sp.agents.save({ id: "a", name: "A", state: { n: 1 } });
    await sp.conversations.create({ id: "old", agent: "a", messages: [message.user("1")] });
    const { id } = await sp.checkpoints.create({ agent: "a" });
    await sp.agents.save({ id: "a", name: "A", state: { n: 2 } });
    await sp.conversations.append("old", [message.user("2")]);
    await sp.conversations.create({ id: "new", agent: "a", messages: [message.user("3")] });
    const { before, checkpoint } = await sp.checkpoints.restore(id);
    expect([before.kind, checkpoint.kind]).toEqual(["preOperation", "recovery"]);
    const again = await data.open();
    expect((await again.agents.load("a"))?.state).toEqual({ n: 1 });
    expect((await again.conversations.load("old"))?.messages).toEqual([message.user("1")]);
    expect(await again.conversations.load("new")).toBeUndefined();
    await again.checkpoints.restore(before.id);
    expect((await sp.agents.load("a"))?.state).toEqual({ n: 2 });
    expect((await sp.conversations.load("old"))?.messages).toHaveLength(2);
    expect((await sp.conversations.load("new"))?.messages).toEqual([message.user("3")]);
  });

  it("003-B6 concurrent appends lose nothing, the first save needs no setup, and ids are never paths", async () => {
    const [one, two] = [await data.open(), await data.open()];
    const ids = ["x.json", "x.json.json", "x", "../x", "latest"];
    for (const id of ids) await one.conversations.create({ id });
    await Promise.all(
      ids.flatMap((id) =>
        Array.from({ length: 10 }, (_, n) =>
          (n % 2 ? one : two).conversations.append(id, [message.user(`${id} ${n}`)]),
        ),
      ),
    );
    for (const id of ids) {
      const texts = (await two.conversations.load(id))?.messages.map(({ content }) => content);
      expect(texts?.sort()).toEqual(Array.from({ length: 10 }, (_, n) => `${id} ${n}`));
    }
    for (const id of ["b.json", ".json"]) await one.agents.save({ id, name: id });
    expect((await two.agents.list().all()).map(({ id }) => id)).toEqual([".json", "b.json"]);
    expect(await two.agents.load("b")).toBeUndefined();
  });

  it("003-B7 conversations without an agent, or of an agent that was never saved, are counted and listed", async () => {
    const sp = await data.open();
    await sp.conversations.create({ agent: "never-saved", messages: [message.user("one")] });
    await sp.conversations.create({ messages: [message.user("two"), message.user("three")] });
    const before = (await sp.stats()).bytes;
    expect(await sp.stats()).toMatchObject({ agents: 0, conversations: 2, messages: 3 });
    expect(await sp.stats({ agent: "never-saved" })).toMatchObject({ agents: 0, conversations: 1, messages: 1 });
    expect(await sp.conversations.list().all()).toHaveLength(2);
    // The size is measured, not a constant.
    const noise = Array.from({ length: 3000 }, (_, n) => ((n * 2654435761) % 4294967296).toString(36)).join("");
    await sp.conversations.create({ messages: [message.user(noise)] });
    expect((await sp.stats()).bytes - before).toBeGreaterThan(noise.length / 4);
  });

  it("003-B8 the version rises, active conversations are tracked, and search covers titles, tags and the archive", async () => {
    const sp = await data.open();
    await sp.agents.save({ id: "a", name: "A" });
    await sp.agents.save({ id: "a", name: "A" });
    const one = await sp.conversations.create({ agent: "a", title: "Quarterly figures", tags: ["money"] });
    const two = await sp.conversations.create({ agent: "a", messages: [message.assistant("figures, again")] });
    expect(await (await data.open()).agents.load("a")).toMatchObject({
      version: 2,
      activeConversations: [one.id, two.id],
    });
    await sp.conversations.archive(one.id);
    const other = await data.open();
    expect((await other.agents.load("a"))?.activeConversations).toEqual([two.id]);
    const found = async (options: Parameters<typeof sp.conversations.search>[1]): Promise<string[]> =>
      (await other.conversations.search("figures", options)).map(({ conversationId }) => conversationId).sort();
    expect(await found({})).toEqual([one.id, two.id].sort());
    expect(await found({ tags: ["money"] })).toEqual([one.id]);
    expect(await found({ archived: true })).toEqual([one.id]);
    expect(await found({ archived: false })).toEqual([two.id]);
  });
});

describe("003 on stores with a path", () => {
  it("003-S9 agents, conversations and checkpoints share one store in one file, whatever their ids are", async () => {
    const folder = await makeFolder();
    const ids = ["../outside", "a/b", "x.json", "CON", "latest", "*"];
    const url = `sqlite:${join(folder, "store.db")}`;
    const sp = await Savepoint.open(url);
    for (const id of ids) {
      await sp.agents.save({ id, name: id });
      await sp.conversations.create({ id, agent: id, messages: [message.user(id)] });
      await sp.checkpoints.create({ agent: id });
    }
    await sp.close();
    expect(readdirSync(folder).filter((name) => !/-(wal|shm)$/.test(name))).toEqual(["store.db"]);
    const again = await Savepoint.open(url);
    for (const id of ids) {
      expect((await again.agents.load(id))?.name).toBe(id);
      expect((await again.conversations.load(id))?.messages).toEqual([message.user(id)]);
      expect(await again.checkpoints.list({ agent: id }).all()).toHaveLength(1);
    }
    await again.close();
    await removeFolder(folder);
  });
});
