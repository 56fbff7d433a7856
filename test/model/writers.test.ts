import { describe, expect, it } from "vitest";
import type { Session } from "../../src/index.js";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("several writers of a session on $name", (kind) => {
  const data = useData(kind);

  /** Two handles: of one Savepoint, which share what it remembers, or of two. */
  const pairs: [string, () => Promise<[Session<{ list: unknown[] }>, Session<{ list: unknown[] }>]>][] = [
    [
      "of one process",
      async () => {
        const sp = await data.open();
        return [sp.session("s"), sp.session("s")];
      },
    ],
    ["of two processes", async () => [(await data.open()).session("s"), (await data.open()).session("s")]],
  ];

  describe.each(pairs)("%s", (_, open) => {
    it("conflict when the branch has moved, continue after reading it again, and lose nothing", async () => {
      const [one, two] = await open();
      await one.save({ list: messages(10) });
      await two.latest();
      const b = await one.save({ list: messages(11) });
      const late: (() => Promise<unknown>)[] = [
        () => two.save({ list: [] }),
        () => two.append("/list", [1]),
        () => two.update(() => ({ list: [] })),
        () => two.rewind({ seq: 0 }),
      ];
      for (const attempt of late) await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "CONFLICT" });
      expect((await one.history({ allBranches: true }).all()).length).toBe(2);
      expect((await two.latest())?.state.list).toEqual(messages(11));
      expect((await two.save({ list: messages(12) })).parentId).toBe(b.id);
      await expect(one.save({ list: [] })).rejects.toMatchObject({ code: "CONFLICT" });
      expect((await one.head())?.seq).toBe(2);
      expect((await one.append("/list", [message(50)])).seq).toBe(3);
      expect((await one.latest())?.state.list).toEqual([...messages(12), message(50)]);
      expect((await one.history().all()).map(({ seq }) => seq)).toEqual([3, 2, 1, 0]);
    });

    it("build on the current head while they have read nothing", async () => {
      const [one, two] = await open();
      const a = await one.save({ list: messages(10) });
      const b = await two.save({ list: messages(11) });
      expect(b.parentId).toBe(a.id);
      await expect(one.save({ list: [] })).rejects.toMatchObject({ code: "CONFLICT" });
    });

    it("conflict if they read an empty session and another writer has saved since", async () => {
      const [one, two] = await open();
      expect(await one.latest()).toBeUndefined();
      expect(await two.latest()).toBeUndefined();
      await one.save({ list: messages(10) });
      await expect(two.save({ list: [] })).rejects.toMatchObject({ code: "CONFLICT" });
      expect((await two.latest())?.state.list).toEqual(messages(10));
      expect((await two.save({ list: messages(11) })).seq).toBe(1);
    });

    it("that begin at once save one after the other, each with its own number", async () => {
      const [one, two] = await open();
      const both = await Promise.all([one.save({ list: [1] }), two.save({ list: [2] })]);
      expect(new Set(both.map(({ seq }) => seq))).toEqual(new Set([0, 1]));
      expect((await (await data.open()).sessions.list().all()).length).toBe(1);
      expect((await (await data.open()).session("s").history().all()).length).toBe(2);
    });

    it("that append without having read the session all find their elements in the list", async () => {
      const [one] = await open();
      const handles = async (): Promise<Session<{ list: unknown[] }>[]> => [...(await open()), ...(await open())];
      await one.save({ list: messages(40) });
      const added: number[] = [];
      for (let round = 0; round < 5; round++) {
        await Promise.all(
          (await handles()).map((handle, n) => {
            added.push(round * 10 + n);
            return handle.append("/list", [{ n: round * 10 + n }]);
          }),
        );
      }
      const list = (await (await data.open()).session<{ list: { n?: number }[] }>("s").latest())?.state.list ?? [];
      expect(list).toHaveLength(40 + added.length);
      expect(new Set(list.slice(40).map(({ n }) => n))).toEqual(new Set(added));
    });

    it("never lose an update of a state that is no longer the newest", async () => {
      const [one, two] = await open();
      await one.save({ list: [] });
      const add = (n: number) => (state: Readonly<{ list: unknown[] }> | undefined) => ({
        list: [...(state?.list ?? []), n],
      });
      const fresh = await open();
      const results = await Promise.allSettled([fresh[0].update(add(1)), fresh[1].update(add(2))]);
      const done = results.filter(({ status }) => status === "fulfilled").length;
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "CONFLICT" });
      expect((await (await data.open()).session<{ list: unknown[] }>("s").latest())?.state.list).toHaveLength(done);
      expect(done).toBeGreaterThan(0);
      await two.latest();
      await two.update(add(3));
      expect((await two.latest())?.state.list).toHaveLength(done + 1);
    });

    it("do not disturb each other on branches of their own", async () => {
      const [one, two] = await open();
      const { id } = await one.save({ list: messages(5) });
      const side = await two.fork(id, { branch: "side" });
      const work = async (handle: Session<{ list: unknown[] }>): Promise<void> => {
        for (let n = 0; n < 20; n++) await handle.append("/list", [message(n)]);
      };
      await Promise.all([work(one), work(side)]);
      expect((await one.latest())?.state.list).toHaveLength(25);
      expect((await side.latest())?.state.list).toHaveLength(25);
      const seqs = (await one.history({ allBranches: true, order: "oldest" }).all()).map(({ seq }) => seq);
      expect(seqs).toEqual(Array.from({ length: 41 }, (__, n) => n));
    });
  });

  it("keep a session to its agent", async () => {
    const sp = await data.open();
    const mine = sp.session<unknown>("s", { agent: "mine" });
    const { id } = await mine.save(1);
    expect(await sp.session("s").latest()).toMatchObject({ agent: "mine" });
    expect((await sp.session("s").save(2)).agent).toBe("mine");
    for (const other of [sp, await data.open()].map((from) => from.session<unknown>("s", { agent: "other" }))) {
      const tries: (() => Promise<unknown>)[] = [
        () => other.save(3),
        () => other.save(3, { parent: id }),
        () => other.update(() => 3),
        () => other.rewind(id),
        () => other.fork(id),
        () => other.fork(id, { state: 3 }),
      ];
      for (const attempt of tries)
        await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "AGENT_MISMATCH" });
      expect((await other.latest())?.state).toBe(2);
    }
    const later = sp.session("t");
    await later.save(1);
    expect((await sp.session("t", { agent: "late" }).save(2)).agent).toBe("late");
    expect((await later.head())?.agent).toBe("late");
  });

  it("that begin a session at once leave it to the first agent", async () => {
    const sp = await data.open();
    const one = sp.session("s", { agent: "one" });
    const two = sp.session("s", { agent: "two" });
    const [first, second] = await Promise.allSettled([one.save(1), two.save(2)]);
    expect(first).toMatchObject({ status: "fulfilled", value: { agent: "one" } });
    expect(second).toMatchObject({ status: "rejected", reason: { code: "AGENT_MISMATCH" } });
    expect((await one.save(3)).agent).toBe("one");
    const unnamed = Promise.all([sp.session("t", { agent: "one" }).save(1), sp.session("t").save(2)]);
    expect((await unnamed).map(({ agent }) => agent)).toEqual(["one", "one"]);
  });
});

describe.each(STORES)("ids that callers choose on $name", (kind) => {
  const data = useData(kind);
  const options = { id: "chosen", label: "l", metadata: { at: new Date(1), map: new Map([[1, 2n]]) } };

  it("may be saved again with the same content, which changes nothing", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const state = { list: messages(20) };
    const info = await session.save(state, options);
    expect(await session.save(state, options)).toStrictEqual(info);
    expect(await sp.session("s").save(structuredClone(state), options)).toStrictEqual(info);
    expect(await (await data.open()).session("s").save(state, options)).toStrictEqual(info);
    expect(await (await data.open()).session("s").save(state, { id: "chosen" })).toStrictEqual(info);
    expect((await session.history({ allBranches: true }).all()).length).toBe(1);
    // Also if the session was saved to since, and if the label has changed.
    const next = await session.save({ list: messages(21) });
    await session.label("chosen", "renamed");
    const renamed = { ...info, label: "renamed" };
    expect(await session.save(state, options)).toStrictEqual(renamed);
    expect(await (await data.open()).session("s").save(state, options)).toStrictEqual(renamed);
    expect((await session.save({ list: messages(22) })).parentId).toBe(next.id);
  });

  it("conflict with other content", async () => {
    const sp = await data.open();
    const session = sp.session<unknown>("s");
    const state = { list: messages(20), order: { a: 1, b: 2 } };
    await session.save(state, { ...options, usage: { tokens: 1 } });
    const others: [unknown, object][] = [
      [{ list: messages(21) }, {}],
      [{ ...state, order: { b: 2, a: 1 } }, {}],
      [state, { label: "other" }],
      [state, { metadata: { at: new Date(2), map: new Map([[1, 2n]]) } }],
      [state, { metadata: { at: new Date(1), map: new Map([[1, 3n]]) } }],
      [state, { step: 5 }],
      [state, { status: "completed" }],
      [state, { usage: { tokens: 2 } }],
    ];
    for (const [other, more] of others) {
      for (const handle of [session, sp.session("s"), (await data.open()).session("s")]) {
        await expect(handle.save(other, { ...options, ...more })).rejects.toMatchObject({ code: "CONFLICT" });
      }
    }
    expect((await session.history({ allBranches: true }).all()).length).toBe(1);
    expect((await session.save(1)).seq).toBe(1);
  });

  it("belong to their session", async () => {
    const sp = await data.open();
    await sp.session("a").save("a", { id: "same" });
    await sp.session("b").save("b", { id: "same" });
    expect((await sp.session("a").load("same"))?.state).toBe("a");
    expect((await sp.session("b").load("same"))?.state).toBe("b");
    const uuid = "0199e0a5-0000-7000-8000-000000000001";
    expect((await sp.session("a").save(1, { id: uuid })).id).toBe(uuid);
    expect((await sp.session("a").save(1, { id: uuid.toUpperCase().replace("A", "B") })).seq).toBe(2);
    expect((await sp.session("a").load(uuid))?.seq).toBe(1);
  });

  it("are rejected if they could not be kept apart", async () => {
    const session = (await data.open()).session("s");
    for (const id of ["", "a\tb", "a\nb", "\u0000", "\ud800", "x".repeat(1025)]) {
      await expect(session.save(1, { id })).rejects.toMatchObject({ code: "INVALID_ID" });
    }
    expect(await session.latest()).toBeUndefined();
    expect((await session.save(1, { id: "x".repeat(1024) })).seq).toBe(0);
  });

  it("that a source makes twice are a conflict, not a loop", async () => {
    const sp = await data.open({ newId: () => "always the same" });
    const session = sp.session("s");
    await session.save(1);
    await expect(session.save(2)).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(session.rewind({ seq: 0 })).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await session.save(3, { id: "another" })).seq).toBe(1);
  });
});

describe.each(STORES)("parents that callers name on $name", (kind) => {
  const data = useData(kind);

  it("extend the branch whose head they are, and open an unnamed one elsewhere", async () => {
    const sp = await data.open();
    const session = sp.session<{ list: unknown[] }>("s");
    const a = await session.save({ list: messages(20) });
    const b = await session.save({ list: messages(21) }, { parent: a.id });
    expect(b).toMatchObject({ branch: "main", parentId: a.id });
    const c = await session.save({ list: messages(22) }, { parent: a.id });
    expect(c).toMatchObject({ parentId: a.id, seq: 2, step: 1 });
    expect(c.branch).toMatch(/^~/);
    expect((await session.latest())?.id).toBe(b.id);
    const d = await session.save({ list: messages(23) }, { parent: c.id });
    expect(d).toMatchObject({ parentId: c.id, branch: c.branch });
    const e = await session.save({ list: messages(24) }, { parent: a.id });
    expect(e.branch).toMatch(/^~/);
    expect(e.branch).not.toBe(c.branch);
    expect((await session.save({ list: messages(25) })).parentId).toBe(b.id);
    for (const [{ id }, count] of [
      [a, 20],
      [b, 21],
      [c, 22],
      [d, 23],
      [e, 24],
    ] as const) {
      expect((await (await data.open()).session<{ list: unknown[] }>("s").load(id))?.state.list).toHaveLength(count);
    }
    expect((await session.branches().all()).length).toBe(3);
  });

  it("must be the head of a branch that was named", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const a = await session.save("a");
    const b = await session.save("b");
    for (const branch of ["main", "side"]) {
      if (branch === "side") await session.fork(b.id, { branch });
      const named = sp.session("s", { branch });
      await expect(named.save("x", { parent: a.id })).rejects.toMatchObject({ code: "CONFLICT" });
      expect((await named.save("y", { parent: b.id })).branch).toBe(branch);
      await expect(named.save("z", { parent: b.id })).rejects.toMatchObject({ code: "CONFLICT" });
    }
  });

  it("must exist", async () => {
    const sp = await data.open();
    for (const session of [sp.session("s"), sp.session("s", { branch: "main" })]) {
      await expect(session.save(1, { parent: "no" })).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    }
    expect(await sp.sessions.load("s")).toBeUndefined();
    const session = sp.session("s");
    const { id } = await session.save(1);
    await expect(session.save(1, { parent: "no" })).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await session.clear();
    await expect(session.save(1, { parent: id })).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });

  it("may be passed again with an id, which changes nothing", async () => {
    const session = (await data.open()).session("s");
    const a = await session.save("a");
    await session.save("b");
    const c = await session.save("c", { parent: a.id, id: "c" });
    expect(await session.save("c", { parent: a.id, id: "c" })).toEqual(c);
    expect(await (await data.open()).session("s").save("c", { parent: a.id, id: "c" })).toEqual(c);
    expect((await session.branches().all()).length).toBe(2);
    await expect(session.save("d", { parent: a.id, id: "c" })).rejects.toMatchObject({ code: "CONFLICT" });
    const d = await session.save("d", { parent: c.id, id: "d" });
    expect(await session.save("d", { parent: c.id, id: "d" })).toEqual(d);
    await expect(session.save("d", { parent: a.id, id: "d" })).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await session.branches().all()).length).toBe(2);
  });

  it("of many saves at once each open a branch", async () => {
    const [one, two] = [(await data.open()).session("s"), (await data.open()).session("s")];
    const a = await one.save("a");
    await one.save("b");
    const saved = await Promise.all(
      Array.from({ length: 12 }, (_, n) => (n % 2 ? one : two).save(n, { parent: a.id })),
    );
    expect(new Set(saved.map(({ branch }) => branch)).size).toBe(12);
    expect(saved.every(({ parentId }) => parentId === a.id)).toBe(true);
    for (const [n, { id }] of saved.entries()) expect((await one.load(id))?.state).toBe(n);
  });
});
