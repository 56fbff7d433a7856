import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyValue, editAnywhere, type Random } from "../../../test/support/states/any-state.js";
import { appendElements } from "./append.js";
import { ListNode, type ShadowObject } from "./shadow.js";
import { freezeState } from "./shadow-to-value.js";
import { edit, newEditedState } from "../../../test/support/states/edited-state.js";
import { exactText, History, seeded } from "../../../test/support/states/history.js";
import { runs } from "../../../test/support/runs.js";

const seed = fc.integer({ min: 0, max: 2 ** 31 - 1 });

describe("a state that is saved repeatedly", () => {
  it("is loaded exactly at every step, after any edits and with shadows that are loaded again", async () => {
    await fc.assert(
      fc.asyncProperty(seed, fc.integer({ min: 1, max: 25 }), async (start, steps) => {
        const random = seeded(start);
        const history = new History();
        const copies: unknown[] = [];
        const state = newEditedState(random);
        for (let step = 0; step < steps; step++) {
          edit(state, random);
          copies.push(structuredClone(state));
          const bytes = history.save(state);
          if (random(4) === 0) history.shadow = await history.decode(step);
          expect(bytes).toBe(new History().save(state));
        }
        for (const [step, copy] of copies.entries()) {
          const loaded = await history.load(step);
          if (!isDeepStrictEqual(loaded, copy)) expect(loaded).toEqual(copy);
          expect(JSON.stringify(loaded)).toBe(JSON.stringify(copy));
        }
      }),
      { numRuns: runs(25, 4) },
    );
  });

  it("is loaded exactly at every step, with any kinds of values, on any branch", async () => {
    await fc.assert(
      fc.asyncProperty(seed, fc.integer({ min: 1, max: 25 }), async (start, steps) => {
        const random = seeded(start);
        const history = new History();
        const texts: string[] = [];
        let state: unknown = { one: anyValue(random, 4), list: [anyValue(random, 4), anyValue(random, 4)] };
        for (let step = 0; step < steps; step++) {
          for (let times = random(4); times > 0; times--) state = editAnywhere(state, random);
          texts.push(exactText(state));
          history.save(state);
          if (random(4) === 0) history.shadow = await history.decode(step);
          if (random(8) === 0) {
            const from = random(step + 1);
            await history.fork(from);
            state = await history.load(from);
          }
        }
        for (const [step, text] of texts.entries()) expect(exactText(await history.load(step))).toBe(text);
      }),
      { numRuns: runs(60) },
    );
  });

  it("is loaded exactly at every step if unchanged parts of a frozen state are detected by identity", async () => {
    await fc.assert(
      fc.asyncProperty(seed, async (start) => {
        const random = seeded(start);
        const history = new History();
        const texts: string[] = [];
        const list = Array.from({ length: 30 }, (_, id): unknown => ({ id, text: "some words ".repeat(random(30)) }));
        let state: unknown = { list, deep: { list: [...list] }, [`k${random(9)}`]: list };
        let before: unknown;
        for (let step = 0; step < 15; step++) {
          expect(freezeState(state, history.registry, before)).toBe(true);
          history.save(state, before);
          texts.push(exactText(state));
          before = state;
          for (let times = random(3); times > 0; times--) state = updated(state, random);
        }
        for (const [step, text] of texts.entries()) expect(exactText(await history.load(step))).toBe(text);
      }),
      { numRuns: runs(25, 4) },
    );
  });

  it("is loaded exactly after elements are appended to a list without a comparison", async () => {
    const history = new History();
    const list: unknown[] = Array.from({ length: 20 }, (_, id) => ({ id, text: "some words ".repeat(5) }));
    history.save({ list });
    for (const values of [
      [1],
      [],
      [undefined, { text: "x".repeat(20_000) }, new Map([["k", new Date(0)]])],
      ["last"],
    ]) {
      const node = (history.shadow as ShadowObject)["list"];
      if (!(node instanceof ListNode)) throw new Error("a list of this size is a list of items");
      appendElements(node, values, history.registry, { parent: undefined, key: "list" });
      list.push(...values);
      expect(history.commit()).toBe(new History().save({ list }));
      expect(exactText(await history.load(-1))).toBe(exactText({ list }));
    }
    history.save({ list: list.slice(1) });
    expect(exactText(await history.load(-1))).toBe(exactText({ list: list.slice(1) }));
  });

  it("is loaded exactly if large elements are equal, moved, duplicated and edited at the same time", async () => {
    // Only large elements contain lists, which are revised in place and must never be in two places.
    const line = "a line of a log that is long enough ".repeat(8);
    const makeElement = (random: Random): LargeElement => ({
      id: random(2),
      log: Array.from({ length: 40 }, (_, at) => line + (at % 5)),
    });
    await fc.assert(
      fc.asyncProperty(seed, async (start) => {
        const random = seeded(start);
        const history = new History();
        const texts: string[] = [];
        const list = Array.from({ length: 5 }, () => makeElement(random));
        const state = { list, map: new Map<string, LargeElement>(), entries: {} as Record<string, LargeElement> };
        for (let step = 0; step < 12; step++) {
          for (let times = 1 + random(4); times > 0; times--) {
            const at = random(list.length);
            const element = list[at] ?? makeElement(random);
            switch (random(9)) {
              case 0:
                list.splice(random(list.length + 1), 0, makeElement(random));
                break;
              case 1:
                list.splice(random(list.length + 1), 0, structuredClone(element));
                break;
              case 2:
                list.splice(random(list.length + 1), 0, element);
                break;
              case 3:
                if (list.length > 3) list.splice(at, 1 + random(2));
                break;
              case 4:
                list.push(...list.splice(at, 1));
                break;
              case 5:
                state.map.set(`k${random(3)}`, random(2) ? element : structuredClone(element));
                break;
              case 6:
                state.entries[`k${random(30)}`] = element;
                break;
              case 7:
                element.log.splice(random(element.log.length), random(2), `${line}${random(3)}`);
                break;
              default:
                element.id = random(2);
            }
          }
          texts.push(exactText(state));
          history.save(state);
          if (random(6) === 0) history.shadow = await history.decode(step);
        }
        for (const [step, text] of texts.entries()) expect(exactText(await history.load(step))).toBe(text);
      }),
      { numRuns: runs(25, 4) },
    );
  });
});

interface LargeElement {
  id: number;
  log: string[];
}

/** A new state with one change that shares everything else with the old one, as `update` returns it. */
function updated(value: unknown, random: Random): unknown {
  if (Array.isArray(value)) {
    const copy = [...(value as unknown[])];
    const at = random(copy.length);
    const kind = random(8);
    if (copy.length === 0 || kind === 0) copy.push({ id: random(99), text: "new words" });
    else if (kind === 1) copy.splice(at, 1 + random(3));
    else if (kind === 2) copy.splice(random(copy.length), 0, ...copy.splice(at, 1));
    else if (kind === 3) copy.splice(random(copy.length), 0, copy[at]);
    else if (kind === 4) copy.reverse();
    else copy[at] = updated(copy[at], random);
    return copy;
  }
  if (typeof value !== "object" || value === null) return random(2) ? `words ${random(99)}` : [value, random(99)];
  const keys = Object.keys(value);
  const key = random(6) === 0 ? `k${random(30)}` : (keys[random(keys.length)] ?? "k");
  if (random(10) === 0) return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
  // Sometimes the value of another key: an identical object at another place.
  const from = random(5) === 0 ? (keys[random(keys.length)] ?? key) : key;
  return { ...value, [key]: updated((value as Record<string, unknown>)[from], random) };
}
