import { describe, expect, it } from "vitest";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

class Money {
  constructor(
    readonly amount: number,
    readonly currency: string,
  ) {}
}

const money = {
  name: "Money",
  class: Money,
  encode: ({ amount, currency }: Money) => ({ amount, currency }),
  decode: ({ amount, currency }: { amount: number; currency: string }) => new Money(amount, currency),
};

describe.each(STORES)("memory on $name", (kind) => {
  const data = useData(kind);

  it.each([1, 20_000, 128 * 2 ** 20])("changes nothing but speed: %d bytes for many sessions", async (cacheBytes) => {
    const sp = await data.open({ cacheBytes, durability: "process" });
    const states = Array.from({ length: 12 }, (_, n) => ({ n, list: messages(10 + n), note: "" }));
    const stored = new Map<number, number[]>();
    const handles = states.map((_, n) => sp.session(`s${n}`));
    for (let round = 0; round < 8; round++) {
      await Promise.all(
        states.map(async (state, n) => {
          state.list.push(message(round));
          state.note += "x".repeat(round * n);
          const info = await handles[n]?.save(state);
          stored.set(n, [...(stored.get(n) ?? []), info?.storedBytes ?? 0]);
        }),
      );
      const fork = await handles[round]?.fork({ seq: round }, { branch: `b${round}` });
      await fork?.append("/list", [message(77)]);
    }
    const again = await data.open();
    for (const [n, state] of states.entries()) {
      expect((await again.session(`s${n}`).latest())?.state).toEqual(state);
      expect(
        stored
          .get(n)
          ?.slice(2)
          .every((bytes) => bytes < 2000),
      ).toBe(true);
    }
    for (let round = 0; round < 8; round++) {
      const latest = await again.session<(typeof states)[0]>(`s${round}`, { branch: `b${round}` }).latest();
      expect(latest?.state.list).toHaveLength(10 + round + round + 1 + 1);
    }
  });

  it("is freed for unused handles, which continue to work", async () => {
    const sp = await data.open({ cacheBytes: 1 });
    const [one, two] = [sp.session<{ list: unknown[] }>("one"), sp.session<{ list: unknown[] }>("two")];
    await one.save({ list: messages(20) });
    for (let n = 0; n < 5; n++) {
      await two.save({ list: messages(n) });
      await one.append("/list", [message(n)]);
      await two.update((state) => ({ list: [...(state?.list ?? []), n] }));
      await one.update((state) => ({ list: [...(state?.list ?? []), n] }));
      expect((await one.rewind({ seq: 0 })).kind).toBe("recovery");
      expect((await one.latest())?.state.list).toEqual(messages(20));
    }
  });

  it("holds instances of classes that the caller has registered", async () => {
    const sp = await data.open({ classes: [money] });
    const session = sp.session<{ list: unknown[]; price: Money }>("s");
    const state = { list: messages(20), price: new Money(1, "EUR") };
    await session.save(state, { metadata: { paid: new Money(3, "EUR") } });
    await session.append("/list", [new Money(5, "USD")]);
    const loaded = await (await data.open({ classes: [money] })).session<typeof state>("s").latest();
    expect(loaded?.state).toStrictEqual({ list: [...messages(20), new Money(5, "USD")], price: new Money(1, "EUR") });
    expect(loaded?.state.price).toBeInstanceOf(Money);
    expect((await session.load({ seq: 0 }))?.metadata["paid"]).toStrictEqual(new Money(3, "EUR"));
    expect((await session.diff({ seq: 0 }, { seq: 1 })).map(({ op, path }) => [op, path])).toEqual([
      ["add", "/list/20"],
    ]);
    await expect((await data.open()).session("s").latest()).rejects.toMatchObject({ code: "INVALID_STATE" });
    await expect((await data.open()).session("t").save(state)).rejects.toMatchObject({ code: "INVALID_STATE" });
    await expect(data.open({ classes: [money, money] })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});
