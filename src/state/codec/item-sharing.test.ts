import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exactText, History } from "../../../test/support/states/history.js";
import { runs } from "../../../test/support/runs.js";

const message = (id: number, length = 1500): { id: number; content: string } => ({
  id,
  content: `${id} `.repeat(length).slice(0, length),
});
const messages = (count: number): object[] => Array.from({ length: count }, (_, id) => message(id));

/** The number of items after each of these states was saved. */
function itemsAfter(...states: unknown[]): { readonly counts: number[]; readonly history: History } {
  const history = new History();
  const counts = states.map((state) => {
    history.save(state);
    return history.tapes[0]?.length ?? 0;
  });
  return { counts, history };
}

describe("equal parts of a state", () => {
  it("are stored once: the same messages in two lists", async () => {
    const state = (count: number): object => ({ messages: messages(count), log: messages(count) });
    const { counts, history } = itemsAfter(state(50), state(51), state(52));
    expect(counts).toEqual([50, 51, 52]);
    // Both lists refer to one range, because their new elements are the same items.
    expect(history.checkpoint(2).skeleton.refs).toBe("0+52;0+52");
    expect(await history.load(2)).toEqual(state(52));
  });

  it("are stored once: a subtree in several places, at several depths", async () => {
    const part = (): object => ({ title: "report", sections: messages(30) });
    const once = itemsAfter({ a: part() }).counts[0] as number;
    const state = { a: part(), b: part(), c: { d: part() }, e: [part()] };
    const { counts, history } = itemsAfter(state);
    // The frame of a part in a list is an item of its own.
    expect(counts[0]).toBeLessThanOrEqual(once + 1);
    expect(await history.load(0)).toEqual(state);
  });

  it("are stored once: a long string in two places", async () => {
    const text = Array.from({ length: 20_000 }, (_, at) => at).join(" ");
    const once = itemsAfter({ text }).counts[0];
    const { counts, history } = itemsAfter({ text, prompt: { text } });
    expect(counts[0]).toBe(once);
    expect(await history.load(0)).toEqual({ text, prompt: { text } });
  });

  it("are stored again if they are small, because ranges cost more than they save", () => {
    const small = Array.from({ length: 20 }, (_, at) => message(at % 2, 100));
    const { history } = itemsAfter({ messages: small });
    expect(history.checkpoint(0).skeleton.refs).toBe("0+20");
  });

  it("can be changed in one place and are unchanged in the other", async () => {
    const before = { messages: messages(40), log: messages(40) };
    const after = { messages: messages(40).map((each, at) => (at === 7 ? message(99) : each)), log: messages(39) };
    const { history } = itemsAfter(before, after);
    expect(await history.load(0)).toEqual(before);
    expect(await history.load(1)).toEqual(after);
  });

  it("can be so many that a reader would reject a state in which one item stands for all of them", async () => {
    const state = { messages: Array.from({ length: 25_000 }, () => message(1, 1100)) };
    const { counts, history } = itemsAfter(state);
    expect(counts[0]).toBeLessThan(3000);
    expect(await history.load(0)).toEqual(state);
  });

  it("do not change the loaded state, after any edits and after it was loaded again", async () => {
    const part = fc.oneof(
      fc.integer({ min: 0, max: 5 }).map((id) => message(id)),
      fc.integer({ min: 0, max: 3 }).map((id) => ({ id, parts: messages(id + 1) })),
      fc.integer({ min: 0, max: 3 }).map((id) => message(id, 20_000).content),
      fc.integer({ min: 0, max: 9 }),
    );
    const list = fc.array(part, { maxLength: 60 });
    const state = fc.record({ a: list, b: list, c: fc.record({ list, part }), d: fc.dictionary(fc.string(), part) });
    await fc.assert(
      fc.asyncProperty(fc.array(state, { minLength: 1, maxLength: 5 }), fc.boolean(), async (states, isReloading) => {
        const history = new History();
        for (const [step, each] of states.entries()) {
          history.save(each);
          if (isReloading) history.shadow = await history.decode(step);
        }
        for (const [step, each] of states.entries()) expect(exactText(await history.load(step))).toBe(exactText(each));
      }),
      { numRuns: runs(200) },
    );
  });
});
