import vm from "node:vm";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { isSavepointError, type SavepointError } from "../../errors.js";
import { exactText, History } from "../../../test/support/states/history.js";
import { SEGMENT_LENGTH, MAX_DEPTH } from "../tree/limits.js";
import { ClassRegistry, type StoredClass } from "../tree/class-registry.js";
import { newShadow } from "../tree/revision.js";
import { equalsShadow } from "../tree/equality.js";
import { setKey, type Shadow } from "../tree/shadow.js";
import { freezeState, shadowToValue } from "../tree/shadow-to-value.js";
import { runs } from "../../../test/support/runs.js";

describe("a state", () => {
  it("is loaded exactly as it was saved", async () => {
    await fc.assert(
      fc.asyncProperty(storable, async (state) => {
        expect(exactText(await roundTrip(state))).toBe(exactText(state));
      }),
      { numRuns: runs(500) },
    );
  });

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a string", ""],
    ["a number that JSON does not have", [Number.NaN, Infinity, -Infinity, -0, 0]],
    ["the largest and smallest numbers", [Number.MAX_VALUE, Number.MIN_VALUE, 2 ** 53, 0.1 + 0.2, 1e21]],
    ["a large BigInt", { n: -(10n ** 300n), small: 0n }],
    ["dates", [new Date(0), new Date(Number.NaN), new Date(8.64e15), new Date(-8.64e15), new Date(-62198755200001)]],
    [
      "URLs",
      [new URL("https://user:pw@example.com:8080/a%20b?q=é#h"), new URL("data:text/plain,x"), new URL("file:///a")],
    ],
    [
      "bytes",
      [new Uint8Array(), new Uint8Array([0, 255]), Buffer.from("x"), new Uint8Array(5000).fill(7), Buffer.alloc(5000)],
    ],
    ["a view of other bytes", new Uint8Array([1, 2, 3, 4]).subarray(1, 3)],
    ["empty things", [[], {}, new Map(), new Set(), Object.create(null), [[]], [{}], { a: [] }]],
    [
      "undefined members",
      { a: undefined, b: [undefined], c: new Map([[undefined, undefined]]), d: new Set([undefined]) },
    ],
    [
      "keys that are objects",
      new Map<unknown, unknown>([
        [{ a: 1 }, 1],
        [[1], 2],
        [new Date(0), 3],
        [-0, 4],
        [Number.NaN, 5],
      ]),
    ],
    [
      "keys with a meaning",
      withKeys("$", "__proto__", "", "constructor", "toJSON", "hasOwnProperty", "length", "10", "9"),
    ],
    [
      "many such keys",
      withKeys("$", "__proto__", "", "10", "9", ...Array.from({ length: 40 }, (_, at) => `key ${at}`)),
    ],
    [
      "many without a prototype",
      Object.assign(
        Object.create(null) as object,
        withKeys("__proto__", ...Array.from({ length: 40 }, (_, at) => `k${at}`)),
      ),
    ],
    [
      "what looks like our own tags",
      [{ $: ["date", "x"] }, { $: ["array", 0] }, { $: { $: 1 } }, { $: undefined }, { $: 1, a: 2 }],
    ],
    [
      "many that look like our own tags",
      Array.from({ length: 50 }, (_, at) => ({ $: ["text", at], pad: "x".repeat(at) })),
    ],
    [
      "characters that break things",
      ["\u0000", "\ud800", "\udc00", "\udc00\ud800", "\u2028", "\\u0000", '"', "\ufeff"],
    ],
    ["numbers in thousands", Array.from({ length: 5000 }, (_, at) => (at % 100 === 0 ? -0 : at))],
    ["lone surrogates in thousands", Array.from({ length: 3000 }, (_, at) => String.fromCharCode(0xd7f0 + at))],
    ["a key of many characters", { ["k".repeat(20_000)]: 1, ["K".repeat(200)]: { a: "x".repeat(20_000) } }],
    ["a Map with a key of many characters", new Map([["k".repeat(20_000), "v".repeat(20_000)]])],
  ])("is loaded exactly as it was saved: %s", async (_, state) => {
    for (const value of [state, { state }, [state, "pad".repeat(50)], new Map([["k", state]])]) {
      expect(exactText(await roundTrip(value))).toBe(exactText(value));
    }
  });

  it("keeps the order of its keys, also after the order has changed", async () => {
    const history = new History();
    for (const keys of [
      ["b", "a", "c"],
      ["a", "b", "c"],
      ["c", "a"],
      ["2", "1", "b", "a"],
    ]) {
      history.save({
        small: withKeys(...keys),
        large: withKeys(...keys, ...Array.from({ length: 30 }, (_, at) => `k${at}`)),
      });
      const loaded = (await history.load(-1)) as Record<string, object>;
      expect(Object.keys(loaded["small"] as object)).toEqual(Object.keys(withKeys(...keys)));
      expect(Object.keys(loaded["large"] as object).slice(0, keys.length)).toEqual(Object.keys(withKeys(...keys)));
    }
  });

  it.each<[string, (inside: unknown) => unknown]>([
    ["arrays", (inside) => [inside]],
    ["objects", (inside) => ({ inside })],
    ["long objects", (inside) => ({ pad: "x".repeat(300), inside })],
    ["long arrays", (inside) => ["x".repeat(300), inside]],
    ["Maps", (inside) => new Map([["k", inside]])],
    [
      "long Maps",
      (inside) =>
        new Map([
          ["pad", "x".repeat(300) as unknown],
          ["k", inside],
        ]),
    ],
    [
      "keys of Maps",
      (inside) =>
        new Map([
          ["x".repeat(300) as unknown, 1],
          [inside, 2],
        ]),
    ],
    ["Sets", (inside) => new Set([inside])],
    ["objects without a prototype", (inside) => Object.assign(Object.create(null) as object, { inside })],
  ])("may contain %s nested to the maximum depth", async (_, wrap) => {
    let state: unknown = "core";
    for (let depth = 0; depth < MAX_DEPTH; depth++) state = wrap(state);
    expect(exactText(await roundTrip(state))).toBe(exactText(state));
    expect(refusal(wrap(state)).message).toContain(`more than ${MAX_DEPTH} deep`);
  });

  it("keeps surrogate pairs at the boundary of a segment, also when the text is edited there", async () => {
    for (let shift = -3; shift <= 3; shift++) {
      const history = new History();
      let text = `${"x".repeat(SEGMENT_LENGTH + shift)}${"😀".repeat(SEGMENT_LENGTH)}`;
      for (const next of [
        text,
        `y${text}`,
        text.slice(1),
        `${text.slice(0, SEGMENT_LENGTH)}\ud83d`,
        `${text.slice(0, SEGMENT_LENGTH)}z${text.slice(SEGMENT_LENGTH)}`,
      ]) {
        text = next;
        history.save({ text, list: [text, [text]] });
        expect(exactText(await history.load(-1))).toBe(exactText({ text, list: [text, [text]] }));
      }
    }
  });

  it("may contain objects of another realm", async () => {
    const source =
      "({ a: [1, { b: 2 }], m: new Map([[1, 2]]), s: new Set([1]), d: new Date(5), u: new Uint8Array(3), n: Object.create(null) })";
    const [theirs, ours] = [vm.runInNewContext(source) as unknown, vm.runInThisContext(source) as unknown];
    expect(exactText(await roundTrip(theirs))).toBe(exactText(ours));
  });

  it("may contain dates created under fake timers", async () => {
    vi.useFakeTimers();
    try {
      expect(await roundTrip({ at: new Date(1234) })).toEqual({ at: new Date(1234) });
    } finally {
      vi.useRealTimers();
    }
  });

  it("may contain one object several times, which is then loaded as several objects", async () => {
    const shared = { text: "x".repeat(500) };
    const loaded = (await roundTrip({ a: shared, b: [shared, shared] })) as { a: object; b: object[] };
    expect(loaded).toEqual({ a: shared, b: [shared, shared] });
    expect(new Set([loaded.a, ...loaded.b]).size).toBe(3);
  });
});

describe("an unsupported value", () => {
  class Point {
    x = 1;
  }
  const cases: [string, () => unknown][] = [
    ["a function", () => () => 1],
    ["a class", () => Point],
    ["a symbol", () => Symbol("s")],
    ["a symbol as a key", () => ({ [Symbol("s")]: 1 })],
    ["a symbol as a key beside $", () => ({ $: 1, [Symbol("s")]: 1 })],
    ["a symbol as a key without a prototype", () => Object.assign(Object.create(null) as object, { [Symbol("s")]: 1 })],
    ["a symbol on an array", () => Object.assign([1], { [Symbol("s")]: 1 })],
    ["an array with named properties", () => Object.assign([1], { name: 1 })],
    ["a match of a regular expression", () => /x/.exec("x")],
    ["a Map with named properties", () => Object.assign(new Map(), { name: 1 })],
    ["a Set with named properties", () => Object.assign(new Set(), { name: 1 })],
    ["a Date with named properties", () => Object.assign(new Date(0), { name: 1 })],
    ["a URL with named properties", () => Object.assign(new URL("https://a.b"), { name: 1 })],
    ["an instance of a class", () => new Point()],
    ["an object made from another", () => Object.create({ inherited: 1 })],
    ["an instance of Error", () => new TypeError("x")],
    ["a subclass of Map", () => new (class Other extends Map {})()],
    ["a subclass of Map that is called Map", () => new { Map: class extends Map {} }.Map()],
    ["a subclass of Set that is called Set", () => new { Set: class extends Set {} }.Set()],
    ["a subclass of Array", () => new (class Other extends Array {})()],
    ["a subclass of Array that is called Array", () => new { Array: class extends Array {} }.Array()],
    ["a subclass of Date", () => new (class Other extends Date {})()],
    ["a subclass of Date that is called Date", () => new { Date: class extends Date {} }.Date()],
    ["a subclass of Uint8Array", () => new (class Other extends Uint8Array {})()],
    ["a subclass of Uint8Array that is called so", () => new { Uint8Array: class extends Uint8Array {} }.Uint8Array()],
    ["a subclass of URL", () => new (class Other extends URL {})("https://a.b")],
    ["a WeakMap", () => new WeakMap()],
    ["a Promise", () => Promise.resolve()],
    ["a regular expression", () => /x/],
    ["a boxed string", () => Object("x")],
    ["other numbers in an array buffer", () => new Float64Array(2)],
    ["an array buffer", () => new ArrayBuffer(2)],
    ["a generator", () => (function* () {})()],
    [
      "arguments",
      () =>
        (function () {
          return arguments;
        })(),
    ],
    ["what only pretends to be a URL", () => Object.create(URL.prototype)],
    ["what only pretends to be a Buffer", () => Object.create(Buffer.prototype)],
    ["what only pretends to be a Map", () => Object.create(Map.prototype)],
    [
      "a getter that throws",
      () => ({
        get bad() {
          throw new Error("no");
        },
      }),
    ],
    [
      "a proxy that throws",
      () =>
        new Proxy(
          { a: 1 },
          {
            ownKeys: () => {
              throw new Error("no");
            },
          },
        ),
    ],
    [
      "a revoked proxy",
      () => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
      },
    ],
  ];
  it.each(cases)("is rejected with its path: %s", (_, make) => {
    expect(refusal(make()).details["path"]).toBe("");
    const long = "x".repeat(500);
    const places: [string, (value: unknown) => unknown][] = [
      ["/a", (value) => ({ long, a: value })],
      ["/list/1", (value) => ({ list: [long, value] })],
      ["/a~1b/m~0n", (value) => ({ "a/b": { "m~n": value } })],
      [
        "/map/key",
        (value) =>
          new Map([
            [
              "map",
              new Map<string, unknown>([
                ["long", long],
                ["key", value],
              ]),
            ],
          ]),
      ],
      ["/set/0", (value) => ({ set: new Set([value]) })],
      ["/dict/k", (value) => ({ dict: Object.assign(Object.create(null) as object, { k: value }) })],
      ["/tagged/$", (value) => ({ tagged: { $: value } })],
      ["/map/0", (value) => ({ map: new Map([[value, long]]) })],
    ];
    for (const [path, place] of places) {
      for (const error of [refusal(place(make())), refusal(place(make()), place({ fine: long }))]) {
        expect(error.details["path"]).toBe(path);
        expect(error.message).toContain(path);
      }
    }
  });

  it("is rejected with its path: a hole in an array, also if the element was undefined before", () => {
    for (const part of [1, "x".repeat(500)]) {
      const sparse = [part, undefined, part];
      const before = { a: [...sparse] };
      Reflect.deleteProperty(sparse, 1);
      for (const error of [refusal({ a: sparse }), refusal({ a: sparse }, before)]) {
        expect(error.details["path"]).toBe("/a/1");
      }
    }
  });

  it.each<[string, () => unknown]>([
    [
      "an object",
      () => {
        const a: Record<string, unknown> = {};
        a["self"] = { a };
        return a;
      },
    ],
    [
      "an array",
      () => {
        const a: unknown[] = [1];
        a.push([a]);
        return a;
      },
    ],
    [
      "a Map's value",
      () => {
        const a = new Map<unknown, unknown>();
        a.set("self", [a]);
        return a;
      },
    ],
    [
      "a Map's key",
      () => {
        const a = new Map<unknown, unknown>();
        a.set({ a }, 1);
        return a;
      },
    ],
    [
      "a Set",
      () => {
        const a = new Set<unknown>();
        a.add({ a });
        return a;
      },
    ],
  ])("is rejected with its path: a cycle through %s", (_, make) => {
    for (const error of [refusal({ a: make() }), refusal({ a: make() }, { a: { self: "x".repeat(500) } })]) {
      expect(error.message).toContain("contains itself");
      expect(error.details["path"]).toMatch(/^\/a\//);
    }
  });

  it.each<[string, (inside: unknown) => unknown]>([
    ["arrays", (inside) => [inside]],
    ["objects", (inside) => ({ inside })],
    ["Maps", (inside) => new Map([["k", inside]])],
  ])("is rejected with its path: 100,000 nested %s", (_, wrap) => {
    let state: unknown = "core";
    for (let depth = 0; depth < 100_000; depth++) state = wrap(state);
    expect(refusal({ state }).message).toContain("too deep");
    expect(refusal({ state }, { state: ["x".repeat(500)] }).details["path"]).toMatch(/^\/state\//);
  });

  it("is rejected with its path: a cycle or too deep nesting that was frozen before", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = [cycle, cycle, { cycle }];
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    for (const state of [cycle, deep]) {
      freezeState(state, new ClassRegistry());
      refusal(state);
    }
  });
});

describe("registered classes", () => {
  class Money {
    constructor(
      readonly amount: bigint,
      public note?: unknown,
    ) {}
  }
  class Wallet {
    constructor(public coins: Money[]) {}
  }
  const money: StoredClass<Money, { amount: bigint; note: unknown }> = {
    name: "Money",
    class: Money,
    encode: (instance) => {
      if (instance.note === "unspeakable") throw new Error("no");
      return { amount: instance.amount, note: instance.note };
    },
    decode: (stored) => new Money(stored.amount, stored.note),
  };
  const wallet: StoredClass<Wallet, Money[]> = {
    name: "Wallet",
    class: Wallet,
    encode: (instance) => instance.coins,
    decode: (stored) => new Wallet(stored),
  };
  const registry = new ClassRegistry([money, wallet]);

  it("are loaded as instances at any place of a state", async () => {
    const coins = Array.from({ length: 50 }, (_, at) => new Money(BigInt(at), { at: new Date(at) }));
    const state = {
      one: new Money(1n),
      large: new Money(10n ** 200n, "x".repeat(20_000)),
      binary: new Money(2n, new Uint8Array(3000)),
      nested: new Wallet(coins),
      inNested: new Money(3n, new Wallet([new Money(4n)])),
      map: new Map<unknown, unknown>([
        ["key", new Money(5n)],
        [new Money(6n), "as a key"],
      ]),
      set: new Set([new Money(7n)]),
      list: coins,
    };
    const loaded = (await roundTrip(state, registry)) as typeof state;
    expect(exactText(loaded)).toBe(exactText(state));
    expect(loaded.nested.coins[3]).toBeInstanceOf(Money);
  });

  it("are written again only if they have changed", async () => {
    const history = new History(registry);
    const state = {
      large: new Money(10n ** 200n, "x".repeat(5000)),
      n: 10n ** 200n,
      wallet: new Wallet([new Money(1n)]),
    };
    history.save(state);
    const items = history.tapes[0]?.length;
    history.save(state);
    expect(history.tapes[0]?.length).toBe(items);
    (state.wallet.coins[0] as Money).note = "changed";
    history.save(state);
    expect(exactText(await history.load(-1))).toBe(exactText(state));
  });

  it("are rejected with INVALID_STATE and the name of the class if they are not registered on load", async () => {
    const history = new History(registry);
    history.save({ list: [new Money(1n)] });
    const shadow = await history.decode(0);
    const error = caught(() => shadowToValue(shadow, new ClassRegistry()));
    expect(isSavepointError(error, "INVALID_STATE")).toBe(true);
    expect(error.message).toContain("Money");
  });

  it("are rejected with their path if encode fails or returns an unsupported value", () => {
    const state = { wallet: new Wallet([new Money(1n, "unspeakable")]) };
    const before = { wallet: new Wallet([new Money(1n)]) };
    for (const error of [refusal(state, undefined, registry), refusal(state, before, registry)]) {
      expect(error.details["path"]).toBe("/wallet/Wallet/0");
      expect(error.cause).toBeInstanceOf(Error);
    }
    expect(refusal({ a: new Money(1n, () => 1) }, undefined, registry).details["path"]).toBe("/a/Money/note");
  });

  it("do not include their subclasses", () => {
    class Cents extends Money {}
    expect(refusal({ a: new Cents(1n) }, undefined, registry).details["path"]).toBe("/a");
  });

  it("cannot be registered twice, by name or by class", () => {
    const other = { ...wallet, name: "Money" };
    const again = { ...money, name: "Coin" };
    for (const classes of [
      [money, other],
      [money, money],
      [money, again],
    ]) {
      expect(
        isSavepointError(
          caught(() => new ClassRegistry(classes)),
          "INVALID_ARGUMENT",
        ),
      ).toBe(true);
    }
  });
});

describe("a mutation in place", () => {
  interface Mutable {
    date: Date;
    invalid: Date;
    map: Map<string, unknown>;
    large: Map<string, unknown>;
    set: Set<unknown>;
    bytes: Uint8Array;
    blob: Buffer;
    url: URL;
    object: Record<string, unknown>;
    entries: Record<string, unknown>;
    dict: Record<string, unknown>;
    list: unknown[];
    numbers: number[];
    text: string;
    big: bigint;
    tagged: { $: unknown };
  }
  const makeState = (): Mutable => ({
    date: new Date(0),
    invalid: new Date(Number.NaN),
    map: new Map([["a", { deep: [1] }]]),
    large: new Map(Array.from({ length: 40 }, (_, at) => [`key ${at}`, { text: "x".repeat(30) }])),
    set: new Set(["a", { deep: 1 }]),
    bytes: new Uint8Array([1, 2, 3]),
    blob: Buffer.alloc(3000),
    url: new URL("https://example.com/a"),
    object: { a: 0, b: undefined, c: { deep: "x" } },
    entries: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`key ${at}`, { at, text: "x".repeat(30) }])),
    dict: Object.assign(Object.create(null) as Record<string, unknown>, { a: 1 }),
    list: [undefined, 0, { a: "x".repeat(200) }, [[]]],
    numbers: Array.from({ length: 3000 }, () => 0),
    text: "x".repeat(10_000),
    big: 10n ** 200n,
    tagged: { $: ["date", 0] },
  });
  const reorder = (object: Record<string, unknown>, key: string): void => {
    const value = object[key];
    delete object[key];
    object[key] = value;
  };
  class Pretender {
    constructor(like: object) {
      Object.assign(this, like);
    }
  }
  const mutations: [string, (state: Mutable) => unknown][] = [
    ["Date.setTime", (state) => state.date.setTime(1)],
    ["a Date that becomes invalid", (state) => state.date.setTime(Number.NaN)],
    ["a Date that becomes valid", (state) => state.invalid.setTime(0)],
    ["Map.set", (state) => state.map.set("a", 1)],
    ["Map.set of undefined", (state) => state.map.set("b", undefined)],
    ["Map.delete", (state) => state.map.delete("a")],
    ["a change inside a Map", (state) => (state.map.get("a") as { deep: number[] }).deep.push(2)],
    ["a change inside a large Map", (state) => ((state.large.get("key 7") as { text: string }).text += "y")],
    [
      "the order of a Map",
      (state) => state.large.delete("key 0") && state.large.set("key 0", { text: "x".repeat(30) }),
    ],
    ["Set.add", (state) => state.set.add("b")],
    ["Set.delete", (state) => state.set.delete("a")],
    ["the order of a Set", (state) => state.set.delete("a") && state.set.add("a")],
    ["a change inside a Set", (state) => Object.assign([...state.set][1] as object, { deep: 2 })],
    ["a byte", (state) => (state.bytes[0] as number)++],
    ["a byte of many", (state) => (state.blob[2999] as number)++],
    ["bytes that become a Buffer", (state) => (state.bytes = Buffer.from(state.bytes))],
    ["a Buffer that becomes bytes", (state) => (state.blob = new Uint8Array(3000) as Buffer)],
    ["a part of a URL", (state) => (state.url.hash = "h")],
    ["0 that becomes -0", (state) => (state.object["a"] = -0)],
    ["0 that becomes -0 among thousands", (state) => (state.numbers[1500] = -0)],
    ["0 that becomes null among thousands", (state) => ((state.numbers as unknown[])[1500] = null)],
    ["0 that becomes false", (state) => (state.object["a"] = false)],
    ["undefined that becomes missing", (state) => delete state.object["b"]],
    ["undefined that becomes null", (state) => (state.object["b"] = null)],
    ["missing that becomes undefined", (state) => (state.object["d"] = undefined)],
    ["the order of keys", (state) => reorder(state.object, "a")],
    ["the order of many keys", (state) => reorder(state.entries, "key 0")],
    ["a key that is renamed", (state) => (state.object["C"] = state.object["c"]) && delete state.object["c"]],
    ["one of many entries", (state) => ((state.entries["key 20"] as { at: number }).at = -1)],
    [
      "an object that loses its prototype",
      (state) => (state.object = Object.assign(Object.create(null) as object, state.object) as never),
    ],
    ["an object that gains a prototype", (state) => (state.dict = { ...state.dict })],
    ["an object that becomes its entries", (state) => (state.object = Object.entries(state.object) as never)],
    ["a Map that becomes its entries", (state) => (state.map = [...state.map] as never)],
    ["a Set that becomes its members", (state) => (state.set = [...state.set] as never)],
    ["undefined that becomes an empty array", (state) => (state.list[0] = [])],
    ["a push deep down", (state) => ((state.list[3] as unknown[][])[0] as unknown[]).push(1)],
    ["an array that becomes an object", (state) => (state.list = Object.assign({}, state.list) as never)],
    ["a text that grows", (state) => (state.text += "y")],
    ["a text whose middle changes", (state) => (state.text = `${state.text.slice(0, 5000)}y${state.text.slice(5001)}`)],
    ["a text that becomes a list of its characters", (state) => (state.text = state.text.split("") as never)],
    ["a BigInt", (state) => state.big++],
    ["a BigInt that becomes its text", (state) => (state.big = String(state.big) as never)],
    [
      "what looks like our tag becomes what the tag means",
      (state) => ((state as { tagged: unknown }).tagged = new Date(0)),
    ],
  ];
  const registry = new ClassRegistry();

  it("is not detected in an unchanged state", () => {
    expect(equalsShadow(newShadow(makeState(), registry), makeState(), registry)).toBe(true);
  });

  it.each(mutations)("is detected: %s", async (_, mutate) => {
    const state = makeState();
    const shadow = newShadow(state, registry);
    expect(equalsShadow(shadow, state, registry)).toBe(true);
    mutate(state);
    expect(equalsShadow(shadow, state, registry)).toBe(false);

    for (const evicted of [false, true]) {
      const history = new History();
      const other = makeState();
      history.save(other);
      if (evicted) history.shadow = await history.decode(0);
      expect(equalsShadow(history.shadow as Shadow, other, registry)).toBe(true);
      mutate(other);
      expect(equalsShadow(history.shadow as Shadow, other, registry)).toBe(false);
      history.save(other);
      expect(exactText(await history.load(1))).toBe(exactText(other));
      expect(exactText(await history.load(0))).toBe(exactText(makeState()));
    }
  });

  it("is detected: an object replaced by an instance with equal keys, undefined by a hole", () => {
    const state = makeState();
    const shadow = newShadow(state, registry);
    state.object = new Pretender(state.object) as never;
    expect(equalsShadow(shadow, state, registry)).toBe(false);
    expect(refusal(state, makeState()).details["path"]).toBe("/object");

    const sparse = makeState();
    Reflect.deleteProperty(sparse.list, 0);
    expect(equalsShadow(shadow, sparse, registry)).toBe(false);
    expect(refusal(sparse, makeState()).details["path"]).toBe("/list/0");
  });

  it("affects neither the saved state nor other loaded copies", async () => {
    const history = new History();
    const state = makeState();
    const text = exactText(state);
    history.save(state);
    const shadow = history.shadow as Shadow;
    scramble(state);
    expect(exactText(shadowToValue(shadow, registry))).toBe(text);
    const decoded = await history.decode(0);
    for (const from of [shadow, decoded]) {
      scramble(shadowToValue(from, registry));
      expect(exactText(shadowToValue(from, registry))).toBe(text);
      expect(equalsShadow(from, makeState(), registry)).toBe(true);
    }
  });
});

/** Changes every mutable part of a value in place. */
function scramble(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (value instanceof Date) value.setTime(42);
  else if (value instanceof URL) value.pathname = "/scrambled";
  else if (value instanceof Uint8Array) value.fill(42);
  else if (value instanceof Map) {
    for (const part of value.values()) scramble(part);
    value.set("scrambled", true);
  } else if (value instanceof Set) {
    for (const part of value) scramble(part);
    value.add("scrambled");
  } else {
    for (const part of Object.values(value)) scramble(part);
    if (Array.isArray(value)) value.push("scrambled");
    else Object.assign(value, { scrambled: true });
  }
}

async function roundTrip(state: unknown, registry?: ClassRegistry): Promise<unknown> {
  const history = new History(registry);
  history.save(state);
  return history.load(0);
}

/** The error with which a state is rejected, on the first save or after another state. */
function refusal(state: unknown, before?: unknown, registry?: ClassRegistry): SavepointError {
  const history = new History(registry);
  if (before !== undefined) history.save(before);
  const error = caught(() => history.save(state));
  expect(error).toMatchObject({ code: "INVALID_STATE" });
  expect(history.checkpoints.length).toBe(before === undefined ? 0 : 1);
  return error;
}

function caught(act: () => unknown): SavepointError {
  try {
    act();
  } catch (error) {
    return error as SavepointError;
  }
  throw new Error("nothing was thrown");
}

function withKeys(...keys: string[]): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [index, key] of keys.entries()) setKey(object, key, index % 3 ? index : { text: `${key} `.repeat(9) });
  return object;
}

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes)),
  fc.constantFrom("$", "__proto__", "", "0", "12", "-1", "01", "toString", "\u0000", "a/b", "m~n"),
);
const longText = fc
  .tuple(text, fc.nat({ max: 5000 }))
  .map(([part, times]) => part.repeat(Math.min(times, 20_000 / (part.length + 1))));
const scalar = fc.oneof(
  text,
  longText,
  fc.double(),
  fc.integer(),
  fc.constantFrom(-0, Number.NaN, Infinity, -Infinity, null, undefined, true, false),
  fc.bigInt(),
  fc.date({ noInvalidDate: false }),
  fc.uint8Array(),
  fc.uint8Array({ minLength: 1000, maxLength: 1100 }),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  fc.webUrl({ withFragments: true, withQueryParameters: true }).map((url) => new URL(url)),
);

function record(entries: [string, unknown][], into: object): unknown {
  for (const [key, value] of entries) setKey(into as Record<string, unknown>, key, value);
  return into;
}

const { storable } = fc.letrec<{ storable: unknown }>((tie) => {
  const part = tie("storable");
  const few = fc.array(part, { maxLength: 6 });
  const entries = fc.array(fc.tuple(text, part), { maxLength: 6 });
  const manyEntries = fc.array(fc.tuple(text, scalar), { minLength: 17, maxLength: 40 });
  return {
    storable: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      scalar,
      few,
      fc.array(scalar, { maxLength: 60 }),
      fc.array(fc.integer({ min: -1, max: 9 }), { minLength: 2500, maxLength: 2600 }),
      entries.map((pairs) => record(pairs, {})),
      manyEntries.map((pairs) => record(pairs, {})),
      entries.map((pairs) => record(pairs, Object.create(null) as object)),
      fc.array(fc.tuple(part, part), { maxLength: 6 }).map((pairs) => new Map(pairs)),
      few.map((members) => new Set(members)),
    ),
  };
});
