import { describe, expect, it } from "vitest";
import { type AgentToSave, message, type SavedAgentInfo, type Savepoint } from "../../src/index.js";
import { agentHistoryId, branchKey, sessionKey, tapeName } from "../../src/records/index.js";
import { messages } from "../model/sample-states.js";
import { STORES, useData } from "../model/stores.js";
import { useDamageableFile } from "../model/damageable-file.js";

const HOSTILE = [
  "../x",
  "*",
  "%",
  "a_b",
  "a",
  "latest",
  "main",
  "x.json",
  "CON",
  "__proto__",
  "constructor",
  "toString",
  "👩‍👩‍👧‍👦",
  "e\u0301",
  "é",
  " ",
  "'; DROP TABLE savepoint_record; --",
  "10",
  "9",
  "~",
  "\uff5e",
  "x".repeat(1024),
  "é".repeat(512),
];

const INVALID = ["", "a\tb", "a\nb", "\u0000", "\u0001a", "x".repeat(1025), "é".repeat(513), "\ud83d", 7, null, {}];

interface Counter {
  n: number;
}

const increment = ({ state }: { state: Counter }): { state: Counter } => ({ state: { n: state.n + 1 } });

describe.each(STORES)("agents on $name", (kind) => {
  const data = useData(kind);

  it("with hostile ids are kept apart", async () => {
    const sp = await data.open();
    for (const id of HOSTILE) {
      await sp.agents.save({ id, name: `name of ${id}`, state: { id } });
      await sp.conversations.create({ id, agent: id, messages: [message.user(`from ${id}`)] });
      await sp.session(id, { agent: id }).save({ id });
      await sp.checkpoints.create({ agent: id });
    }
    const again = await data.open();
    for (const id of HOSTILE) {
      const agent = await again.agents.load(id);
      expect(agent).toMatchObject({ id, name: `name of ${id}`, state: { id }, version: 1 });
      expect(agent?.activeConversations).toEqual([id]);
      const conversation = await again.conversations.load(id);
      expect(conversation).toMatchObject({ id, agent: id, messages: [{ content: `from ${id}` }] });
      expect(await again.stats({ agent: id })).toMatchObject({
        agents: 1,
        conversations: 1,
        sessions: 1,
        checkpoints: 2,
      });
    }
    const listed = (await again.agents.list().all()).map(({ id }) => id);
    expect([...listed].sort()).toEqual([...HOSTILE].sort());
    const [gone, ...left] = HOSTILE;
    expect(await again.agents.delete(gone as string)).toBe(true);
    expect(await sp.agents.load(gone as string)).toBeUndefined();
    for (const id of left) expect((await sp.agents.load(id))?.state, id).toEqual({ id });
    for (const id of left) expect((await sp.conversations.load(id))?.messages, id).toHaveLength(1);
  });

  it("are listed by id in the same order on every store, up to the limit", async () => {
    const sp = await data.open();
    for (const id of ["b", "a", "B", "é", "\uff5e", "aa", "a b"]) await sp.agents.save({ id, name: id });
    const ids = ["B", "a", "a b", "aa", "b", "é", "\uff5e"];
    expect((await sp.agents.list().all()).map(({ id }) => id)).toEqual(ids);
    expect((await sp.agents.list({ limit: 2 }).all()).map(({ id }) => id)).toEqual(ids.slice(0, 2));
    expect(await sp.agents.list({ limit: 0 }).all()).toEqual([]);
    expect(await sp.agents.list({ limit: 100 }).all()).toHaveLength(7);
  });

  it.each(INVALID)("are rejected with the id %o by every method", async (given) => {
    const sp = await data.open();
    const id = given as string;
    for (const attempt of [
      () => sp.agents.save({ id, name: "x" }),
      () => sp.agents.load(id),
      () => sp.agents.update(id, { name: "x" }),
      () => sp.agents.delete(id),
      () => sp.conversations.create({ id }),
      () => sp.conversations.create({ agent: id }),
      () => sp.conversations.save({ id, messages: [] }),
      () => sp.conversations.load(id),
      () => sp.conversations.append(id, [message.user("x")]),
      () => sp.conversations.rename(id, "x"),
      () => sp.conversations.delete(id),
      () => sp.conversations.create({ tags: [id] }),
      () => sp.stats({ agent: id }),
    ]) {
      await expect(attempt(), String(attempt)).rejects.toMatchObject({
        code: id === null ? "INVALID_ARGUMENT" : "INVALID_ID",
      });
    }
    expect(await sp.stats()).toMatchObject({ agents: 0, conversations: 0 });
  });

  it("are replaced completely by save: omitted fields become empty, and a loaded agent can be saved again", async () => {
    const sp = await data.open({ now: () => 5 });
    const whole = {
      id: "a",
      name: "A",
      type: "t",
      systemPrompt: "p",
      capabilities: ["c"],
      config: { k: 1 },
      metadata: { m: 1 },
    };
    await sp.agents.save({ ...whole, state: { s: 1 } });
    const loaded = await sp.agents.load("a");
    await sp.agents.save(loaded as AgentToSave);
    expect(await sp.agents.load("a")).toStrictEqual({ ...loaded, version: 2 });
    await sp.agents.save({ id: "a", name: "B" });
    expect(await (await data.open()).agents.load("a")).toStrictEqual({
      id: "a",
      name: "B",
      type: undefined,
      systemPrompt: undefined,
      capabilities: [],
      config: {},
      state: {},
      metadata: {},
      activeConversations: [],
      createdAt: 5,
      modifiedAt: 5,
      version: 3,
      skipped: [],
    });
  });

  it("are returned by save, update and list as load returns them", async () => {
    let time = 1;
    const sp = await data.open({ now: () => time++ });
    const saved = await sp.agents.save({ id: "a", name: "A", metadata: { at: new Date(3) } });
    expect(await sp.agents.list().all()).toStrictEqual([saved]);
    const updated = await sp.agents.update("a", { type: "t" });
    expect(updated).toStrictEqual({ ...saved, type: "t", version: 2, modifiedAt: updated.modifiedAt });
    expect(updated.modifiedAt).toBeGreaterThan(saved.modifiedAt);
    expect(await (await data.open()).agents.list().all()).toStrictEqual([updated]);
    expect(await sp.agents.load("a")).toMatchObject(updated);
  });

  it.each([0, "", null, false, [1, 2], "text", 7n, new Map([["a", new Date(1)]]), { deep: new Uint8Array([1, 2]) }])(
    "can have %o as their state",
    async (state) => {
      const sp = await data.open();
      await sp.agents.save({ id: "a", name: "A", state });
      expect((await (await data.open()).agents.load<unknown>("a"))?.state).toStrictEqual(state);
      await sp.agents.update("a", { name: "B" });
      expect((await (await data.open()).agents.load<unknown>("a"))?.state).toStrictEqual(state);
    },
  );

  it("are returned as copies, and later changes of saved objects have no effect", async () => {
    const sp = await data.open();
    const given = {
      id: "a",
      name: "A",
      config: { list: [1] },
      state: { list: [1] },
      metadata: { list: [1] },
      capabilities: ["x"],
    };
    const saving = sp.agents.save(given);
    for (const part of [given.config, given.state, given.metadata]) part.list.push(2);
    given.capabilities.push("y");
    await saving;
    const unchanged = { config: { list: [1] }, state: { list: [1] }, metadata: { list: [1] }, capabilities: ["x"] };
    const first = await sp.agents.load<{ list: number[] }>("a");
    expect(first).toMatchObject(unchanged);
    first?.state.list.push(3);
    for (const part of [first?.config, first?.metadata]) Object.assign(part ?? {}, { list: [3] });
    expect(await sp.agents.load("a")).toMatchObject(unchanged);
    const change = { state: { list: [9] } };
    const updating = sp.agents.update("a", change);
    change.state.list.push(10);
    await updating;
    expect((await sp.agents.load("a"))?.state).toEqual({ list: [9] });
  });

  it("keep the fields that update does not mention", async () => {
    const sp = await data.open();
    await sp.agents.save({ id: "a", name: "A", systemPrompt: "p", config: { k: 1 }, state: { s: 1 } });
    await sp.agents.update("a", { name: "B" });
    await sp.agents.update("a", { systemPrompt: undefined });
    await sp.agents.update("a", ({ config }) => ({ config: { ...config, l: 2 } }));
    expect(await sp.agents.load("a")).toMatchObject({
      name: "B",
      systemPrompt: undefined,
      config: { k: 1, l: 2 },
      state: { s: 1 },
      version: 4,
    });
    await expect(sp.agents.update("b", { name: "B" })).rejects.toMatchObject({ code: "AGENT_NOT_FOUND" });
    await expect(sp.agents.update("b", () => ({ name: "B" }))).rejects.toMatchObject({ code: "AGENT_NOT_FOUND" });
    expect(await sp.agents.load("b")).toBeUndefined();
  });

  it("with unknown fields, wrong types or unsupported values are rejected, and nothing changes", async () => {
    const sp = await data.open();
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    await sp.agents.save({ id: "a", name: "A", state: { n: 1 } });
    const bad: [Record<string, unknown>, string][] = [
      [{ nmae: "x" }, "INVALID_ARGUMENT"],
      [{ systemprompt: "x" }, "INVALID_ARGUMENT"],
      [{ name: undefined }, "INVALID_ARGUMENT"],
      [{ name: 7 }, "INVALID_ARGUMENT"],
      [{ type: 7 }, "INVALID_ARGUMENT"],
      [{ systemPrompt: null }, "INVALID_ARGUMENT"],
      [{ capabilities: "search" }, "INVALID_ARGUMENT"],
      [{ capabilities: [1] }, "INVALID_ARGUMENT"],
      [{ state: cyclic }, "INVALID_STATE"],
      [{ state: { f: () => 1 } }, "INVALID_STATE"],
      [{ config: { f: Symbol("s") } }, "INVALID_STATE"],
      [{ metadata: { f: new WeakMap() } }, "INVALID_STATE"],
    ];
    for (const [fields, code] of bad) {
      const given = { id: "a", name: "A", ...fields } as AgentToSave;
      await expect(sp.agents.save(given), JSON.stringify(Object.keys(fields))).rejects.toMatchObject({ code });
      await expect(sp.agents.update("a", fields)).rejects.toMatchObject({ code });
      await expect(sp.agents.update("a", () => fields)).rejects.toMatchObject({ code });
    }
    for (const wrong of [undefined, null, 7, Promise.resolve({})]) {
      await expect(sp.agents.update("a", () => wrong as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    const thrown = new Error("mine");
    const throwing = sp.agents.update("a", () => {
      throw thrown;
    });
    await expect(throwing).rejects.toBe(thrown);
    expect(await sp.agents.load("a")).toMatchObject({ name: "A", version: 1, state: { n: 1 } });
    expect(await sp.agents.update("a", { name: "still works" })).toMatchObject({ version: 2 });
  });

  it("are saved only with the expected version, otherwise save throws CONFLICT", async () => {
    const sp = await data.open();
    const save = (expectedVersion: number): Promise<unknown> =>
      sp.agents.save({ id: "a", name: `v${expectedVersion + 1}` }, { expectedVersion });
    await expect(save(1)).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await sp.agents.load("a")).toBeUndefined();
    await save(0);
    for (const wrong of [0, 2]) await expect(save(wrong)).rejects.toMatchObject({ code: "CONFLICT" });
    await save(1);
    await expect(sp.agents.update("a", { name: "x" }, { expectedVersion: 1 })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    await sp.agents.update("a", { type: "t" }, { expectedVersion: 2 });
    expect(await sp.agents.load("a")).toMatchObject({ name: "v2", type: "t", version: 3 });
    await sp.agents.delete("a");
    await expect(save(3)).rejects.toMatchObject({ code: "CONFLICT" });
    await save(0);
    expect(await sp.agents.load("a")).toMatchObject({ version: 1 });
  });

  it("are saved by exactly one of many writers that expect the same version", async () => {
    const sps = [await data.open(), await data.open(), await data.open()];
    for (let version = 0; version < 5; version++) {
      const results = await Promise.allSettled(
        sps.flatMap((sp, index) => [
          sp.agents.save({ id: "a", name: `save ${index}` }, { expectedVersion: version }),
          sp.agents.save({ id: "a", name: `again ${index}` }, { expectedVersion: version }),
        ]),
      );
      const won = results.filter((result) => result.status === "fulfilled");
      expect(won).toHaveLength(1);
      for (const result of results) {
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
      }
      expect(await (await data.open()).agents.load("a")).toMatchObject(won[0]?.value as object);
    }
  });

  it("lose no update under contention", async () => {
    const sps = [await data.open(), await data.open()];
    await sps[0]?.agents.save({ id: "a", name: "A", state: { n: 0 } });
    const infos = await Promise.all(
      Array.from({ length: 50 }, (_, n) => (sps[n % 2] as Savepoint).agents.update<Counter>("a", increment)),
    );
    expect(await (await data.open()).agents.load("a")).toMatchObject({ state: { n: 50 }, version: 51 });
    expect(infos.map(({ version }) => version).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 50 }, (_, n) => n + 2),
    );
  });

  it("get a new version with every save of every process, and keep their creation time", async () => {
    let time = 10;
    const sps = [await data.open({ now: () => time }), await data.open({ now: () => time })];
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => (sps[n % 2] as Savepoint).agents.save({ id: "a", name: `${n}` })),
    );
    time = 20;
    await sps[1]?.agents.save({ id: "a", name: "last" });
    expect(await sps[0]?.agents.load("a")).toMatchObject({ name: "last", version: 21, createdAt: 10, modifiedAt: 20 });
  });

  it("start again at version 1 after they were deleted, also for a process that has them cached", async () => {
    let time = 1;
    const [one, two] = [await data.open({ now: () => time }), await data.open({ now: () => time })];
    await one.agents.save({ id: "a", name: "old", state: { old: messages(20) } });
    await two.agents.load("a");
    await one.agents.delete("a");
    expect(await two.agents.load("a")).toBeUndefined();
    await expect(two.agents.update("a", { name: "x" })).rejects.toMatchObject({ code: "AGENT_NOT_FOUND" });
    time = 9;
    await two.agents.save({ id: "a", name: "new" });
    expect(await one.agents.load("a")).toMatchObject({ name: "new", state: {}, version: 1, createdAt: 9 });
    await one.agents.update("a", { type: "t" });
    expect(await two.agents.load("a")).toMatchObject({ name: "new", type: "t", version: 2 });
  });

  it("can be deleted during concurrent saves, appends and creates, and nothing is left half-deleted", async () => {
    const [one, two, three] = [await data.open(), await data.open(), await data.open()];
    for (let round = 0; round < 4; round++) {
      await one.agents.save({ id: "a", name: "A", state: { round } });
      await one.conversations.create({ id: "c", agent: "a", messages: [message.user("0")] });
      await one.session("s", { agent: "a" }).save({ round });
      const work: Promise<unknown>[] = [];
      const refused: string[] = [];
      const attempt = (promise: Promise<unknown>): void => {
        work.push(promise.catch((error: { code: string }) => refused.push(error.code)));
      };
      for (let n = 0; n < 10; n++) {
        attempt(two.conversations.append("c", [message.user(`${n}`), message.assistant(`${n}`)]));
        attempt(two.agents.update("a", { name: `${n}` }));
        attempt(one.agents.save({ id: "a", name: `${n}` }));
        if (n === 3) attempt(three.agents.delete("a"));
        attempt(three.session("s", { agent: "a" }).save({ n }));
        attempt(three.checkpoints.create({ agent: "a" }));
      }
      await Promise.all(work);
      const allowed = ["CONVERSATION_NOT_FOUND", "AGENT_NOT_FOUND", "SESSION_DELETED", "CONFLICT"];
      expect(refused.filter((code) => !allowed.includes(code))).toEqual([]);
      // Everything written after the deletion is there completely; everything written before it is gone.
      const again = await data.open();
      const [agent, conversation, session] = [
        await again.agents.load("a"),
        await again.conversations.load("c"),
        await again.session("s").latest(),
      ];
      expect(conversation).toBeUndefined();
      if (agent) expect(agent.activeConversations).toEqual([]);
      const stats = await again.stats();
      expect(stats).toMatchObject({ agents: agent ? 1 : 0, conversations: 0, messages: 0, sessions: session ? 1 : 0 });
      expect(stats.checkpoints).toBe((await again.checkpoints.list().all()).length);
      await again.agents.delete("a");
      expect(await again.stats()).toMatchObject({ agents: 0, sessions: 0, checkpoints: 0, conversations: 0 });
    }
  });

  it("that were never saved can be deleted with everything that belongs to them", async () => {
    const sp = await data.open();
    await sp.conversations.create({ agent: "a", messages: [message.user("x")] });
    await sp.session("s", { agent: "a" }).save(1);
    expect(await sp.agents.load("a")).toBeUndefined();
    expect(await sp.agents.delete("a")).toBe(true);
    expect(await sp.agents.delete("a")).toBe(false);
    expect(await sp.stats()).toMatchObject({ conversations: 0, sessions: 0, messages: 0 });
  });

  it("leave no data in the store after they were deleted", async () => {
    const sp = await data.open();
    const big = Array.from({ length: 300 }, (_, n) => message.user(`${n} ${"text ".repeat(100)}${n * 7919}`));
    for (let round = 0; round < 2; round++) {
      await sp.agents.save({ id: "a", name: "A", state: { big } });
      await sp.conversations.create({ id: "c", agent: "a", messages: big });
      await sp.checkpoints.create({ agent: "a" });
      await sp.conversations.delete("c");
      await sp.agents.delete("a");
      await sp.compact();
      expect(await sp.stats({ agent: "a" })).toMatchObject({ agents: 0, conversations: 0, checkpoints: 0, bytes: 0 });
    }
  });

  it("cannot be used after the Savepoint is closed", async () => {
    const sp = await data.open();
    await sp.close();
    for (const attempt of [
      () => sp.agents.save({ id: "a", name: "A" }),
      () => sp.agents.load("a"),
      () => sp.agents.delete("a"),
      () => sp.agents.list().all(),
      () => sp.conversations.create(),
      () => sp.conversations.append("c", []),
      () => sp.conversations.load("c"),
      () => sp.conversations.list().all(),
      () => sp.stats(),
    ]) {
      await expect(attempt()).rejects.toMatchObject({ code: "CLOSED" });
    }
  });
});

describe("damage of agents", () => {
  const file = useDamageableFile();
  const { open, flip } = file;

  /** The agent is number 0, and its items are on its first tape. */
  const flipItem = (item: number): void => file.damage({ kind: "item", tape: tapeName(0, 0), item }, "flip");

  it("is reported as DAMAGED if there is no checkpoint, not as never saved, and the agent can be saved again", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A", state: { list: messages(20) } });
    await sp.agents.save({ id: "a", name: "A2", state: { list: messages(20) } });
    flipItem(3);
    const again = await open();
    await expect(again.agents.load("a")).rejects.toMatchObject({ code: "DAMAGED" });
    await expect(again.agents.update("a", { name: "B" })).rejects.toMatchObject({ code: "DAMAGED" });
    expect(file.events.length).toBeGreaterThan(0);
    expect((await again.agents.list().all()).map(({ name }) => name)).toEqual(["A2"]);
    await again.agents.save({ id: "a", name: "mended" });
    expect(await (await open()).agents.load("a")).toMatchObject({ name: "mended", state: {} });
  });

  it("makes load fall back to a checkpoint and report it, and the next update gets a higher version", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A", state: { list: messages(20) } });
    await sp.checkpoints.create({ agent: "a" });
    await sp.agents.save({ id: "a", name: "A", state: { list: [...messages(20), ...messages(2)] } });
    flipItem(20);
    const again = await open();
    const loaded = await again.agents.load<{ list: unknown[] }>("a");
    expect(loaded).toMatchObject({ version: 1, skipped: [{ reason: expect.any(String) as string }] });
    expect(loaded?.state.list).toEqual(messages(20));
    expect(file.events.length).toBeGreaterThan(0);
    const updated = await again.agents.update("a", { name: "B" });
    expect(updated.version).toBe(3);
    const after = await (await open()).agents.load<{ list: unknown[] }>("a");
    expect(after).toMatchObject({ name: "B", version: 3, skipped: [] });
    expect(after?.state.list).toEqual(messages(20));
  });

  it("of the record that names the head makes load fall back to a checkpoint, or throw DAMAGED", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A" });
    await sp.agents.save({ id: "b", name: "B" });
    await sp.checkpoints.create({ agent: "b" });
    for (const id of ["a", "b"]) flip(branchKey(agentHistoryId(id), "main"));
    const again = await open();
    await expect(again.agents.load("a")).rejects.toMatchObject({ code: "DAMAGED" });
    expect(await again.agents.load("b")).toMatchObject({ name: "B" });
    expect(await again.agents.list().all()).toEqual([]);
    expect(file.events.length).toBeGreaterThan(0);
  });

  it("does not prevent agents from being deleted", async () => {
    const sp = await open();
    for (const id of ["a", "b"]) {
      await sp.agents.save({ id, name: id, state: { list: messages(20) } });
      await sp.conversations.create({ agent: id, messages: messages(3) });
    }
    flip(branchKey(agentHistoryId("a"), "main"));
    flip(sessionKey(agentHistoryId("b")));
    const again = await open();
    for (const id of ["a", "b"]) {
      expect(await again.agents.delete(id)).toBe(true);
      expect(await again.agents.load(id)).toBeUndefined();
      await again.agents.save({ id, name: "new" });
      expect(await (await open()).agents.load(id)).toMatchObject({ name: "new", version: 1 });
    }
    expect(await again.conversations.list().all()).toEqual([]);
  });

  it("of an agent's own record does not prevent its deletion if the agent has nothing else", async () => {
    await (await open()).agents.save({ id: "a", name: "a" });
    flip(sessionKey(agentHistoryId("a")));
    const sp = await open();
    expect(await sp.agents.delete("a")).toBe(true);
    expect(await sp.agents.save({ id: "a", name: "new" })).toMatchObject({ version: 1 });
  });

  it("of an agent's own record does not make the agent count twice after it was deleted and saved again", async () => {
    const before = await open();
    await before.agents.save({ id: "a", name: "a" });
    await before.conversations.create({ agent: "a" });
    flip(sessionKey(agentHistoryId("a")));
    const sp = await open();
    await sp.agents.delete("a");
    await sp.agents.save({ id: "a", name: "new" });
    expect((await sp.stats()).agents).toBe(1);
  });

  async function saveOverDamage(): Promise<SavedAgentInfo> {
    await (await open({ now: () => 5 })).agents.save({ id: "a", name: "A", state: { list: messages(20) } });
    await (await open({ now: () => 6 })).agents.save({ id: "a", name: "A2", state: { list: messages(20) } });
    flipItem(3);
    return (await open({ now: () => 7 })).agents.save({ id: "a", name: "mended" });
  }

  it("does not reset the version when the agent is saved again", async () => {
    expect(await saveOverDamage()).toMatchObject({ version: 3, modifiedAt: 7 });
  });

  it("does not reset the creation time when the agent is saved again", async () => {
    expect(await saveOverDamage()).toMatchObject({ createdAt: 5 });
  });
});
