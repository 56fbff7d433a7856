/**
 * A few points of the loop, with modes and policies in turn, and one of its writes; with `STORES=all` every point once. Every passing of
 * every point and every write is in `every-passing.slow.test.ts`.
 */
import { describe, it } from "vitest";
import { isFull } from "../support/runs.js";
import type { Variant } from "./crew.mjs";
import { enumerateKillings, killAll, POLICIES } from "./matrix-suite.js";

/** A nested tool, and an approval. */
const FEW = ["one tool one-e end", "two approved"];

describe(`the loop of the OpenAI Agents SDK, killed at ${isFull ? "every point" : "a few points"}`, () => {
  it(
    "a loop that is killed reaches the same result, pays for no reply twice, and repeats a tool only if its policy allows it",
    { timeout: 300_000 },
    async () => {
      const modes = isFull ? (["run", "stream"] as const) : (["stream"] as const);
      const all = (await Promise.all(modes.map((mode) => enumerateKillings({ mode, policy: "ask" })))).flat();
      const firsts = all.filter(({ death }) => death.passing === 1 && (isFull || FEW.includes(death.point)));
      const writes = all.filter(({ death }) => death.point === "store durable");
      const some = writes.slice(writes.length >> 1, (writes.length >> 1) + 1);
      const varied = firsts.map(({ variant, death }, index) => {
        const policy = POLICIES[index % POLICIES.length] as Variant["policy"];
        const mode = index % 2 === 0 && !/event/.test(death.point) ? "run" : variant.mode;
        return { death, variant: { ...variant, mode, policy } };
      });
      await killAll([...varied, ...(isFull ? writes : some)]);
    },
  );
});
