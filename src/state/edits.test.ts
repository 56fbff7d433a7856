import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { edit, newEditedState } from "./edited-state.testing.js";
import { History, seeded } from "./history.testing.js";

describe("a state saved step by step", () => {
  it("reads back exactly at every step, whatever was edited and evicted in between", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        fc.integer({ min: 1, max: 25 }),
        async (seed, steps) => {
          const random = seeded(seed);
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
        },
      ),
      { numRuns: 150 },
    );
  });
});
