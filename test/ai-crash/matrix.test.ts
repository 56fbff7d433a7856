import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES } from "./matrix-suite.js";
import type { Variant } from "./shop.mjs";

// Every point of each version once, with modes and policies in turn. All of them with each other take minutes: they are in
// matrix.slow.test.ts.
describe.each([6, 7] as const)("the loop of AI SDK %i, killed at every point", { concurrent: true }, (sdk) => {
  it("comes to the same end, pays for no reply twice, and runs no tool again but by its policy", async () => {
    const variants = (["generate", "stream"] as const).map((mode): Variant => ({ sdk, mode, policy: "ask" }));
    const [generate = [], stream = []] = await Promise.all(variants.map((variant) => enumerateKillings([variant])));
    const firsts = generate.filter(({ death }) => death.passing === 1);
    const killings = firsts.map(({ variant, death }, index) => {
      const policy = POLICIES[(index >> 1) % POLICIES.length] as Variant["policy"];
      const streamed = stream.filter((each) => each.death.point === death.point);
      // A point of a stream is passed with each of its parts: one in the middle.
      const chosen = index % 2 === 0 ? undefined : streamed[streamed.length >> 1];
      return chosen
        ? { ...chosen, variant: { ...chosen.variant, policy } }
        : { variant: { ...variant, policy }, death };
    });
    await killAll(killings, sdk);
  });
});
