/** Lines without a parent, branches that move, and annotations of checkpoints. */
import { describe, expect, test } from "vitest";
import { isSavepointError, Savepoint, type Session } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("lines and attachments on $name", (kind) => {
  const data = useData(kind);

  test("a checkpoint without a parent begins a branch of its own", async () => {
    const sp = await data.open();
    const session = sp.session<string[]>("s");
    const first = await session.save(["a"], { parent: null });
    expect(first).toMatchObject({ branch: "main", parentId: undefined, step: 0 });
    const second = await session.save(["b"], { parent: null });
    expect(second.branch).toMatch(/^~/);
    expect(second).toMatchObject({ parentId: undefined, step: 0, seq: 1 });
    expect((await session.latest())?.state).toEqual(["a"]);
    expect((await session.load(second.id))?.state).toEqual(["b"]);
  });

  test("a checkpoint without a parent creates the branch that its handle names, even without a session", async () => {
    const sp = await data.open();
    const side = sp.session<number>("s", { branch: "side", agent: "a" });
    const first = await side.save(1, { parent: null, id: "one" });
    expect(first).toMatchObject({ branch: "side", parentId: undefined });
    expect((await side.save(2)).parentId).toBe("one");
    const other = await data.open();
    expect(await other.session("s").latest()).toBeUndefined();
    expect((await other.session("s", { branch: "side" }).latest())?.state).toBe(2);
    expect((await other.sessions.load("s"))?.agent).toBe("a");
    expect((await sp.session<number>("s").save(3)).branch).toBe("main");
    expect(await code(sp.session<number>("s", { branch: "side" }).save(4, { parent: null }))).toBe("CONFLICT");
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  test("of two processes that begin a branch of the same name at once, one gets CONFLICT", async () => {
    const [a, b] = [await data.open(), await data.open()];
    const saves = [a, b].map((sp, index) => sp.session("s", { branch: "x" }).save({ index }, { parent: null }));
    const ends = await Promise.allSettled(saves);
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(ends.map((end) => (end.status === "rejected" ? (end.reason as { code: string }).code : ""))).toContain(
      "CONFLICT",
    );
  });

  test("a branch that moves continues from another checkpoint, and keeps those that it leaves", async () => {
    const sp = await data.open();
    const session = sp.session<string[]>("s", { branch: "main" });
    const infos = [];
    for (const state of [["a"], ["a", "b"], ["a", "b", "c"]]) infos.push(await session.save(state));
    const moved = await session.save(["a", "d"], { parent: infos[0]?.id ?? "", resetBranch: true });
    expect(moved).toMatchObject({ branch: "main", parentId: infos[0]?.id, step: 1 });
    expect((await session.save(["a", "d", "e"])).parentId).toBe(moved.id);
    expect((await session.latest())?.state).toEqual(["a", "d", "e"]);
    expect((await session.history().all()).map(({ seq }) => seq)).toEqual([4, 3, 0]);
    expect(await session.history({ allBranches: true }).all()).toHaveLength(5);
    expect((await session.load({ seq: 2 }))?.state).toEqual(["a", "b", "c"]);
    expect((await session.history({ from: { seq: 2 } }).all()).map(({ seq }) => seq)).toEqual([2, 1, 0]);
    const fresh = await session.save(["z"], { parent: null, resetBranch: true });
    expect(fresh).toMatchObject({ branch: "main", parentId: undefined });
    expect((await session.branches().all()).map(({ name }) => name)).toEqual(["main"]);
    await sp.compact();
    expect((await session.load({ seq: 2 }))?.state).toEqual(["a", "b", "c"]);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  test("a move to a missing checkpoint, or without a target, is rejected", async () => {
    const sp = await data.open();
    const session = sp.session<number>("s", { branch: "main" });
    await session.save(1);
    expect(await code(session.save(2, { parent: "nothing", resetBranch: true }))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await code(session.save(2, { resetBranch: true }))).toBe("INVALID_ARGUMENT");
    expect(await code(session.history({ from: "nothing" }).all())).toBe("CHECKPOINT_NOT_FOUND");
  });

  test("moves of two processes are both kept, and one of them is the head", async () => {
    const [a, b] = [await data.open(), await data.open()];
    const base = await a.session<number[]>("s").save([0]);
    await a.session<number[]>("s").save([0, 1]);
    const move = (session: Session<number[]>, value: number): Promise<unknown> =>
      session.save([0, value], { parent: base.id, resetBranch: true });
    await Promise.all(
      [a, b].flatMap((sp, index) =>
        [1, 2, 3].map((step) => move(sp.session("s", { branch: "main" }), 10 * index + step)),
      ),
    );
    const all = await a.session("s").history({ allBranches: true }).all();
    expect(all.filter(({ parentId }) => parentId === base.id)).toHaveLength(7);
    expect((await a.verify({ deep: true })).ok).toBe(true);
  });

  test("annotations are attached to a checkpoint, changed, listed and removed", async () => {
    const [sp, other] = [await data.open(), await data.open()];
    const session = sp.session<number>("s");
    const infos = [await session.save(1), await session.save(2)];
    const bytes = new Uint8Array(5000).map((_, index) => index);
    await session.annotate({ seq: 0 }, "note", () => ({ when: new Date(5), bytes }));
    await session.annotate({ seq: 1 }, "list", () => [1]);
    await Promise.all(
      [session, other.session("s"), session].map((each, index) =>
        each.annotate(infos[1]?.id ?? "", "list", (before) => [...(before as number[]), 10 + index]),
      ),
    );
    const found = await other.session("s").annotations(0, 1);
    expect(found.get(0)).toEqual(new Map([["note", { when: new Date(5), bytes }]]));
    expect(new Set(found.get(1)?.get("list") as number[])).toEqual(new Set([1, 10, 11, 12]));
    expect(await session.annotations(1)).toEqual(new Map([[1, found.get(1)]]));
    await session.annotate({ seq: 0 }, "note", () => undefined);
    expect((await session.annotations(0)).size).toBe(0);
    expect(await code(session.annotate("nothing", "x", () => 1))).toBe("CHECKPOINT_NOT_FOUND");
    expect(await code(session.annotate({ seq: 0 }, "", () => 1))).toBe("INVALID_ID");
    expect(await code(session.annotate({ seq: 0 }, "x", () => () => 1))).toBe("INVALID_STATE");
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  test("large annotations are stored like states: replaced ones are freed, the others stay", async () => {
    const [sp, other] = [await data.open(), await data.open()];
    const session = sp.session<number>("s");
    await session.save(1);
    const large = (round: number): unknown => ({ round, texts: texts(round), bytes: new Uint8Array(4000).fill(round) });
    for (let round = 0; round < 5; round++) {
      await session.annotate({ seq: 0 }, "large", () => large(round));
      await session.annotate({ seq: 0 }, `kept ${round}`, () => texts(round));
    }
    expect((await sp.compact()).items).toBeGreaterThan(50);
    const found = (await other.session("s").annotations(0)).get(0);
    expect(found?.get("large")).toEqual(large(4));
    for (let round = 0; round < 5; round++) expect(found?.get(`kept ${round}`)).toEqual(texts(round));
    expect((await sp.verify({ deep: true })).ok).toBe(true);
    const bundle = await sp.export({}).bytes();
    await sp.sessions.delete("s");
    await sp.import(bundle);
    expect((await sp.session("s").annotations(0)).get(0)?.get("large")).toEqual(large(4));
    await sp.session("s").annotate({ seq: 0 }, "more", () => texts(9));
    expect((await sp.session("s").annotations(0)).get(0)?.get("kept 1")).toEqual(texts(1));
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  test("annotations are deleted and exported with their checkpoint", async () => {
    const sp = await data.open();
    const session = sp.session<number>("s");
    for (let state = 0; state < 4; state++) {
      await session.save(state);
      await session.annotate({ seq: state }, "of", () => state);
    }
    const bundle = await sp.export({ session: "s" }).bytes();
    const one = await sp.export({ checkpoint: "s#2" }).bytes();
    await session.prune({ keepLast: 2 });
    expect([...(await session.annotations(0, 9)).keys()]).toEqual([2, 3]);
    await sp.sessions.delete("s");
    const again = sp.session<number>("s");
    await again.save(0);
    expect((await again.annotations(0, 9)).size).toBe(0);
    await sp.sessions.delete("s");
    await sp.import(bundle);
    expect([...(await sp.session("s").annotations(0, 9)).entries()].map(([seq, of]) => [seq, of.get("of")])).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
    await sp.session("s").clear();
    expect((await sp.session("s").annotations(0, 9)).size).toBe(0);
    await sp.sessions.delete("s");
    await sp.import(one);
    expect((await sp.session("s").annotations(2)).get(2)).toEqual(new Map([["of", 2]]));
  });
});

const texts = (round: number): string[] =>
  Array.from({ length: 20 }, (_, index) => `${round} ${index} ${"text ".repeat(30)}`);

async function code(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (isSavepointError(error)) return error.code;
    throw error;
  }
}

test("a line is read in pages that grow with the distance walked", async () => {
  const store = await openStore("memory:");
  const session = (await Savepoint.open(store)).session("s");
  for (let n = 0; n < 300; n++) await session.save({ n });
  const limits: number[] = [];
  const list = store.list.bind(store);
  store.list = (range, options) => {
    if (range.from.startsWith("z")) limits.push(options.limit);
    return list(range, options);
  };
  expect(await session.history().all()).toHaveLength(300);
  expect(limits).toEqual([16, 128, 1024]);
});
