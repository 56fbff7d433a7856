import { describe, expect, it } from "vitest";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("the input of a save on $name", (kind) => {
  const data = useData(kind);

  it.each([
    ["a handle that has saved before", true],
    ["a handle that knows nothing yet", false],
  ])("is read when save() is called, by %s", async (_, warm) => {
    const before = (await data.open()).session("s");
    await before.save({ messages: messages(3), deep: { list: [1] }, when: new Date(0) });
    const session = warm ? before : (await data.open()).session("s");
    const state = { messages: messages(4), deep: { list: [1, 2] }, when: new Date(1) };
    const expected = structuredClone(state);
    const options = { metadata: { tags: ["a"] }, usage: { tokens: 1 } };
    const saving = session.save(state, options);
    state.messages.length = 0;
    state.deep.list.push(3);
    state.when.setTime(99);
    options.metadata.tags.push("b");
    options.usage.tokens = 2;
    const info = await saving;
    expect(info).toMatchObject({ metadata: { tags: ["a"] }, usage: { tokens: 1 } });
    expect((await session.latest())?.state).toStrictEqual(expected);
    expect(await (await data.open()).session("s").latest()).toMatchObject({
      state: expected,
      metadata: { tags: ["a"] },
      usage: { tokens: 1 },
    });
  });

  it("is read when append() is called", async () => {
    const session = (await data.open()).session<{ messages: unknown[] }>("s");
    await session.save({ messages: messages(20) });
    const added = message(1);
    const adding = session.append("/messages", [added]);
    added.content = "changed";
    await adding;
    expect((await session.latest())?.state.messages.at(-1)).toEqual(message(1));
  });

  it("is read when fork() is called", async () => {
    const session = (await data.open()).session<{ list: number[] }>("s");
    const { id } = await session.save({ list: [1] });
    const state = { list: [2] };
    const options = { state, metadata: { n: 1 } };
    const forking = session.fork(id, options);
    state.list.push(3);
    options.metadata.n = 2;
    expect(await (await forking).latest()).toMatchObject({ state: { list: [2] }, metadata: { n: 1 } });
  });

  it("is saved in the order of the calls if saves on one handle are not awaited", async () => {
    const session = (await data.open()).session<{ n: number; list: number[] }>("s");
    const state = { n: 0, list: [] as number[] };
    const saving: Promise<{ seq: number }>[] = [];
    for (let n = 0; n < 50; n++) {
      state.n = n;
      state.list.push(n);
      saving.push(session.save(state));
    }
    const infos = await Promise.all(saving);
    expect(infos.map(({ seq }) => seq)).toEqual(infos.map((_, n) => n));
    for (const n of [0, 1, 25, 49]) {
      expect((await session.load({ seq: n }))?.state).toEqual({ n, list: Array.from({ length: n + 1 }, (_v, i) => i) });
    }
  });

  it("is saved in the order of the calls if saves, appends, updates and rewinds are not awaited", async () => {
    const session = (await data.open()).session<{ list: string[] }>("s");
    const all = [
      session.save({ list: ["a"] }, { label: "a" }),
      session.append("/list", ["b"]),
      session.update((state) => ({ list: [...(state?.list ?? []), "c"] })),
      session.append("/list", ["d"]),
    ];
    const rewinding = all[0]?.then(() => session.rewind({ label: "a" }));
    await Promise.all(all);
    await rewinding;
    await session.append("/list", ["e"]);
    expect((await session.load({ seq: 3 }))?.state).toEqual({ list: ["a", "b", "c", "d"] });
    expect((await session.latest())?.state).toEqual({ list: ["a", "e"] });
  });

  it("is visible to later reads on the same handle, awaited or not", async () => {
    const session = (await data.open()).session("s");
    void session.save(1);
    expect((await session.latest())?.state).toBe(1);
    const saving = session.save(2);
    expect((await session.history().all()).length).toBe(2);
    void session.save(3, { label: "three" });
    expect((await session.load({ label: "three" }))?.state).toBe(3);
    await saving;
  });

  it("is saved even if an earlier save fails", async () => {
    const session = (await data.open()).session("s");
    const results = await Promise.allSettled([
      session.save({ n: 1 }),
      session.save({ n: () => 2 }),
      session.save({ n: 3 }, { id: "" }),
      session.save({ n: 4 }),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
    expect((await session.history().all()).map(({ seq }) => seq)).toEqual([1, 0]);
    expect((await session.latest())?.state).toEqual({ n: 4 });
  });
});
