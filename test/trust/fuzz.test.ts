/** A part of the fuzzer's cases; `npm run test:fuzz` runs any number of them. */
import { expect, it } from "vitest";
import { isFull } from "../support/runs.js";
import { fuzz, STORES } from "./fuzz/campaign.mjs";

/** The cases of every run, for each store; with `STORES=all` also one that no run has had before. */
const FIXED = [1, 2, 3, 4];
/** The cases that are left after this time do not run. */
const MILLISECONDS = isFull ? 15_000 : 7_000;

it("a store or bundle that an attacker changed crashes nothing, changes no other session and executes no run", async () => {
  const seeds = isFull ? [...FIXED, Math.floor(Math.random() * 2 ** 31)] : FIXED;
  const cases = seeds.flatMap((seed) => STORES.map((store) => ({ store, seed })));
  const { outcomes, groups } = await fuzz(cases.values(), { stores: STORES, milliseconds: MILLISECONDS, children: 2 });
  const found = groups.map(({ cause, example: { store, seed, message } }) => ({
    cause,
    message,
    repeat: `npm run test:fuzz -- --store ${store} --seed ${seed} --cases 1`,
  }));
  expect(found).toEqual([]);
  // The changes matter: some of them are noticed. On a busy machine only the first cases run.
  if (outcomes.length === cases.length) expect(outcomes.some(({ rejections }) => rejections > 0)).toBe(true);
});
