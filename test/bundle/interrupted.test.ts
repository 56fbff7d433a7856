/** Imports that are interrupted, or that run while other processes use the store: in the end everything is stored once. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { FAST } from "../checkpoints/agent-data.js";
import { useData } from "../model/stores.js";
import { Cut, cutAt, importWithPause, lineByLine, placesOf } from "./bytes.js";
import { agentOf, fillAgent, fillSession, fillStore, fillWithOthers, PLACES, sessionOf, wholeOf } from "./whole.js";

const open = (): Promise<Savepoint> => Savepoint.open("memory:", { on: { damage: () => {} } });

/** A session with many rows, which are written in several commits. */
async function fillLong(sp: Savepoint, id: string, count = 600): Promise<void> {
  const session = sp.session<{ list: unknown[] }>(id);
  await session.save({ list: Array.from({ length: 20 }, (_, n) => `${n} ${"x".repeat(80)}`) });
  for (let n = 1; n < count; n++) await session.append("/list", [n]);
}

describe.each(PLACES)("an import into $name", (kind) => {
  const data = useData(kind);

  it("that is cut off at many places resumes with the same bundle", async () => {
    const source = await open();
    await fillStore(source);
    const bytes = await source.export().bytes();
    const before = await wholeOf(source);
    const sp = await data.open(FAST);
    await fillWithOthers(sp, "other");
    const others = await agentOf(sp, "other-agent");
    for (let part = 1; part < 24; part++) {
      const cut = sp.import(cutAt(bytes, Math.floor((bytes.length * part) / 24)));
      await expect(cut).rejects.toBeInstanceOf(Cut);
    }
    await (await data.open(FAST)).import(bytes);
    const fresh = await data.open(FAST);
    assert.deepEqual(await agentOf(fresh, "a"), (before["agents"] as Record<string, unknown>)["a"]);
    for (const id of ["s", "cleared", "a-session"]) {
      assert.deepEqual(await sessionOf(fresh, id), (before["sessions"] as Record<string, unknown>)[id]);
    }
    assert.deepEqual(await agentOf(fresh, "other-agent"), others);
  });

  it("that is cut off, with a compaction after each cut, resumes with the same bundle", async () => {
    const source = await open();
    await fillAgent(source, "a");
    await fillLong(source, "long");
    const bytes = await source.export().bytes();
    const sp = await data.open(FAST);
    await sp.session("own").save(1);
    for (const part of [0.1, 0.35, 0.6, 0.8, 0.95, 0.999]) {
      await expect(sp.import(cutAt(bytes, Math.floor(bytes.length * part)))).rejects.toBeInstanceOf(Cut);
      await sp.compact();
    }
    await sp.import(bytes);
    for (let turn = 0; turn < 2; turn++) {
      assert.deepEqual(await agentOf(sp, "a"), await agentOf(source, "a"));
      assert.deepEqual(await sp.session("long").latest(), await source.session("long").latest());
      expect(await sp.session("long").history().all()).toHaveLength(600);
      await sp.compact();
    }
  });
});

describe("while a bundle is imported", () => {
  it("a compaction does not free the first rows of a long session", async () => {
    const [a, b] = [await open(), await open()];
    await fillLong(a, "long");
    const bytes = await a.export().bytes();
    await importWithPause(
      b,
      bytes,
      (line) => line["row"] === 590,
      () => b.compact(),
    );
    expect(await b.session("long").history().all()).toHaveLength(600);
    assert.deepEqual(await b.session("long").latest(), await a.session("long").latest());
  });

  it("a compaction does not free items that only checkpoints later in the bundle refer to", async () => {
    const [a, b] = [await open(), await open()];
    await fillAgent(a, "a");
    const bytes = await a.export().bytes();
    expect(placesOf(bytes, "end").length).toBeGreaterThan(2);
    await importWithPause(
      b,
      bytes,
      (line) => line["begin"] === "session",
      () => b.compact(),
    );
    assert.deepEqual(await agentOf(b, "a"), await agentOf(a, "a"));
  });

  it("a session that another process creates under the same id is not changed", async () => {
    const [a, b] = [await open(), await open()];
    await fillSession(a, "s");
    const bytes = await a.export().bytes();
    const work = importWithPause(
      b,
      bytes,
      (line) => "row" in line,
      () => b.session("s").save("mine"),
    );
    await expect(work).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await b.session("s").latest()).toMatchObject({ state: "mine" });
  });

  it("a conversation that another process creates under the same id is not changed", async () => {
    const [a, b] = [await open(), await open()];
    await a.conversations.create({ id: "c", messages: [message.user("theirs")] });
    const work = importWithPause(
      b,
      await a.export().bytes(),
      (line) => "conversation" in line,
      () => b.conversations.create({ id: "c", messages: [message.user("mine"), message.user("too")] }),
    );
    await work.catch(() => {});
    expect((await b.conversations.load("c"))?.messages).toEqual([message.user("mine"), message.user("too")]);
    expect(await b.conversations.list().all()).toHaveLength(1);
  });

  it("other processes create sessions and conversations, and nothing is mixed up", async () => {
    const [a, b] = [await open(), await open()];
    await fillStore(a);
    const bytes = await a.export().bytes();
    let n = 0;
    await b.import(
      lineByLine(bytes, async (index) => {
        if (index % 5 !== 0) return;
        n++;
        await b.session(`new-${n}`).save({ n });
        await b.conversations.create({ id: `new-${n}`, messages: [message.user(`${n}`)] });
      }),
    );
    for (let each = 1; each <= n; each++) {
      expect(await b.session(`new-${each}`).latest()).toMatchObject({ state: { n: each } });
      expect((await b.conversations.load(`new-${each}`))?.messages).toEqual([message.user(`${each}`)]);
    }
    assert.deepEqual(await agentOf(b, "a"), await agentOf(a, "a"));
    assert.deepEqual(await sessionOf(b, "s"), await sessionOf(a, "s"));
  });

  it("another import of the same bundle does no harm", async () => {
    const [a, b] = [await open(), await open()];
    await fillStore(a);
    const bytes = await a.export().bytes();
    const results = await Promise.allSettled([b.import(bytes), b.import(bytes), b.import(bytes)]);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
    }
    await b.import(bytes);
    assert.deepEqual(await wholeOf(b), await wholeOf(a));
  });
});
