import { describe, expect, it } from "vitest";
import { message, type Savepoint, type Stats } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";

type Counts = Omit<Stats, "bytes">;

const NOTHING: Counts = { agents: 0, conversations: 0, messages: 0, sessions: 0, checkpoints: 0 };

/** Checks that all given Savepoints, and what they list, agree with the expected counts. */
async function expectCounts(sps: readonly Savepoint[], expected: Partial<Counts>, agent?: string): Promise<void> {
  const whole = { ...NOTHING, ...expected };
  const of = agent === undefined ? {} : { agent };
  for (const sp of sps) {
    const { bytes, ...counts } = await sp.stats(of);
    expect(counts).toEqual(whole);
    expect(bytes).toBeGreaterThanOrEqual(0);
    const conversations = await sp.conversations.list(of).all();
    const counted = {
      conversations: conversations.length,
      messages: conversations.reduce((sum, { messageCount }) => sum + messageCount, 0),
      sessions: (await sp.sessions.list(of).all()).length,
      checkpoints: (await sp.checkpoints.list(of).all()).length,
    };
    expect(counted).toEqual({
      conversations: whole.conversations,
      messages: whole.messages,
      sessions: whole.sessions,
      checkpoints: whole.checkpoints,
    });
  }
}

describe.each(STORES)("stats on $name", (kind) => {
  const data = useData(kind);

  it("count every change of conversations", async () => {
    const sp = await data.open();
    const sps = [sp, await data.open()];
    await expectCounts(sps, {});
    await sp.conversations.create({ id: "c", messages: [message.user("1"), message.user("2")] });
    await expectCounts(sps, { conversations: 1, messages: 2 });
    await sps[1]?.conversations.append("c", [message.user("3"), message.user("4")]);
    await expectCounts(sps, { conversations: 1, messages: 4 });
    await sp.conversations.save({ id: "c", messages: [message.user("4"), message.user("1"), message.user("new")] });
    await expectCounts(sps, { conversations: 1, messages: 3 });
    await sp.conversations.save({ id: "c", messages: [] });
    await expectCounts(sps, { conversations: 1 });
    await sp.conversations.save({ id: "d", messages: [message.user("x")] });
    await sp.conversations.archive("d");
    await sp.conversations.rename("d", "y");
    await sp.conversations.tag("d", ["z"]);
    await expectCounts(sps, { conversations: 2, messages: 1 });
    await expect(sp.conversations.create({ id: "d" })).rejects.toMatchObject({ code: "CONFLICT" });
    await sps[1]?.conversations.delete("d");
    await expectCounts(sps, { conversations: 1 });
    await sp.compact();
    await sp.conversations.delete("c");
    await expectCounts(sps, {});
  });

  it("count every change of session checkpoints", async () => {
    const sp = await data.open();
    const sps = [sp, await data.open()];
    const session = sp.session<{ n: number }>("s", { agent: "a" });
    const first = await session.save({ n: 0 });
    await session.update(() => ({ n: 1 }));
    await session.save({ n: 2 }, { id: "mine" });
    await session.save({ n: 2 }, { id: "mine" }); // the same save again, as after a lost response
    await expectCounts(sps, { sessions: 1, checkpoints: 3 });
    await session.rewind(first.id); // saves the previous head, then rewinds
    await expectCounts(sps, { sessions: 1, checkpoints: 5 });
    await session.fork(first.id, { branch: "at" }); // one record
    await expectCounts(sps, { sessions: 1, checkpoints: 5 });
    const forked = await session.fork(first.id, { branch: "with", state: { n: 9 } });
    await forked.save({ n: 10 });
    await expectCounts(sps, { sessions: 1, checkpoints: 7 });
    expect(await sp.checkpoints.delete("mine")).toBe(true);
    expect(await sp.checkpoints.delete("mine")).toBe(false);
    await expectCounts(sps, { sessions: 1, checkpoints: 6 });
    const handle = sp.session("s");
    expect(await handle.clear()).toBe(6);
    await expectCounts(sps, { sessions: 1 });
    await handle.save({ n: 1 });
    await expectCounts(sps, { sessions: 1, checkpoints: 1 });
    await sps[1]?.sessions.delete("s");
    await expectCounts(sps, {});
  });

  it("count every change of agents and their checkpoints", async () => {
    const sp = await data.open();
    const sps = [sp, await data.open()];
    await sp.agents.save({ id: "a", name: "A" });
    await sp.agents.save({ id: "a", name: "A2" });
    await sp.agents.update("a", { name: "A3" });
    await expectCounts(sps, { agents: 1 });
    await sp.conversations.create({ id: "c", agent: "a", messages: [message.user("1")] });
    const cp = await sp.checkpoints.create({ agent: "a" });
    await sp.conversations.append("c", [message.user("2")]);
    await sp.conversations.create({ id: "d", agent: "a" });
    await expectCounts(sps, { agents: 1, conversations: 2, messages: 2, checkpoints: 1 });
    const { before } = await (sps[1] as Savepoint).checkpoints.restore(cp.id);
    await expectCounts(sps, { agents: 1, conversations: 1, messages: 1, checkpoints: 3 });
    await sp.checkpoints.delete(before.id);
    await expectCounts(sps, { agents: 1, conversations: 1, messages: 1, checkpoints: 2 });
    await sp.agents.delete("a");
    await expectCounts(sps, {});
  });

  it("of single agents are separate, and add up", async () => {
    const sp = await data.open();
    for (const [agent, count] of [
      ["a", 1],
      ["ab", 2],
      ["b", 3],
    ] as const) {
      await sp.agents.save({ id: agent, name: agent });
      for (let n = 0; n < count; n++) {
        await sp.conversations.create({ agent, messages: [message.user("x"), message.user("y")] });
        await sp.session(`${agent}${n}`, { agent }).save(n);
        await sp.checkpoints.create({ agent });
      }
      await expectCounts(
        [sp],
        { agents: 1, conversations: count, messages: 2 * count, sessions: count, checkpoints: 2 * count },
        agent,
      );
    }
    await sp.conversations.create({ messages: [message.user("nobody's")] });
    await sp.session("nobody's").save(1);
    await expectCounts([sp], { agents: 3, conversations: 7, messages: 13, sessions: 7, checkpoints: 13 });
    await expectCounts([sp], {}, "nobody");
    await sp.agents.delete("ab");
    await expectCounts([sp], {}, "ab");
    expect((await sp.stats({ agent: "ab" })).bytes).toBe(0);
    await expectCounts([sp], { agents: 1, conversations: 1, messages: 2, sessions: 1, checkpoints: 2 }, "a");
  });

  it("report more bytes for an agent that has more data", async () => {
    const sp = await data.open();
    await sp.agents.save({ id: "a", name: "A" });
    const sizes = [(await sp.stats({ agent: "a" })).bytes];
    const noise = (n: number): string => Array.from({ length: 1500 }, (_, k) => ((n + k) * 7919).toString(36)).join("");
    await sp.conversations.create({ agent: "a", messages: [message.user(noise(1))] });
    sizes.push((await sp.stats({ agent: "a" })).bytes);
    await sp.session("s", { agent: "a" }).save({ text: noise(5000) });
    sizes.push((await sp.stats({ agent: "a" })).bytes);
    await sp.agents.update("a", { state: { text: noise(9000) } });
    sizes.push((await sp.stats({ agent: "a" })).bytes);
    const grown = sizes.slice(1).map((size, index) => size - (sizes[index] as number));
    for (const growth of grown) expect(growth).toBeGreaterThan(1000);
    expect(sizes[0]).toBeGreaterThan(0);
    expect((await sp.stats()).bytes).toBeGreaterThan(sizes[3] as number);
  });

  it("are exact after concurrent writes of many processes", async () => {
    const sps = [await data.open(), await data.open(), await data.open()];
    await sps[0]?.conversations.create({ id: "c" });
    await Promise.all(
      sps.flatMap((sp, index) =>
        Array.from({ length: 10 }, async (_, n) => {
          await sp.conversations.append("c", [message.user("x")]);
          await sp.conversations.create({ id: `${index} ${n}`, agent: "a", messages: [message.user("y")] });
          await sp.session(`s ${index} ${n}`, { agent: "a" }).save(n);
        }),
      ),
    );
    await expectCounts(sps, { conversations: 31, messages: 60, sessions: 30, checkpoints: 30 });
    await expectCounts(sps, { conversations: 30, messages: 30, sessions: 30, checkpoints: 30 }, "a");
  });
});
