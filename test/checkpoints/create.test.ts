import { describe, expect, it } from "vitest";
import { type AgentCheckpoint, message } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { codeOf } from "../run/lab.js";
import { AGENT, begin, everythingOf, FAST, idsIn, saveAgent, talk, texts } from "./agent-data.js";
import { runs } from "../support/runs.js";

describe.each(STORES)("taking checkpoints of agents on $name", (kind) => {
  const data = useData(kind);

  it("keeps the agent with all its fields, and its conversations", async () => {
    const sp = await data.open(FAST);
    const agent = {
      id: AGENT,
      name: "Test",
      type: "gpt-4",
      systemPrompt: "Be kind.",
      capabilities: ["search", "code"],
      config: { temperature: 0, deep: { list: [1, 2] } },
      state: { counter: 42, when: new Date(7), bytes: new Uint8Array(5000).fill(3) },
      metadata: { team: "a" },
    };
    const saved = await sp.agents.save(agent);
    await sp.conversations.create({ id: "empty", agent: AGENT });
    await sp.conversations.create({
      id: "full",
      agent: AGENT,
      title: "Mine",
      tags: ["a", "b"],
      archived: true,
      metadata: { k: 1 },
      messages: [message.system("s"), message.user("u"), message.assistant("a")],
    });
    await sp.conversations.create({ id: "of another", agent: "agent-2", messages: [message.user("x")] });
    const infos = await sp.conversations.list({ agent: AGENT }).all();
    const { id } = await sp.checkpoints.create({ agent: AGENT });

    await saveAgent(sp, 0);
    await talk(sp, "full", "later");
    await sp.conversations.delete("empty");
    const loaded = (await (await data.open(FAST)).checkpoints.load(id)) as AgentCheckpoint;
    expect(loaded.state).toMatchObject({ ...agent, createdAt: saved.createdAt, version: 1 });
    expect(loaded.state.activeConversations).toEqual(["empty"]);
    const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);
    expect([...loaded.conversations].slice().sort(byId)).toEqual(infos.slice().sort(byId));
    expect(await texts(sp, "full", id)).toEqual(["s", "u", "a"]);
    expect(await texts(sp, "empty", id)).toEqual([]);
    expect(await texts(sp, "of another", id)).toBeUndefined();
  });

  it("keeps the given fields, and uses defaults for the others", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const metadata = { phase: "x", at: new Date(5), big: 3n, agent: "mine", own: { own: 1 } };
    const said = { label: "a label", description: "why\n", kind: "preOperation", pinned: true, trigger: "t" } as const;
    const made = await sp.checkpoints.create({ agent: AGENT, ...said, metadata });
    expect(made).toMatchObject({ ...said, metadata, agent: AGENT, sessionId: undefined });
    expect(await sp.checkpoints.load(made.id)).toMatchObject({ ...said, metadata });
    expect((await sp.checkpoints.list({ agent: AGENT }).all())[0]).toMatchObject({ ...said, metadata });
    const plain = await sp.checkpoints.create({ agent: AGENT });
    expect(plain).toMatchObject({ kind: "manual", pinned: false, metadata: {}, parentId: made.id });
    expect([plain.label, plain.description, plain.trigger]).toEqual([undefined, undefined, undefined]);
  });

  it("keeps no reference to the caller's objects", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const metadata = { list: [1] };
    const making = sp.checkpoints.create({ agent: AGENT, metadata });
    metadata.list.push(2);
    expect((await sp.checkpoints.load((await making).id))?.metadata).toEqual({ list: [1] });
  });

  it("rejects a missing agent and invalid fields, and then stores nothing", async () => {
    const sp = await data.open(FAST);
    await sp.session("s", { agent: "nobody" }).save(1);
    await sp.conversations.create({ id: "c", agent: "nobody" });
    expect(await codeOf(sp.checkpoints.create({ agent: "nobody" }))).toBe("AGENT_NOT_FOUND");
    await saveAgent(sp, 1);
    for (const wrong of [{ kind: "odd" }, { label: "" }, { description: 5 }, { label: "a\u0000" }]) {
      const code = await codeOf(sp.checkpoints.create({ agent: AGENT, ...wrong } as never));
      expect(code, JSON.stringify(wrong)).toMatch(/^INVALID_/);
    }
    expect(await codeOf(sp.checkpoints.create({ agent: "" }))).not.toBe("none");
    const bytes = new Uint8Array(100_000);
    expect(await codeOf(sp.checkpoints.create({ agent: AGENT, metadata: { bytes } }))).toBe("INVALID_ARGUMENT");
    expect(await sp.checkpoints.list({ agent: AGENT }).all()).toEqual([]);
    expect((await sp.stats({ agent: AGENT })).checkpoints).toBe(0);
  });

  it("does not change the agent", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    const [before, version] = [await everythingOf(sp), (await sp.agents.load(AGENT))?.version];
    await sp.checkpoints.create({ agent: AGENT });
    expect(await everythingOf(sp)).toEqual(before);
    expect((await sp.agents.load(AGENT))?.version).toBe(version);
  });

  it("writes little for an agent with many conversations if little has changed", async () => {
    const count = runs(500, 260);
    const sp = await data.open(FAST);
    await saveAgent(sp, 1, { state: { text: "x".repeat(50_000) } });
    for (let n = 0; n < count; n++) await begin(sp, `c${n}`, `hello ${n}`);
    const first = await sp.checkpoints.create({ agent: AGENT });
    const same = await sp.checkpoints.create({ agent: AGENT });
    await talk(sp, "c250", "more");
    const one = await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.delete("c100");
    await sp.conversations.rename("c101", "another");
    const two = await sp.checkpoints.create({ agent: AGENT });
    expect(first.storedBytes).toBeGreaterThan(20_000);
    for (const { storedBytes } of [same, one, two]) expect(storedBytes).toBeLessThan(1000);
    // Of another process, too, which has to read what is there.
    const other = await data.open(FAST);
    const again = await other.checkpoints.create({ agent: AGENT });
    await talk(other, "c251", "more");
    const changed = await other.checkpoints.create({ agent: AGENT });
    expect(again.storedBytes).toBeLessThan(1000);
    expect(changed.storedBytes).toBeLessThan(1000);
    expect(((await sp.checkpoints.load(changed.id)) as AgentCheckpoint).conversations).toHaveLength(count - 1);
  });

  it("captures all conversations at one moment, while other processes append to them", async () => {
    const sp = await data.open(FAST);
    const other = await data.open(FAST);
    await saveAgent(sp, 0);
    await begin(sp, "a");
    await begin(sp, "b");
    // Always to `a` first: at no moment is there more in `b`.
    const writing = (async () => {
      for (let n = 0; n < 60; n++) {
        await talk(other, "a", `${n}`);
        await talk(other, "b", `${n}`);
      }
    })();
    const made: string[] = [];
    for (let n = 0; n < 12; n++) made.push((await sp.checkpoints.create({ agent: AGENT })).id);
    await writing;
    let last = 0;
    for (const id of made) {
      const [a = [], b = []] = [await texts(sp, "a", id), await texts(sp, "b", id)];
      expect(a).toEqual(Array.from({ length: a.length }, (_, n) => `${n}`));
      expect(b).toEqual(a.slice(0, b.length));
      expect(a.length - b.length).toBeLessThanOrEqual(1);
      expect(a.length).toBeGreaterThanOrEqual(last);
      last = a.length;
    }
    expect(made).toHaveLength(12);
  });

  it("works many times at once while the agent is saved: each checkpoint holds a consistent agent, none is lost", async () => {
    const savepoints = [await data.open(FAST), await data.open(FAST)];
    const [sp] = savepoints as [(typeof savepoints)[0]];
    await saveAgent(sp, 0, { config: { same: 0 } });
    const work = savepoints.flatMap((each, who) => [
      ...Array.from({ length: 5 }, (_, n) => each.checkpoints.create({ agent: AGENT, label: `${who}-${n}` })),
      ...Array.from({ length: 5 }, (_, n) => {
        const value = who * 10 + n;
        return each.agents.save({ id: AGENT, name: "Test", state: { counter: value }, config: { same: value } });
      }),
    ]);
    await Promise.all(work);
    const all = (await sp.checkpoints.list({ agent: AGENT }).all()) as { id: string; label: string }[];
    const expected = [0, 1].flatMap((who) => [0, 1, 2, 3, 4].map((n) => `${who}-${n}`));
    expect(
      all
        .map(({ label }) => label)
        .slice()
        .sort(),
    ).toEqual(expected);
    for (const { id } of all) {
      const { state } = (await sp.checkpoints.load(id)) as AgentCheckpoint;
      expect((state.state as { counter: number }).counter).toBe(state.config["same"]);
    }
    expect((await sp.agents.load(AGENT))?.version).toBe(11);
    expect((await sp.stats({ agent: AGENT })).checkpoints).toBe(10);
  });

  it("includes conversations with any id", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const ids = ["__proto__", "constructor", "a/b~0~1", "../x", "*", "1", "0", "a#1", "é😀", "with space ", "latest"];
    for (const id of ids) await begin(sp, id, `in ${id}`);
    const { id: checkpoint } = await sp.checkpoints.create({ agent: AGENT });
    const before = await everythingOf(sp);
    for (const id of ids) await sp.conversations.delete(id);
    const { recreated } = await sp.checkpoints.restore(checkpoint);
    expect([...recreated].slice().sort()).toEqual(ids.slice().sort());
    const after = await everythingOf(sp);
    for (const id of ids) expect(await texts(sp, id), id).toEqual([`in ${id}`]);
    expect(Object.keys(after.conversations).slice().sort()).toEqual(Object.keys(before.conversations).slice().sort());
    expect(await idsIn(sp.conversations.list({ agent: AGENT }))).toHaveLength(ids.length);
  });

  it("assigns seqs and parents, and returns objects that the caller may change", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    const a = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    await saveAgent(sp, 3);
    const b = await sp.checkpoints.create({ agent: AGENT });
    expect(b.seq).toBeGreaterThan(a.seq);
    expect(b.parentId).toBe(a.id);
    const loaded = (await sp.checkpoints.load(b.id)) as AgentCheckpoint;
    (loaded.state.state as { counter: number }).counter = 99;
    expect(((await sp.checkpoints.load(b.id)) as AgentCheckpoint).state.state).toEqual({ counter: 3 });
    expect((await sp.agents.load(AGENT))?.state).toEqual({ counter: 3 });
  });
});
