/** Checkpoints of an agent read only the conversations that have changed since the newest checkpoint, and still contain all of them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AgentCheckpoint, message, Savepoint } from "../../src/index.js";
import { agentHistoryId, changedConversationKey, rowKey, snapshotBaseKey } from "../../src/records/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import type { Store } from "../../src/store.js";
import { STORES, useData } from "../model/stores.js";
import { runs } from "../support/runs.js";
import { chooseSeed } from "../support/seed.js";

const AGENT = "a";
const WHAT = ["append", "create", "delete", "rename", "replace", "archive", "restore", "agent", "forget"] as const;

/** A store in memory, and how many records its reads have returned. */
function openCountingStore(): { store: Store; count: { records: number } } {
  const store = openMemoryStore();
  const count = { records: 0 };
  const [get, list] = [store.get.bind(store), store.list.bind(store)];
  store.get = async (keys) => {
    count.records += keys.length;
    return get(keys);
  };
  store.list = async (range, options) => {
    const found = await list(range, options);
    count.records += found.length;
    return found;
  };
  return { store, count };
}

/** Fails unless the checkpoint has exactly the conversations that the agent has now. */
async function expectComplete(sp: Savepoint, id: string): Promise<void> {
  const { conversations } = (await sp.checkpoints.load(id)) as AgentCheckpoint;
  const now = await sp.conversations.list({ agent: AGENT }).all();
  expect(new Map(conversations.map((each) => [each.id, each]))).toEqual(new Map(now.map((each) => [each.id, each])));
}

describe("a checkpoint of an agent", () => {
  it("reads no records of unchanged conversations", async () => {
    const reads = new Map<number, number[]>();
    for (const conversations of [10, 400]) {
      const { store, count } = openCountingStore();
      const sp = await Savepoint.open(store);
      await sp.agents.save({ id: AGENT, name: "A" });
      for (let n = 0; n < conversations; n++) {
        await sp.conversations.create({ id: `c${n}`, agent: AGENT, messages: [message.user(`${n}`)] });
      }
      await sp.checkpoints.create({ agent: AGENT });
      const measured: number[] = [];
      for (const change of [undefined, "c3", undefined]) {
        if (change !== undefined) await sp.conversations.append(change, [message.user("more")]);
        count.records = 0;
        await sp.checkpoints.create({ agent: AGENT });
        measured.push(count.records);
      }
      await sp.agents.save({ id: AGENT, name: "B" });
      count.records = 0;
      await sp.checkpoints.create({ agent: AGENT });
      measured.push(count.records);
      reads.set(conversations, measured);
      await sp.close();
    }
    expect(reads.get(400)).toEqual(reads.get(10));
    expect(Math.max(...(reads.get(400) ?? []))).toBeLessThan(40);
  });

  it("reads all conversations again if the checkpoint with their snapshots was removed", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store);
    await sp.agents.save({ id: AGENT, name: "A" });
    await sp.conversations.create({ id: "c", agent: AGENT, messages: [message.user("1")] });
    const { id, seq } = await sp.checkpoints.create({ agent: AGENT });
    await sp.agents.save({ id: AGENT, name: "B" });
    await sp.checkpoints.delete(id);
    const [session] = await store.get([`s\t${agentHistoryId(AGENT)}`]);
    const { n } = JSON.parse((session as { value: string }).value) as { n: number };
    expect(await store.get([rowKey(n, seq)])).toEqual([undefined]);
    const next = await sp.checkpoints.create({ agent: AGENT });
    await expectComplete(sp, next.id);
    await sp.close();
  });

  it("has conversations as they were at one moment, even if one changes after the changed ones were listed", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store);
    await sp.agents.save({ id: AGENT, name: "A" });
    for (const id of ["a", "b", "last"]) await sp.conversations.create({ id, agent: AGENT });
    await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.append("last", [message.user("a change")]);
    // In each attempt to commit, another conversation and then the last one change after the marks were listed.
    const later = ["a", "b"];
    let isFirstList = true;
    const [list, commit] = [store.list.bind(store), store.commit.bind(store)];
    store.commit = (given) => {
      if (given.puts?.some(({ key }) => key === snapshotBaseKey(AGENT))) isFirstList = true;
      return commit(given);
    };
    store.list = async (range, options) => {
      const found = await list(range, options);
      if (!isFirstList || !found.some(({ key }) => key === changedConversationKey(AGENT, "last"))) return found;
      isFirstList = false;
      for (const id of [...later.splice(0, 1), "last"]) await sp.conversations.append(id, [message.user("later")]);
      return found;
    };
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    const { conversations } = (await sp.checkpoints.load(id)) as AgentCheckpoint;
    const [a = 0, b = 0, last = 0] = conversations.map(({ messageCount }) => messageCount);
    expect(a).toBe(1);
    expect(last).toBe(1 + a + b);
    await sp.close();
  });

  it("that misses the mark of a change is found by verify and fixed by repair", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store);
    await sp.agents.save({ id: AGENT, name: "A" });
    for (const id of ["c", "d"]) await sp.conversations.create({ id, agent: AGENT, messages: [message.user("1")] });
    await sp.checkpoints.create({ agent: AGENT });
    await sp.conversations.append("c", [message.user("2")]);
    expect((await sp.verify()).ok).toBe(true);
    await store.commit({ deletes: [changedConversationKey(AGENT, "c")] });
    expect((await sp.verify()).problems).toMatchObject([{ kind: "structure", conversationId: "c", agent: AGENT }]);
    expect((await sp.repair()).ok).toBe(true);
    await expectComplete(sp, (await sp.checkpoints.create({ agent: AGENT })).id);
    await sp.close();
  });

  it("after a repair reads all conversations, because the repair may have restored older ones", async () => {
    const store = openMemoryStore();
    const sp = await Savepoint.open(store);
    await sp.agents.save({ id: AGENT, name: "A" });
    await sp.conversations.create({ id: "c", agent: AGENT, messages: [message.user("1")] });
    await sp.checkpoints.create({ agent: AGENT });
    await store.commit({ deletes: await keysOf(store, "k") });
    await sp.repair();
    expect(await store.get([snapshotBaseKey(AGENT)])).toEqual([undefined]);
    await sp.close();
  });
});

async function keysOf(store: Store, prefix: string): Promise<string[]> {
  return (await store.list({ from: prefix, to: `${prefix}~` }, { limit: 100 })).map(({ key }) => key);
}

describe.each(STORES)("checkpoints of an agent on $name", (kind) => {
  const data = useData(kind);

  it("contain all conversations after any operations of two processes", async () => {
    const step = fc.record({
      by: fc.nat(1),
      what: fc.constantFrom(...WHAT, "checkpoint", "checkpoint", "checkpoint"),
      id: fc.constantFrom("x", "y", "z"),
      pick: fc.nat(20),
    });
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
        const sps = [await data.open({ durability: "process" }), await data.open({ durability: "process" })] as const;
        const ids = (id: string): string => `${round}-${id}`;
        round++;
        await sps[0].agents.delete(AGENT);
        await sps[0].agents.save({ id: AGENT, name: "A" });
        for (const id of ["x", "y", "z"]) await sps[0].conversations.create({ id: ids(id), agent: AGENT });
        const checkpoints: string[] = [];
        for (const { by, what, id: name, pick } of [...steps, { by: 0, what: "checkpoint", id: "x", pick: 0 }]) {
          const sp = sps[by as 0 | 1];
          const id = ids(name);
          const exists = (await sp.conversations.load(id)) !== undefined;
          if (what === "create" && !exists) await sp.conversations.create({ id, agent: AGENT });
          if (what === "append" && exists) await sp.conversations.append(id, [message.user(`${pick}`)]);
          if (what === "rename" && exists) await sp.conversations.rename(id, `title ${pick}`);
          if (what === "archive" && exists) await sp.conversations.archive(id);
          if (what === "replace" && exists)
            await sp.conversations.save({ id, agent: AGENT, messages: [message.user("r")] });
          if (what === "delete") await sp.conversations.delete(id);
          if (what === "agent") await sp.agents.save({ id: AGENT, name: `${pick}` });
          const target = checkpoints[pick % Math.max(1, checkpoints.length)];
          if (what === "restore" && target !== undefined) await sp.checkpoints.restore(target);
          if (what === "forget" && target !== undefined) {
            const gone = await sp.checkpoints.delete(target).then(
              () => true,
              () => false,
            );
            if (gone) checkpoints.splice(checkpoints.indexOf(target), 1);
          }
          if (what === "checkpoint") {
            const created = await sp.checkpoints.create({ agent: AGENT });
            checkpoints.push(created.id);
            await expectComplete(sp, created.id);
          }
        }
        expect((await sps[0].verify()).problems).toEqual([]);
        await Promise.all(sps.map((sp) => sp.close()));
      }),
      { numRuns: runs(50), seed: chooseSeed() },
    );
  });

  it("have conversations as they were at one moment, while another process appends to them", async () => {
    const [writer, reader] = [await data.open(), await data.open()];
    await writer.agents.save({ id: AGENT, name: "A" });
    const ids = ["one", "two", "three"];
    for (const id of ids) await writer.conversations.create({ id, agent: AGENT });
    let isDone = false;
    const appending = (async () => {
      for (let n = 0; n < 60; n++) for (const id of ids) await writer.conversations.append(id, [message.user(`${n}`)]);
      isDone = true;
    })();
    while (!isDone) {
      const { id } = await reader.checkpoints.create({ agent: AGENT });
      const { conversations } = (await reader.checkpoints.load(id)) as AgentCheckpoint;
      const counts = conversations.map(({ messageCount }) => messageCount);
      // Messages are appended to the conversations in turn, so that an earlier one has at most one more than a later one.
      expect(counts).toEqual([...counts].sort((a, b) => b - a));
      expect((counts[0] as number) - (counts[2] as number)).toBeLessThanOrEqual(1);
    }
    await appending;
    await expectComplete(reader, (await reader.checkpoints.create({ agent: AGENT })).id);
  });
});
