import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSavepointError } from "../../errors.js";
import { anyValue, editAnywhere } from "../../../test/support/states/any-state.js";
import { applyChanges, type Change, diffStates } from "./index.js";
import { edit, newEditedState } from "../../../test/support/states/edited-state.js";
import { exactText, History, seeded } from "../../../test/support/states/history.js";
import { MAX_DEPTH } from "../tree/limits.js";
import { ClassRegistry } from "../tree/class-registry.js";
import { runs } from "../../../test/support/runs.js";

const long = "x".repeat(500);

describe("a diff between two states", () => {
  it("turns one state into the other after any edits on any branch", async () => {
    await property(80, 12, async (random, steps) => {
      const history = new History();
      let state: unknown = { one: anyValue(random, 4), list: [anyValue(random, 4), anyValue(random, 4)] };
      for (let step = 0; step < steps; step++) {
        for (let times = random(4); times > 0; times--) state = editAnywhere(state, random);
        history.save(state);
        if (random(4) === 0) history.shadow = await history.decode(step);
        if (random(6) === 0) {
          const from = random(step + 1);
          await history.fork(from);
          state = await history.load(from);
        }
        // The same content at other addresses.
        if (random(10) === 0) history.shadow = undefined;
      }
      await check(history, steps - 1, random(steps));
      await check(history, random(steps), random(steps));
      await check(history, 0, steps - 1);
    });
  });

  it("turns each state of a long agent session into the next one", async () => {
    await property(30, 20, async (random, steps) => {
      const history = new History();
      const state = newEditedState(random);
      for (let step = 0; step < steps; step++) {
        edit(state, random);
        history.save(state);
        if (step > 0 && random(3) === 0) await check(history, step - 1, step);
      }
      await check(history, steps - 1, random(steps));
    });
  });

  it("turns any value into any other", async () => {
    await property(300, 1, async (random) => {
      const history = new History();
      history.save(anyValue(random, 3));
      if (random(2)) history.shadow = undefined;
      history.save(anyValue(random, 3));
      await check(history, 0, 1);
    });
  });

  it("is empty and reads nothing for identical states", async () => {
    await property(100, 1, async (random) => {
      const history = new History();
      history.save(anyValue(random, 4));
      expect(await diffOf(history, 0, 0)).toEqual([]);
      expect(history.asked).toEqual({ calls: 0, items: 0, blobs: 0 });
    });
  });

  it("is empty for equal content at different addresses and for a different order of keys", async () => {
    await property(150, 1, async (random) => {
      const history = new History();
      const state = anyValue(random, 4);
      history.save(state);
      history.shadow = undefined;
      history.save(reordered(state));
      await history.fork(0);
      history.shadow = undefined;
      history.save(state);
      expect(await diffOf(history, 0, 1)).toEqual([]);
      expect(await diffOf(history, 1, 2)).toEqual([]);
    });
  });

  it("reports appended elements at the next index", async () => {
    const changes = await diff({ messages: ["a"] }, { messages: ["a", "b", "c"] });
    expect(changes).toEqual([
      { op: "add", path: "/messages/1", value: "b" },
      { op: "add", path: "/messages/2", value: "c" },
    ]);
    const messages = Array.from({ length: 30 }, (_, id) => ({ id, text: long }));
    expect(brief(await diff({ messages: messages.slice(0, 28) }, { messages }))).toEqual([
      "add /messages/28",
      "add /messages/29",
    ]);
  });

  const small = ["a", "b", "c", "d", "e"];
  const large = Array.from({ length: 50 }, (_, id) => ({ id, text: `${id} ${long}` }));
  const numbers = Array.from({ length: 3000 }, (_, at) => at * 7);
  describe.each<[string, unknown[]]>([
    ["short", small],
    ["long", large],
    ["dense", numbers],
  ])("of a %s array", (_, array) => {
    const spliced = (start: number, remove: number, ...values: unknown[]): unknown[] => {
      const copy = [...array];
      copy.splice(start, remove, ...values);
      return copy;
    };
    it("does not report the elements after a deletion", async () => {
      expect(await diff({ array }, { array: spliced(1, 1) })).toEqual([
        { op: "remove", path: "/array/1", before: array[1] },
      ]);
      expect(brief(await diff({ array }, { array: spliced(0, 3) }))).toEqual([
        "remove /array/0",
        "remove /array/0",
        "remove /array/0",
      ]);
    });
    it("does not report the elements after an insertion", async () => {
      expect(await diff({ array }, { array: spliced(2, 0, "new") })).toEqual([
        { op: "add", path: "/array/2", value: "new" },
      ]);
      expect(brief(await diff({ array }, { array: spliced(0, 0, 1.5, 2.5) }))).toEqual([
        "add /array/0",
        "add /array/1",
      ]);
    });
    it("reports a moved element as removed and added", async () => {
      expect(brief(await diff({ array }, { array: [...spliced(1, 1), array[1]] }))).toEqual([
        "remove /array/1",
        `add /array/${array.length - 1}`,
      ]);
    });
    it("pairs changed elements in order", async () => {
      expect(brief(await diff({ array }, { array: spliced(1, 2, true) }))).toEqual([
        "replace /array/1",
        "remove /array/2",
      ]);
      expect(brief(await diff({ array }, { array: spliced(1, 1, true, false) }))).toEqual([
        "replace /array/1",
        "add /array/2",
      ]);
    });
    it("reports all elements if the array becomes empty, and if it is filled again", async () => {
      const removed = await diff({ array }, { array: [] });
      expect(new Set(brief(removed))).toEqual(new Set(["remove /array/0"]));
      expect(removed.length).toBe(array.length);
      expect((await diff({ array: [] }, { array })).length).toBe(array.length);
    });
  });

  it("reports an edit inside an element with its full path", async () => {
    const edited = large.map((message) => ({ ...message }));
    (edited[3] as { text: string }).text = "edited";
    expect(await diff({ messages: large }, { messages: edited })).toEqual([
      { op: "replace", path: "/messages/3/text", before: `3 ${long}`, value: "edited" },
    ]);
    expect(brief(await diff({ m: [{ a: [{ b: 1 }] }] }, { m: [{ a: [{ b: 2 }] }] }))).toEqual(["replace /m/0/a/0/b"]);
  });

  it("reports an edit deep inside a large element beside other edits", async () => {
    const make = (): { id: number; calls: { id: number; text: string }[] }[] =>
      Array.from({ length: 20 }, (_, id) => ({
        id,
        calls: Array.from({ length: 60 }, (_, at) => ({ id: at, text: `${at} ${long}` })),
      }));
    const [before, after] = [make(), make()];
    after[7]?.calls.splice(30, 1);
    after[7]?.calls.push({ id: 99, text: "new" });
    after.splice(2, 1);
    const history = new History();
    history.save({ before });
    history.save({ before: after });
    history.asked = { calls: 0, items: 0, blobs: 0 };
    expect(brief(await diffOf(history, 0, 1))).toEqual([
      "remove /before/2",
      "remove /before/6/calls/30",
      "add /before/6/calls/59",
    ]);
    // The removed element is read entirely, because the diff contains its value. Of the edited one only the edit is read.
    expect(history.asked.items).toBeLessThan(70);
    expect(history.asked.calls).toBeLessThan(6);
  });

  it.each<[string, Record<string, unknown>]>([
    ["a small object", {}],
    [
      "an object of many entries",
      Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`key ${at}`, { at, long }])),
    ],
    ["a dense object", Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`k${at}`, at]))],
  ])("reports keys of %s in any order, and escapes them", async (_, base) => {
    const before = { b: 1, a: undefined, "a/b": { "m~n": 1 }, gone: null, ...base };
    const after = { ...base, "": [], "a/b": { "m~n": 2 }, a: undefined, b: 1, fresh: undefined };
    const expected = ["replace /object/a~1b/m~0n", "remove /object/gone", "add /object/", "add /object/fresh"].sort();
    expect(brief(await diff({ object: before }, { object: after })).sort()).toEqual(expected);
    const plain = (value: object): object => Object.assign(Object.create(null) as object, value);
    expect(brief(await diff({ object: plain(before) }, { object: plain(after) })).sort()).toEqual(expected);
    const entries = (value: object): unknown => new Map(Object.entries(value));
    expect(brief(await diff({ object: entries(before) }, { object: entries(after) })).sort()).toEqual(expected);
    expect(brief(await diff({ object: before }, { object: plain(before) }))).toEqual(["replace /object"]);
  });

  it("treats inherited keys as missing", async () => {
    const odd = JSON.parse('{"__proto__":{}}') as object;
    expect(brief(await diff({ a: odd }, { a: { x: 1 } }))).toEqual(["remove /a/__proto__", "add /a/x"]);
    expect(brief(await diff({ a: { x: 1 } }, { a: odd }))).toEqual(["remove /a/x", "add /a/__proto__"]);
  });

  it("distinguishes undefined from a missing key", async () => {
    expect(await diff({ a: undefined }, {})).toEqual([{ op: "remove", path: "/a", before: undefined }]);
    expect(await diff({}, { a: undefined })).toEqual([{ op: "add", path: "/a", value: undefined }]);
    expect(await diff({ a: null }, { a: undefined })).toEqual([
      { op: "replace", path: "/a", before: null, value: undefined },
    ]);
  });

  it("replaces the entire Map if a key that is not a string is affected", async () => {
    const base: [unknown, unknown][] = [
      ["a", long],
      [1, long],
    ];
    expect(brief(await diff({ m: new Map(base) }, { m: new Map([...base, [2, 2]]) }))).toEqual(["replace /m"]);
    expect(brief(await diff({ m: new Map(base) }, { m: new Map([...base, ["2", 2]]) }))).toEqual(["add /m/2"]);
    const equalKeys = (count: number): unknown => new Map(Array.from({ length: count }, () => [{ a: 1 }, 1]));
    expect(brief(await diff({ m: equalKeys(2) }, { m: equalKeys(1) }))).toEqual(["replace /m"]);
    expect(brief(await diff({ m: equalKeys(30) }, { m: equalKeys(31) }))).toEqual(["replace /m"]);
    expect(brief(await diff({ m: new Map([[1, { a: 1 }]]) }, { m: new Map([[1, { a: 2 }]]) }))).toEqual(["replace /m"]);
  });

  it("replaces Sets, strings, dates, URLs, bytes and numbers entirely", async () => {
    const pairs: [unknown, unknown][] = [
      [new Set([1]), new Set([1, 2])],
      [new Set([[1, 2]]), new Set([[2, 1]])],
      [new Set(large.map((message) => message.text)), new Set(["a"])],
      ["a", "b"],
      [long, `${long}y`],
      ["short", long],
      ["x".repeat(20_000), "y"],
      [new Date(0), new Date(1)],
      [new Date(0), new Date(Number.NaN)],
      [new URL("https://a.b/"), new URL("https://a.b/c")],
      [new Uint8Array([1]), new Uint8Array([2])],
      [new Uint8Array([1]), Buffer.from([1])],
      [new Uint8Array(2000), new Uint8Array(2001)],
      [new Uint8Array(2000), Buffer.alloc(2000)],
      [0, -0],
      [Number.NaN, 0],
      [1n, 2n],
      [1n, 1],
      [10n ** 200n, 10n ** 201n],
      [null, undefined],
      [[], {}],
      [[1], { 0: 1 }],
      [large, "text"],
      [large, Object.assign({}, large)],
      [new Map(), {}],
      [new Map([["a", 1]]), new Set(["a"])],
      [{ $: ["date", "1970-01-01T00:00:00.000Z"] }, new Date(0)],
    ];
    for (const [before, value] of pairs) {
      for (const wrap of [(part: unknown) => ({ at: part }), (part: unknown) => ({ at: part, long, more: [long] })]) {
        expect(await diff(wrap(before), wrap(value))).toEqual([{ op: "replace", path: "/at", before, value }]);
        expect(await diff(wrap(before), wrap(before))).toEqual([]);
      }
      expect(await diff(before, value)).toEqual([{ op: "replace", path: "", before, value }]);
    }
  });

  it("replaces instances of registered classes by instances", async () => {
    class Money {
      constructor(readonly amount: number) {}
    }
    const registry = new ClassRegistry([
      {
        name: "Money",
        class: Money,
        encode: (money: Money) => money.amount,
        decode: (amount: number) => new Money(amount),
      },
    ]);
    const changes = await diff({ list: [new Money(1), long] }, { list: [new Money(2), long] }, registry);
    expect(changes).toEqual([{ op: "replace", path: "/list/0", before: new Money(1), value: new Money(2) }]);
    expect((changes[0] as { value: unknown }).value).toBeInstanceOf(Money);
  });

  it("compares a value that is inline in one state and stored as items in the other", async () => {
    const list = (count: number): unknown[] => Array.from({ length: count }, (_, at) => ({ at, text: "some words" }));
    expect(brief(await diff({ a: list(2) }, { a: list(9) }))).toEqual(
      [2, 3, 4, 5, 6, 7, 8].map((at) => `add /a/${at}`),
    );
    expect(brief(await diff({ a: list(9) }, { a: list(2) }))).toEqual(Array.from({ length: 7 }, () => "remove /a/2"));
    const object = (count: number): unknown => Object.fromEntries(list(count).map((value, at) => [`key ${at}`, value]));
    expect(brief(await diff({ a: object(2) }, { a: object(4) }))).toEqual(["add /a/key 2", "add /a/key 3"]);
    expect(brief(await diff({ a: object(20) }, { a: object(19) }))).toEqual(["remove /a/key 19"]);
    const map = (count: number): unknown => new Map(Object.entries(object(count) as object));
    expect(brief(await diff({ a: map(2) }, { a: map(4) }))).toEqual(["add /a/key 2", "add /a/key 3"]);
    const dense = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
    expect(brief(await diff({ a: dense(3000) }, { a: [...dense(2998), { long }] }))).toEqual([
      "replace /a/2998",
      "remove /a/2999",
    ]);
    expect((await diff({ a: dense(5) }, { a: dense(3000) })).length).toBe(2995);
  });

  it.each<[string, string, (inside: unknown) => unknown]>([
    ["arrays", "/0", (inside) => [inside]],
    ["objects", "/inside", (inside) => ({ inside })],
    ["long objects", "/inside", (inside) => ({ long, inside })],
    ["Maps", "/k", (inside) => new Map([["k", inside]])],
    [
      "long Maps",
      "/k",
      (inside) =>
        new Map<string, unknown>([
          ["long", long],
          ["k", inside],
        ]),
    ],
  ])("finds a change inside %s nested to the maximum depth", async (_, step, wrap) => {
    let [before, after]: unknown[] = ["core", "CORE"];
    for (let depth = 0; depth < MAX_DEPTH; depth++) [before, after] = [wrap(before), wrap(after)];
    expect(brief(await diff(before, after))).toEqual([`replace ${step.repeat(MAX_DEPTH)}`]);
  });

  it("returns values that share nothing with each other", async () => {
    const history = new History();
    history.save({ a: [] });
    history.save({ a: [{ deep: [long] }] });
    const [first] = await diffOf(history, 0, 1);
    ((first as { value: { deep: unknown[] } }).value.deep as unknown[]).push("mine");
    expect(await diffOf(history, 0, 1)).toEqual([{ op: "add", path: "/a/0", value: { deep: [long] } }]);
  });

  describe("reads only a few items", () => {
    const messages = Array.from({ length: 1000 }, (_, id) => ({ id, role: "user", content: `message ${id} ${long}` }));
    const cost = async (states: readonly unknown[]): Promise<{ changes: string[]; items: number; calls: number }> => {
      const history = new History();
      for (const state of states) history.save(state);
      history.asked = { calls: 0, items: 0, blobs: 0 };
      const changes = brief(await diffOf(history, 0, -1));
      return { changes, items: history.asked.items, calls: history.asked.calls };
    };

    it("of 1,000 messages of which one is appended, one deleted and one edited", async () => {
      const after = messages.map((message) => ({ ...message }));
      (after[300] as { content: string }).content = "edited";
      after.splice(500, 1);
      after.push({ id: 1000, role: "user", content: "new" });
      const { changes, items, calls } = await cost([{ messages }, { messages: after }]);
      expect(changes).toEqual(["replace /messages/300/content", "remove /messages/500", "add /messages/999"]);
      expect(items).toBe(4);
      expect(calls).toBe(1);
    });

    it("of 1,000 messages of which one is moved", async () => {
      const after = [...messages];
      after.push(...after.splice(10, 1));
      const { changes, items } = await cost([{ messages }, { messages: after }]);
      expect(changes).toEqual(["remove /messages/10", "add /messages/999"]);
      expect(items).toBe(1);
    });

    it.each<[string, (entries: [string, string][]) => unknown]>([
      ["an object", (entries) => Object.fromEntries(entries)],
      ["a Map", (entries) => new Map(entries)],
    ])("of 1,000 files in %s of which one is edited", async (_, make) => {
      const files = Array.from({ length: 1000 }, (_, at): [string, string] => [`src/${at}.ts`, `file ${at} ${long}`]);
      const after = files.map(([name, text]): [string, string] => [name, name === "src/500.ts" ? "edited" : text]);
      const { changes, items } = await cost([{ files: make(files) }, { files: make(after) }]);
      expect(changes).toEqual(["replace /files/src~1500.ts"]);
      expect(items).toBe(2);
    });

    it("of a list in so many ranges that nodes hold them", async () => {
      const history = new History();
      const random = seeded(7);
      let state = { files: Object.fromEntries(messages.map(({ id, content }) => [`f${id}`, content])), list: messages };
      history.save(state);
      // Fragments accumulate step by step, as in real sessions.
      for (let step = 0; step < 600; step++) {
        state = { files: { ...state.files, [`f${random(1000)}`]: `edit ${step}` }, list: [...state.list] };
        state.list[random(1000)] = { id: step, role: "tool", content: `edit ${step}` };
        history.save(state);
      }
      expect(history.checkpoint(-1).skeleton.json).toContain('["object",0,1');
      history.asked = { calls: 0, items: 0, blobs: 0 };
      const changes = await diffOf(history, -3, -1);
      expect(changes.length).toBeGreaterThan(2);
      expect(history.asked.items).toBeLessThan(30);
      expect(history.asked.calls).toBeLessThan(5);
      await check(history, 0, -1);
    });

    it("of a long text that has not changed, and of bytes", async () => {
      const state = { text: long.repeat(100), bytes: new Uint8Array(5000), n: 1 };
      expect(await cost([state, { ...state, n: 2 }])).toEqual({ changes: ["replace /n"], items: 0, calls: 0 });
    });
  });

  it("rejects with DAMAGED and the path if a part that it must read is damaged, and ignores other damage", async () => {
    const history = new History();
    const messages = Array.from({ length: 100 }, (_, id) => ({ id, content: `message ${id} ${long}` }));
    history.save({ messages, deep: { text: long } });
    history.save({ messages: [...messages, { id: 100, content: "new" }], deep: { text: long } });
    history.save({ messages: messages.slice(0, 50), deep: { text: `${long}!` } });
    history.damaged.add("0:7");
    expect((await diffOf(history, 0, 1)).length).toBe(1);
    history.damaged.add(`0:60`);
    expect(await failure(diffOf(history, 1, 2))).toMatchObject({ code: "DAMAGED", details: { path: "/messages/60" } });
    history.damaged.delete("0:60");
    for (let item = 100; item < 110; item++) history.damaged.add(`0:${item}`);
    expect(await failure(diffOf(history, 0, 1))).toMatchObject({ code: "DAMAGED" });
    history.damaged.clear();
    expect((await diffOf(history, 1, 2)).length).toBe(52);
  });
});

describe("applying changes", () => {
  it("does not modify the input and copies only changed objects", () => {
    const state = { list: [{ a: 1 }, { b: 1 }], map: new Map([["k", { c: 1 }]]), other: { d: 1 } };
    const text = exactText(state);
    const changes: Change[] = [
      { op: "add", path: "/list/1", value: { x: {} } },
      { op: "add", path: "/list/1/x/y", value: 1 },
      { op: "replace", path: "/map/k/c", before: 1, value: 2 },
      { op: "remove", path: "/list/0", before: { a: 1 } },
      { op: "add", path: "/__proto__", value: "own" },
    ];
    const given = exactText(changes);
    const result = applyChanges(state, changes) as typeof state;
    expect(exactText(result)).toBe(
      exactText(
        Object.defineProperty(
          { list: [{ x: { y: 1 } }, { b: 1 }], map: new Map([["k", { c: 2 }]]), other: { d: 1 } },
          "__proto__",
          {
            value: "own",
            enumerable: true,
          },
        ),
      ),
    );
    expect(exactText(state)).toBe(text);
    expect(exactText(changes)).toBe(given);
    expect(result.other).toBe(state.other);
    expect(result.list[1]).toBe(state.list[1]);
    expect(applyChanges(state, [])).toBe(state);
  });

  it.each<[string, Change]>([
    ["a key that is not there", { op: "remove", path: "/gone", before: 1 }],
    ["an index past the end", { op: "add", path: "/list/3", value: 1 }],
    ["an index that is none", { op: "remove", path: "/list/-", before: 2 }],
    ["an index with a sign", { op: "replace", path: "/list/+1", before: 1, value: 1 }],
    ["what has no members", { op: "add", path: "/date/x", value: 1 }],
    ["a path through nothing", { op: "add", path: "/a/b/c", value: 1 }],
    ["an inherited key", { op: "replace", path: "/toString", before: 1, value: 1 }],
    ["no pointer", { op: "add", path: "list", value: 1 }],
    ["the root", { op: "remove", path: "", before: 1 }],
    ["a Map's key that is not there", { op: "replace", path: "/map/x", before: 1, value: 1 }],
  ])("rejects %s", (_, change) => {
    const state = { list: [1, 2], date: new Date(0), map: new Map() };
    let error: unknown;
    try {
      applyChanges(state, [change]);
    } catch (thrown) {
      error = thrown;
    }
    expect(isSavepointError(error, "INVALID_ARGUMENT")).toBe(true);
  });
});

/** Calls `act` with random seeds and step counts. fast-check prints those that fail. */
async function property(
  numRuns: number,
  maxSteps: number,
  act: (random: (below: number) => number, steps: number) => Promise<void>,
): Promise<void> {
  const seed = fc.integer({ min: 0, max: 2 ** 31 - 1 });
  await fc.assert(
    fc.asyncProperty(seed, fc.integer({ min: 1, max: maxSteps }), (start, steps) => act(seeded(start), steps)),
    { numRuns: runs(numRuns) },
  );
}

async function diffOf(history: History, from: number, to: number): Promise<Change[]> {
  return diffStates(history.checkpoint(from), history.checkpoint(to), history.reader, history.registry);
}

/** Computes the diff and asserts that it turns one state into the other. */
async function check(history: History, from: number, to: number): Promise<Change[]> {
  const changes = await diffOf(history, from, to);
  const [before, after] = [await history.load(from), await history.load(to)];
  const [oldText, newText] = [exactText(before, true), exactText(after, true)];
  const result = applyChanges(before, changes);
  expect(exactText(result, true)).toBe(newText);
  if (!isDeepStrictEqual(result, after)) expect(result).toEqual(after);
  expect(exactText(before, true)).toBe(oldText);
  if (oldText === newText) expect(changes).toEqual([]);
  return changes;
}

/** The diff of two consecutive states, which must be the same if they share no items. */
async function diff(before: unknown, after: unknown, registry?: ClassRegistry): Promise<Change[]> {
  const history = new History(registry);
  history.save(before);
  history.save(after);
  history.shadow = undefined;
  history.save(after);
  const changes = await check(history, 0, 1);
  expect(exactText(await check(history, 0, 2))).toBe(exactText(changes));
  return changes;
}

function brief(changes: readonly Change[]): string[] {
  return changes.map(({ op, path }) => `${op} ${path}`);
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The same content with the keys of every object, Map and Set in reverse order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (value instanceof Map)
    return new Map([...value].reverse().map(([key, part]) => [reordered(key), reordered(part)]));
  if (value instanceof Set) return new Set([...value].reverse().map(reordered));
  if (typeof value !== "object" || value === null) return value;
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype !== null && prototype !== Object.prototype) return value;
  const copy = Object.create(prototype) as object;
  for (const [key, part] of Object.entries(value).reverse()) {
    Object.defineProperty(copy, key, { value: reordered(part), enumerable: true, writable: true, configurable: true });
  }
  return copy;
}
