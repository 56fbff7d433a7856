import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyValue, editAnywhere } from "./any-state.testing.js";
import { edit, newEditedState } from "./edited-state.testing.js";
import { exactText, History, seeded } from "./history.testing.js";

const seed = fc.integer({ min: 0, max: 2 ** 31 - 1 });

describe("a state saved step by step", () => {
  it("reads back exactly at every step, whatever was edited and evicted in between", async () => {
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
      { numRuns: 150 },
    );
  });

  it("reads back exactly whatever kind of value stands where, and becomes what, on whichever branch", async () => {
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
      { numRuns: Number(process.env["RUNS"] ?? 500) },
    );
  });
});
