import vm from "node:vm";
import fc from "fast-check";
import { it, expect } from "vitest";
import { History, exactText, seeded } from "./history.testing.js";
import { ClassRegistry } from "./registry.js";
import { anyValue, editAnywhere } from "./any-state.testing.js";
import { newShadow, reviseShadow, appendElements } from "./revise.js";
import { encodeShadow } from "./encode.js";

const tryIt = (f: () => unknown) => { try { return f(); } catch (e: any) { return `${e.name}/${e.code}: ${e.message.slice(0,200)} path=${JSON.stringify(e.details?.path)?.slice(0,80)}`; } };
it("big bigint", () => {
  const h = new History();
  const s = { n: 10n ** 200n };
  h.save(s); const a = h.tapes[0]!.length; h.save(s); console.log("bigint items", a, h.tapes[0]!.length);
});
it("map path", () => {
  const reg = new ClassRegistry();
  const big = () => new Map<string, unknown>(Array.from({ length: 20 }, (_, i) => ["key" + i, { text: "x".repeat(20) }]));
  const h = new History();
  const s = { map: big() };
  h.save(s);
  (s.map.get("key3") as any).f = () => 1;
  console.log(tryIt(() => h.save(s)), tryIt(() => new History().save(s)));
  void reg;
});
it("depth in map", () => {
  const nest = (n: number) => { let v: unknown = 1; for (let i = 0; i < n; i++) v = [v]; return v; };
  for (const n of [495,496,497,498,499,500]) {
    const h = new History();
    const s = { map: new Map<string, unknown>(Array.from({ length: 20 }, (_, i) => ["key" + i, { text: "x".repeat(20) }])) };
    h.save(s);
    s.map.set("deep", nest(n));
    console.log(n, String(tryIt(() => h.save(s))).slice(0,60), String(tryIt(() => new History().save(s))).slice(0,60));
  }
});
it("subclass with builtin name", () => {
  const o = { Map: class extends Map {}, Date: class extends Date {}, Array: class extends Array {}, Uint8Array: class extends Uint8Array {}, Set: class extends Set {} };
  for (const C of Object.values(o)) console.log(C.name, tryIt(() => new History().save({ v: new (C as any)() })));
});
it("odd", () => {
  const cases: Record<string, () => unknown> = {
    urlproto: () => Object.create(URL.prototype), bufproto: () => Object.create(Buffer.prototype), mapproto: () => Object.create(Map.prototype),
    revoked: () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; },
    throwing: () => new Proxy({ a: 1 }, { get() { throw new Error("boom"); } }),
    getter: () => ({ get a() { throw new Error("boom"); } }),
    dateprops: () => Object.assign(new Date(0), { a: 1 }), mapprops: () => Object.assign(new Map(), { a: 1 }),
    vm: () => vm.runInNewContext("({a:[1,{b:2}], m:new Map([[1,2]]), d:new Date(0), s:new Set([1]), u: new Uint8Array(3), n: Object.create(null)})"),
    gen: () => (function* () {})(), args: () => (function (..._a: unknown[]) { return arguments; })(1, 2),
    float: () => new Float64Array(2), ab: () => new ArrayBuffer(2), rx: () => /x/, box: () => Object("s"), sab: () => new Uint8Array(new SharedArrayBuffer(4)),
    math: () => Math, obj2: () => Object.create({}), mapAsObj: () => Object.setPrototypeOf(new Map([[1, 2]]), Object.prototype),
    fn: () => () => 1, sym: () => Symbol("x"), err: () => new Error("x"), headers: () => new Headers({ a: "b" }), blob: () => new Blob(["x"]), tz: () => new URLSearchParams("a=b"),
    nonEnum: () => Object.defineProperty({ b: 1 }, "a", { value: 1 }),
    protoSetter: () => JSON.parse('{"__proto__":{"x":1},"constructor":2}'),
  };
  for (const [name, make] of Object.entries(cases)) console.log(name, tryIt(() => new History().save({ v: make() })));
});
it("class throwing encode", () => {
  class M { constructor(public v: unknown) {} }
  const reg = new ClassRegistry([{ name: "M", class: M, encode: (m: M) => { if (m.v === "bad") throw new Error("no"); return m.v; }, decode: (v: never) => new M(v) }]);
  const h = new History(reg); const s = { deep: { m: new M("ok"), pad: "x".repeat(300) } };
  h.save(s); s.deep.m.v = "bad"; console.log(tryIt(() => h.save(s)), tryIt(() => new History(reg).save(s)));
  s.deep.m.v = () => 1; console.log(tryIt(() => new History(reg).save(s)));
  const cyc = new ClassRegistry([{ name: "M", class: M, encode: (m: M) => m as unknown, decode: (v: never) => new M(v) }]);
  console.log(tryIt(() => new History(cyc).save({m: new M(1)})));
});
it("bytes agree", async () => {
  let bad = 0, n = 0; const kinds: Record<string, number> = {};
  for (let s = 0; s < 600; s++) {
    const random = seeded(s * 7919 + 1);
    const h = new History(); let state: unknown = { one: anyValue(random, 4), list: [anyValue(random, 4)] };
    for (let step = 0; step < 8; step++) {
      state = editAnywhere(state, random);
      const b = h.save(state); const f = new History().save(state); n++;
      if (b !== f) { bad++; if (bad < 6) console.log("seed", s, step, b, f, exactText(state).slice(0, 300)); break; }
      const dec = new History();
      const loaded = await h.decode(step);
      const e = encodeShadow(loaded, 0, h.tapes[0]!.length);
      if (e.stateBytes !== b || e.items.length) { bad++; if (bad < 6) console.log("DEC seed", s, step, b, e.stateBytes, e.items.length, exactText(state).slice(0, 300)); break; }
      void dec;
    }
  }
  console.log({ bad, n, kinds });
});
it("big lists", async () => {
  const h = new History();
  const s = { l: Array.from({ length: 200_000 }, (_, i) => ({ id: i, text: "some text for the element " + i })) };
  h.save(s); s.l.splice(100, 1); s.l.push({ id: -1, text: "x" }); h.save(s);
  s.l.reverse(); const t = performance.now(); h.save(s); console.log("reverse ms", performance.now() - t, h.tapes[0]!.length);
  expect((await h.load(2) as any).l.length).toBe(200_000);
});
it("append", async () => {
  const h = new History(); const s: any = { l: Array.from({ length: 20 }, (_, i) => ({ id: i, text: "some text for the element " + i })) };
  h.save(s);
  const reg = h.registry; const list = (h.shadow as any).l;
  appendElements(list, [1, undefined, { a: "x".repeat(20000) }], reg, { parent: undefined, key: "l" });
  s.l.push(1, undefined, { a: "x".repeat(20000) });
  const enc = encodeShadow(h.shadow!, 0, h.tapes[0]!.length); h.tapes[0]!.push(...enc.items); h.checkpoints.push({ skeleton: enc.skeleton, tape: 0 });
  expect(exactText(await h.load(1))).toBe(exactText(s));
  expect(enc.stateBytes).toBe(new History().save(s));
  appendElements(list, [], reg, { parent: undefined, key: "l" });
  const e2 = encodeShadow(h.shadow!, 0, h.tapes[0]!.length); console.log("empty append", e2.items.length, e2.skeleton);
});
void fc; void newShadow; void reviseShadow;
