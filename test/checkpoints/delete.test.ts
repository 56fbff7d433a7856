import { describe, expect, it } from "vitest";
import { type AgentCheckpoint, type CheckpointInfo, defineAgent, message, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, codeOf, interruptIn, useLab, World } from "../run/lab.js";
import { AGENT, begin, everythingOf, FAST, idsIn, saveAgent, talk, texts } from "./agent-data.js";

async function countOf(sp: Savepoint): Promise<number> {
  const [{ checkpoints }, listed] = [await sp.stats(), await idsIn(sp.checkpoints.list())];
  expect(checkpoints).toBe(listed.length);
  return checkpoints;
}

describe.each(STORES)("deleting checkpoints of sessions on $name", (kind) => {
  const data = useData(kind);

  it("returns whether the checkpoint existed", async () => {
    const sp = await data.open(FAST);
    const { id } = await sp.session("s").save(1);
    await sp.session("s").save(2, { id: "chosen" });
    expect(await sp.checkpoints.delete("no")).toBe(false);
    expect(await sp.checkpoints.delete("s#9")).toBe(false);
    expect(await sp.checkpoints.delete(id)).toBe(true);
    expect(await sp.checkpoints.delete(id)).toBe(false);
    expect(await countOf(sp)).toBe(1);
    expect(await sp.checkpoints.delete("chosen")).toBe(true);
    expect(await sp.checkpoints.load("chosen")).toBeUndefined();
    expect(await countOf(sp)).toBe(0);
  });

  it("in the middle leaves the others linked, intact and usable for further saves", async () => {
    const sp = await data.open(FAST);
    const session = sp.session<{ list: number[] }>("s");
    const made: CheckpointInfo[] = [];
    const list: number[] = [];
    for (let n = 0; n < 7; n++) {
      list.push(n);
      made.push(await session.save({ list }, { label: `l${n}` }));
    }
    const id = (n: number): string => made[n]?.id ?? "";
    // A single one, then two neighbours.
    for (const n of [1, 3, 4]) expect(await sp.checkpoints.delete(id(n))).toBe(true);
    expect(await countOf(sp)).toBe(4);
    await sp.compact();
    for (const each of [sp, await data.open(FAST)]) {
      const again = each.session<{ list: number[] }>("s");
      const history = await again.history().all();
      expect(history.map((info) => info.id)).toEqual([6, 5, 2, 0].map(id));
      expect(history.map(({ parentId }) => parentId)).toEqual([id(5), id(2), id(0), undefined]);
      for (const n of [0, 2, 5, 6]) {
        const expected = Array.from({ length: n + 1 }, (_, at) => at);
        expect((await again.load(id(n)))?.state.list).toEqual(expected);
        expect((await again.load({ label: `l${n}` }))?.id).toBe(id(n));
      }
      for (const n of [1, 3, 4]) {
        expect(await again.load(id(n))).toBeUndefined();
        expect(await again.load({ seq: n })).toBeUndefined();
        expect(await again.load({ label: `l${n}` })).toBeUndefined();
        expect(await again.load({ step: n })).toBeUndefined();
        expect(await codeOf(again.rewind(id(n)))).toBe("CHECKPOINT_NOT_FOUND");
        expect(await codeOf(again.fork(id(n)))).toBe("CHECKPOINT_NOT_FOUND");
      }
      expect((await again.latest())?.state.list).toHaveLength(7);
    }
    const side = await session.fork(id(2), { branch: "side" });
    await side.append("/list", [100]);
    expect((await side.latest())?.state.list).toEqual([0, 1, 2, 100]);
    await session.append("/list", [7]);
    const { parentId } = await session.rewind(id(5));
    expect(parentId).toBe(id(5));
    expect((await session.latest())?.state.list).toEqual([0, 1, 2, 3, 4, 5]);
    await session.append("/list", [200]);
    await sp.compact();
    expect((await (await data.open(FAST)).session<{ list: number[] }>("s").latest())?.state.list.at(-1)).toBe(200);
  });

  it("that is the head lets the session continue from the previous one", async () => {
    const sp = await data.open(FAST);
    const other = await data.open(FAST);
    const session = sp.session<{ list: number[] }>("s");
    const a = await session.save({ list: [1] });
    const b = await session.save({ list: [1, 2] });
    const c = await session.save({ list: [1, 2, 3] });
    expect(await other.checkpoints.delete(c.id)).toBe(true);
    expect((await session.latest())?.state).toEqual({ list: [1, 2] });
    expect((await session.head())?.id).toBe(b.id);
    await sp.compact();
    const d = await session.append("/list", [4]);
    expect(d).toMatchObject({ parentId: b.id, seq: 3 });
    expect((await (await data.open(FAST)).session("s").latest())?.state).toEqual({ list: [1, 2, 4] });
    for (const { id } of [d, b]) await sp.checkpoints.delete(id);
    expect((await session.latest())?.id).toBe(a.id);
    expect(await countOf(sp)).toBe(1);
    expect(await sp.checkpoints.delete(a.id)).toBe(true);
    expect(await session.latest()).toBeUndefined();
    expect(await session.history().all()).toEqual([]);
    expect(await countOf(sp)).toBe(0);
    await sp.compact();
    expect(await session.save({ list: [9] })).toMatchObject({ parentId: undefined });
    expect((await (await data.open(FAST)).session("s").latest())?.state).toEqual({ list: [9] });
    expect(await countOf(sp)).toBe(1);
  });

  it("that is the head causes CONFLICT for another handle until it reads the branch again", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    const session = sp.session("s");
    await session.save(1);
    const { id } = await session.save(2);
    await other.checkpoints.delete(id);
    expect(await codeOf(session.save(3))).toBe("CONFLICT");
    await session.head();
    await session.save(3);
    expect((await other.session("s").history().all()).length).toBe(2);
  });

  it("that a branch starts from is rejected, in the middle or as the head of both", async () => {
    const sp = await data.open(FAST);
    const session = sp.session("s");
    await session.save(0);
    const a = await session.save(1);
    const b = await session.save(2);
    const side = await session.fork(a.id, { branch: "side" });
    expect(await codeOf(sp.checkpoints.delete(a.id))).toBe("CONFLICT");
    const s = await side.save(3);
    expect(await codeOf(sp.checkpoints.delete(a.id))).toBe("CONFLICT");
    await session.fork(b.id, { branch: "at head" });
    expect(await codeOf(sp.checkpoints.delete(b.id))).toBe("CONFLICT");
    expect(await countOf(sp)).toBe(4);
    // The branch's own checkpoint is deleted: the branch is then at its start.
    expect(await sp.checkpoints.delete(s.id)).toBe(true);
    expect((await side.latest())?.state).toBe(1);
    expect(await codeOf(sp.checkpoints.delete(a.id))).toBe("CONFLICT");
    await side.save(4);
    expect((await side.history().all()).map(({ parentId }) => parentId)[0]).toBe(a.id);
    expect(await sp.checkpoints.delete("s#0")).toBe(true);
    expect((await (await data.open(FAST)).session("s", { branch: "side" }).latest())?.state).toBe(4);
  });

  it("that a branch starts from is rejected if it is the head of another branch without later saves", async () => {
    const sp = await data.open(FAST);
    const session = sp.session("s");
    await session.save(0);
    const head = await session.save(1);
    const side = await session.fork(head.id, { branch: "side" });
    await side.save(2);
    expect(await codeOf(sp.checkpoints.delete(head.id))).toBe("CONFLICT");
    expect((await session.latest())?.state).toBe(1);
  });

  it("that is pinned is allowed, because it was asked for explicitly", async () => {
    const sp = await data.open(FAST);
    const session = sp.session("s");
    const a = await session.save(1, { pinned: true });
    const b = await session.save(2);
    await session.pin(b.id);
    await session.save(3);
    expect(await sp.checkpoints.delete(a.id)).toBe(true);
    expect(await sp.checkpoints.delete(b.id)).toBe(true);
    expect(await countOf(sp)).toBe(1);
    expect((await session.history().all()).map(({ parentId }) => parentId)).toEqual([undefined]);
  });

  it("works while other processes save and delete", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    const session = sp.session<number>("s");
    const ids: string[] = [];
    for (let n = 0; n < 10; n++) ids.push((await session.save(n)).id);
    const saving = (async () => {
      for (let n = 10; n < 30; n++) await session.save(n);
    })();
    const deleted = await Promise.all(ids.flatMap((id) => [other.checkpoints.delete(id), sp.checkpoints.delete(id)]));
    await saving;
    expect(deleted.filter(Boolean)).toHaveLength(10);
    const history = await session.history().all();
    expect(history).toHaveLength(20);
    expect(await countOf(sp)).toBe(20);
    for (const [at, { parentId }] of history.entries()) expect(parentId).toBe(history[at + 1]?.id);
  });
});

describe.each(STORES)("deleting checkpoints of agents on $name", (kind) => {
  const data = useData(kind);

  it("leaves the agent unchanged, even if the checkpoint is the newest or the only one", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    const only = await sp.checkpoints.create({ agent: AGENT });
    const everything = await everythingOf(sp);
    expect(await sp.checkpoints.delete(only.id)).toBe(true);
    expect(await everythingOf(sp)).toEqual(everything);
    expect(await sp.checkpoints.load(only.id)).toBeUndefined();
    expect(await codeOf(sp.checkpoints.restore(only.id))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await countOf(sp)).toBe(0);
    await sp.compact();
    expect(await everythingOf(await data.open(FAST))).toEqual(everything);

    const a = await sp.checkpoints.create({ agent: AGENT });
    expect(a.parentId).toBeUndefined();
    await talk(sp, "c", "more");
    const b = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    const c = await sp.checkpoints.create({ agent: AGENT });
    expect(await sp.checkpoints.delete(b.id)).toBe(true);
    expect((await sp.checkpoints.list().all()).map(({ parentId }) => parentId)).toEqual([a.id, undefined]);
    expect(await sp.checkpoints.delete(c.id)).toBe(true);
    expect(await countOf(sp)).toBe(1);
    expect((await (await data.open(FAST)).agents.load(AGENT))?.state).toEqual({ counter: 2 });
    expect((await sp.agents.load(AGENT))?.version).toBe(2);
    await sp.compact();
    const d = await sp.checkpoints.create({ agent: AGENT });
    expect(d.parentId).toBe(a.id);
    await sp.checkpoints.restore(a.id);
    expect(await texts(sp, "c")).toEqual(["hello"]);
    await sp.checkpoints.restore(d.id);
    expect(await texts(sp, "c")).toEqual(["hello", "more"]);
    expect(((await sp.checkpoints.load(d.id)) as AgentCheckpoint).state.state).toEqual({ counter: 2 });
  });

  it("includes those of a restore: the agent stays restored", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    await begin(sp, "c", "hello");
    const { id } = await sp.checkpoints.create({ agent: AGENT });
    await saveAgent(sp, 2);
    await sp.conversations.delete("c");
    const { before, checkpoint } = await sp.checkpoints.restore(id);
    const everything = await everythingOf(sp);
    for (const each of [id, checkpoint.id, before.id]) expect(await sp.checkpoints.delete(each)).toBe(true);
    await sp.compact();
    expect(await everythingOf(await data.open(FAST))).toEqual(everything);
    expect(await texts(sp, "c")).toEqual(["hello"]);
    expect(await countOf(sp)).toBe(0);
    expect((await sp.agents.update(AGENT, { state: { counter: 5 } })).version).toBe(4);
  });
});

describe.each(ALL_KINDS)("deleting checkpoints of runs on $name", (kind) => {
  const lab = useLab(kind);

  function worker(world: World) {
    return defineAgent({
      name: "worker",
      strategy: "afterToolCall",
      loop: false,
      initial: (_input: string) => ({ messages: [message.user("go")] }),
      async step(run) {
        const call = { id: `c${run.step}`, name: "t" };
        run.state.messages.push(message.assistant("", [call]));
        const result = await run.tool(call, () => world.do(`tool ${run.step}`, "result"));
        run.state.messages.push(message.toolResult(call.id, result));
        await run.effect("after", () => world.do(`after ${run.step}`));
        return run.step === 2 ? run.complete("done") : undefined;
      },
    });
  }

  it("rejects the boundary of an unfinished step and any session that is running; the run still completes", async () => {
    const world = new World();
    const sp = await lab.open();
    await interruptIn(lab, sp, worker(world), "go", world, "after 2");
    const other = await lab.open();
    const history = await other.checkpoints.list({ session: "s" }).all();
    const triggers = history.map(({ trigger }) => trigger);
    expect(triggers[0]).toBe("toolCall");
    expect(await codeOf(other.checkpoints.delete(history[0]?.id ?? ""))).toBe("CONFLICT");
    const boundary = history.find(({ trigger }) => trigger !== "toolCall");
    expect(await codeOf(other.checkpoints.delete(boundary?.id ?? ""))).toBe("CONFLICT");
    expect(await countOf(other)).toBe(history.length);
    const result = await other.run(worker(world), { session: "s" });
    expect(result).toMatchObject({ status: "completed", output: "done" });
    expect([world.count("tool 1"), world.count("tool 2")]).toEqual([1, 1]);
  });

  it("rejects the boundary of a checkpoint in mid-step until that checkpoint is deleted", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(worker(world), { session: "s", input: "go" });
    const history = (await sp.checkpoints.list({ session: "s" }).all()).slice().reverse();
    const at = history.findIndex(({ trigger }) => trigger === "toolCall");
    const [boundary, middle] = [history[at - 1]?.id ?? "", history[at]?.id ?? ""];
    expect(await codeOf(sp.checkpoints.delete(boundary))).toBe("CONFLICT");
    expect(await sp.checkpoints.delete(middle)).toBe(true);
    expect(await sp.checkpoints.delete(boundary)).toBe(true);
    expect(await countOf(sp)).toBe(history.length - 2);
    await sp.compact();
    const left = await sp.session("s").history().all();
    for (const { id } of left) expect(await sp.checkpoints.load(id)).toBeDefined();
    expect((await sp.run(worker(world), { session: "s" })).status).toBe("completed");
  });
});
