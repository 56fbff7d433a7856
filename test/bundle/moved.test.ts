/** Agents that move between stores in which numbers are taken: nothing is mistaken for anything else. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { FAST } from "../checkpoints/agent-data.js";
import { EVERY_STORE, type SharedData, type StoreKind, useData } from "../model/stores.js";
import { agentOf, fillAgent, fillSession, fillWithOthers, sessionOf, wholeOf } from "./whole.js";

const open = (): Promise<Savepoint> => Savepoint.open("memory:");

/** Works with an agent the way users do. */
async function workOn(sp: Savepoint, agent: string, name: string): Promise<void> {
  await sp.conversations.append(`${agent}-cut`, [message.user(`${name} said`)]);
  await sp.conversations.create({ id: `${agent}-${name}`, agent, messages: [message.user(`new in ${name}`)] });
  await sp.agents.update(agent, { state: { in: name } });
  await sp.checkpoints.create({ agent, label: name });
  await sp.conversations.append(`${agent}-${name}`, [message.user("more")]);
  const all = await sp.checkpoints.list({ agent, of: "agent" }).all();
  const oldest = all.at(-1)?.id ?? "";
  await sp.checkpoints.restore(oldest);
  await sp.conversations.append(`${agent}-gone`, [message.user(`${name} after going back`)]);
  await sp.checkpoints.create({ agent, label: `${name} again` });
  await sp.session(`${agent}-session`).append("/messages", [{ role: "user", content: name }]);
}

describe("an agent that moves from store to store", () => {
  const use = (wanted: string): SharedData => useData(EVERY_STORE.find(({ name }) => name === wanted) as StoreKind);
  const [first, second, third] = [use("memory:"), use("file:"), use("sqlite: (a file)")];

  it("arrives in each store as it was in the one before, with work in between", async () => {
    const [a, b, c] = [await first.open(FAST), await second.open(FAST), await third.open(FAST)];
    await fillAgent(a, "a");
    await fillWithOthers(b, "b");
    await fillWithOthers(c, "c");
    await fillWithOthers(c, "d");
    await b.import(a.export({ agent: "a" }));
    assert.deepEqual(await agentOf(b, "a"), await agentOf(a, "a"));
    const there = await second.open(FAST);
    await workOn(there, "a", "b");
    const inB = await agentOf(there, "a");
    assert.deepEqual(await agentOf(await second.open(FAST), "a"), inB);
    await c.import(there.export({ agent: "a" }));
    assert.deepEqual(await agentOf(c, "a"), inB);
    assert.deepEqual(await sessionOf(c, "a-session"), await sessionOf(there, "a-session"));
    const further = await third.open(FAST);
    await workOn(further, "a", "c");
    const inC = await agentOf(further, "a");
    await further.compact();
    assert.deepEqual(await agentOf(await third.open(FAST), "a"), inC);
    const back = await open();
    await back.import(further.export({}));
    assert.deepEqual(await wholeOf(back), await wholeOf(further));
    for (const sp of [further, back]) await sp.prune({ agent: "a", keepLast: 1 });
    for (const sp of [further, back]) await sp.compact();
    assert.deepEqual(await agentOf(back, "a"), await agentOf(further, "a"));
  });
});

describe("numbers of an imported agent", () => {
  it("differ from those that a Savepoint reserved before the import", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    // From now on it has reserved numbers that it has not used yet.
    await b.session("other").save(1);
    await b.import(a.export({ agent: "a" }));
    await b.conversations.create({ id: "new", agent: "a", messages: [message.user("new")] });
    const { id } = await b.checkpoints.create({ agent: "a" });
    const then = await b.conversations.load("new", { at: id });
    expect(then?.messages).toEqual([message.user("new")]);
    await b.conversations.delete("new");
    await b.compact();
    await b.checkpoints.restore(id);
    expect((await b.conversations.load("new"))?.messages).toEqual([message.user("new")]);
  });

  it("include the places in lists of conversations that a checkpoint of an agent has, also of empty ones", async () => {
    const [a, b] = [await open(), await open()];
    await a.agents.save({ id: "a", name: "A" });
    await a.conversations.create({ id: "said", agent: "a", messages: [message.user("said")] });
    await a.conversations.create({ id: "empty", agent: "a" });
    const { id } = await a.checkpoints.create({ agent: "a" });
    for (let n = 0; n < 5; n++) await b.conversations.create({ id: `own-${n}`, messages: [message.user("x")] });
    const before = (await b.conversations.list().all()).map((info) => info.id);
    await b.import(a.export(id));
    await b.checkpoints.restore(id);
    const after = (await b.conversations.list().all()).map((info) => info.id);
    expect(after.filter((each) => each.startsWith("own"))).toEqual(before);
    expect(
      after
        .filter((each) => !each.startsWith("own"))
        .slice()
        .sort(),
    ).toEqual(["empty", "said"]);
  });

  it("include those of conversations that only a checkpoint of an agent has, empty and deleted", async () => {
    const [a, b] = [await open(), await open()];
    // Before the agent: its number is the lowest of all.
    await a.conversations.create({ id: "empty", agent: "a" });
    await a.agents.save({ id: "a", name: "A" });
    const { id } = await a.checkpoints.create({ agent: "a" });
    await a.conversations.delete("empty");
    await a.compact();
    // All numbers of its first block are taken.
    for (let n = 0; n < 16; n++) await b.conversations.create({ id: `own-${n}`, messages: [message.user("x")] });
    const before = (await b.conversations.list().all()).map((info) => info.id);
    await b.import(a.export({ agent: "a" }));
    await b.checkpoints.restore(id);
    const after = (await b.conversations.list().all()).map((info) => info.id);
    expect(after.filter((each) => each !== "empty")).toEqual(before);
  });

  it("do not change for an agent that exists already, when a checkpoint of it is imported again", async () => {
    const sp = await open();
    const ids = await fillAgent(sp, "a");
    const before = await agentOf(sp, "a");
    for (const id of ids) expect(await sp.import(await sp.export(id).bytes())).toMatchObject({ skipped: ["a"] });
    assert.deepEqual(await agentOf(sp, "a"), before);
    await sp.conversations.append("a-cut", [message.user("more")]);
    const { id } = await sp.checkpoints.create({ agent: "a" });
    assert.deepEqual(await sp.conversations.load("a-cut", { at: id }), await sp.conversations.load("a-cut"));
  });

  it("do not change for an agent that exists already and was changed since", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    await fillWithOthers(b, "b");
    await b.import(a.export({ agent: "a" }));
    for (const sp of [a, b]) await workOn(sp, "a", sp === a ? "a" : "b");
    for (let n = 0; n < 80; n++) await a.conversations.create({ id: `many-${n}`, agent: "a" });
    await a.checkpoints.create({ agent: "a" });
    for await (const { id } of a.conversations.list({ agent: "a" })) await a.conversations.delete(id);
    const before = await agentOf(b, "a");
    // It came from there: later changes of the original are not imported.
    expect((await b.import(await a.export({ agent: "a" }).bytes())).skipped).toContain("a");
    assert.deepEqual(await agentOf(b, "a"), before);
    await b.import(await a.export({ agent: "a" }).bytes(), { existing: "skip" });
    assert.deepEqual(await agentOf(b, "a"), before);
  });

  it("keep its checkpoints unchanged if the id of one of its conversations is taken", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    await fillWithOthers(b, "b");
    await b.conversations.create({ id: "a-empty", messages: [message.user("mine")] });
    expect(await b.import(a.export({ agent: "a" }), { existing: "skip" })).toMatchObject({ skipped: ["a-empty"] });
    const there = (await agentOf(a, "a"))["checkpoints"] as { past: unknown }[];
    const here = (await agentOf(b, "a"))["checkpoints"] as { past: unknown }[];
    assert.deepEqual(
      here.map(({ past }) => past),
      there.map(({ past }) => past),
    );
    expect((await b.conversations.load("a-empty"))?.messages).toEqual([message.user("mine")]);
  });
});

describe("the space of imported data", () => {
  it("is about that of one import after a second one and a compaction", async () => {
    const [a, once, twice] = [await open(), await open(), await open()];
    await fillAgent(a, "a");
    const said = Array.from({ length: 500 }, (_, n) => message.user(`${n} ${"x".repeat(500)}`));
    await a.conversations.create({ id: "long", agent: "a", messages: said });
    for (const sp of [once, twice]) await sp.import(a.export({ agent: "a" }));
    expect((await twice.import(a.export({ agent: "a" }))).skipped).toContain("a");
    for (const sp of [once, twice]) await sp.compact();
    expect(await twice.bytes()).toBeLessThan((await once.bytes()) * 1.05);
    assert.deepEqual(await agentOf(twice, "a"), await agentOf(a, "a"));
  });

  it("is freed when the data is deleted", async () => {
    let time = Date.now();
    const [a, b] = [await open(), await Savepoint.open("memory:", { now: () => time })];
    await b.session("stays").save(1);
    const empty = await b.bytes();
    await fillAgent(a, "a");
    await fillSession(a, "s");
    await b.import(a.export());
    await b.agents.delete("a");
    await b.sessions.delete("s");
    await b.compact();
    time += 2 * 3_600_000;
    await b.compact();
    expect(await b.bytes()).toBeLessThan(empty + 2000);
  });

  it("is freed after an import that was never finished", async () => {
    const [a, b] = [await open(), await open()];
    await b.session("stays").save(1);
    const empty = await b.bytes();
    await a.session("s").save({ list: Array.from({ length: 500 }, (_, n) => `${n} ${"x".repeat(500)}`) });
    const bytes = await a.export().bytes();
    await expect(b.import([bytes.subarray(0, bytes.length - 200)])).rejects.toMatchObject({ code: "DAMAGED" });
    await b.compact();
    expect(await b.bytes()).toBeLessThan(empty + 2000);
  });
});
