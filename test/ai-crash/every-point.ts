/**
 * A few points of a version's loop, with modes and policies in turn, and a few of its writes; with `STORES=all` every point. Every
 * passing of every point and every write is in `every-passing-*.slow.test.ts`.
 */
import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES } from "./matrix-suite.js";
import type { Variant } from "./shop.mjs";
import { isFull } from "../support/runs.js";

export function everyPointSuite(sdk: 6 | 7): void {
  describe(`the loop of AI SDK ${sdk}, killed at ${isFull ? "every point" : "two points"}`, () => {
    it(
      "a loop that is killed reaches the same result, pays for no reply twice, and repeats a tool only if its policy allows it",
      { timeout: 300_000 },
      async () => {
        const variants = (["generate", "stream"] as const).map((mode): Variant => ({ sdk, mode, policy: "ask" }));
        const [generate = [], stream = []] = await Promise.all(variants.map(enumerateKillings));
        const firsts = generate.filter(({ death }) => death.passing === 1 && !death.point.startsWith("store "));
        const writes = [...generate, ...stream].filter(({ death }) => death.point === "store durable");
        const killings = firsts.map(({ variant, death }, index) => {
          const policy = POLICIES[(index >> 1) % POLICIES.length] as Variant["policy"];
          const streamed = stream.filter((each) => each.death.point === death.point);
          // A point of a stream is passed with each of its parts: take one in the middle.
          const chosen = index % 2 === 0 ? undefined : streamed[streamed.length >> 1];
          return chosen
            ? { ...chosen, variant: { ...chosen.variant, policy } }
            : { variant: { ...variant, policy }, death };
        });
        // In the middle of the first half, and of the second.
        const few = [killings[killings.length >> 2], killings[(3 * killings.length) >> 2]];
        const fewWrites = [writes[writes.length >> 2], writes[(3 * writes.length) >> 2]];
        const chosen = isFull ? [...killings, ...writes] : [...few, ...fewWrites];
        await killAll(
          chosen.flatMap((killing) => killing ?? []),
          sdk,
        );
      },
    );
  });
}
