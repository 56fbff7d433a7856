/**
 * A few points of the loop, with modes and policies in turn, and two of its writes; with `STORES=all` every point once. Every passing of
 * every point and every write is in `every-passing.slow.test.ts`.
 */
import { describe, it } from "vitest";
import { isFull } from "../support/runs.js";
import type { Variant } from "./crew.mjs";
import { enumerateKillings, killAll, POLICIES } from "./matrix-suite.js";

/** A model call, a nested tool, a write beside an approval: a little of everything. */
const FEW = ["one model clerk 1", "one tool one-e end", "two approved", "two waiting"];

describe(`the loop of the OpenAI Agents SDK, killed at ${isFull ? "every point" : "a few points"}`, () => {
  it(
    "a loop that is killed reaches the same result, pays for no reply twice, and repeats a tool only if its policy allows it",
    { timeout: 300_000 },
    async () => {
      const modes = isFull ? (["run", "stream"] as const) : (["stream"] as const);
      const all = (await Promise.all(modes.map((mode) => enumerateKillings({ mode, policy: "ask" })))).flat();
      const firsts = all.filter(({ death }) => death.passing === 1 && (isFull || FEW.includes(death.point)));
      const writes = all.filter(({ death }) => death.point === "store durable");
      const [one, two] = [writes[writes.length >> 2], writes[(3 * writes.length) >> 2]];
      const varied = firsts.map(({ variant, death }, index) => {
        const policy = POLICIES[index % POLICIES.length] as Variant["policy"];
        const mode = index % 2 === 0 && !/event/.test(death.point) ? "run" : variant.mode;
        return { death, variant: { ...variant, mode, policy } };
      });
      await killAll([...varied, ...(isFull ? writes : [one, two].flatMap((each) => each ?? []))]);
    },
  );
});
