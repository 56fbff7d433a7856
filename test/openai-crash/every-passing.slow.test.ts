/** Every pass of every point of the loop, with each policy, in both modes and on two stores: takes minutes. */
import { describe, it } from "vitest";
import { enumerateKillings, killAll, POLICIES, STORE_KINDS } from "./matrix-suite.js";

const MODES = ["run", "stream"] as const;

// The mode decides which points are passed, the policy what happens to an interrupted tool; the store affects neither.
const variants = POLICIES.flatMap((policy, index) =>
  MODES.map((mode, at) => ({
    mode,
    policy,
    store: STORE_KINDS[(index + at) % STORE_KINDS.length] as "sqlite" | "file",
  })),
);

describe("the loop of the OpenAI Agents SDK, killed at every passing of every point", () => {
  it.each(variants)("$mode, with the policy $policy, on $store", { timeout: 900_000 }, async (variant) =>
    killAll(await enumerateKillings(variant)),
  );
});
