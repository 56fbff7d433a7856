/** Every pass of every point of a version's loop, with each policy, in both modes and on two stores: takes minutes. */
import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES, STORE_KINDS } from "./matrix-suite.js";

export function everyPassingSuite(sdk: 6 | 7): void {
  const modes = ["generate", "stream"] as const;
  // The mode decides which points are passed, the policy what happens to an interrupted tool; the store affects neither.
  const variants = POLICIES.map((policy, index) => ({
    sdk,
    policy,
    mode: modes[(index + sdk) % modes.length] as (typeof modes)[number],
    store: STORE_KINDS[(index >> 1) % STORE_KINDS.length] as (typeof STORE_KINDS)[number],
  }));
  describe(`the loop of AI SDK ${sdk}, killed at every passing of every point`, () => {
    it.each(variants)("$mode, with the policy $policy, on $store", { timeout: 900_000 }, async (variant) =>
      killAll(await enumerateKillings(variant), sdk),
    );
  });
}
