/** Every passing of every point of a version's loop, in each mode, with each policy, on each store: minutes. */
import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES, STORE_KINDS } from "./matrix-suite.js";

export function everyPassingSuite(sdk: 6 | 7): void {
  describe.each(STORE_KINDS)(`the loop of AI SDK ${sdk} on %s, killed at every passing of every point`, (store) => {
    const modes = ["generate", "stream"] as const;
    it.each(modes.flatMap((mode) => POLICIES.map((policy) => ({ sdk, mode, policy, store }))))(
      "$mode, with the policy $policy",
      { timeout: 900_000 },
      async (variant) => killAll(await enumerateKillings(variant), sdk),
    );
  });
}
