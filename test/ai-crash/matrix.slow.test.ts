import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES, STORE_KINDS } from "./matrix-suite.js";

describe.each(STORE_KINDS)("the AI SDK's loop on %s, killed at every passing of every point", (store) => {
  describe.each([6, 7] as const)("version %i", { concurrent: true }, (sdk) => {
    const modes = ["generate", "stream"] as const;
    it.each(modes.flatMap((mode) => POLICIES.map((policy) => ({ sdk, mode, policy, store }))))(
      "$mode, with the policy $policy",
      { timeout: 600_000 },
      async (variant) => killAll(await enumerateKillings([variant]), sdk),
    );
  });
});
