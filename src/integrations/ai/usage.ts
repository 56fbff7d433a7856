/** The tokens of a reply, as models of each specification tell them. */
import { isObject } from "./sdk.js";

export function usageOf(usage: unknown): { tokens: number } | undefined {
  if (!isObject(usage)) return undefined;
  const [input, output] = [countOf(usage["inputTokens"]), countOf(usage["outputTokens"])];
  return input === undefined && output === undefined ? undefined : { tokens: (input ?? 0) + (output ?? 0) };
}

/** A number; since the third specification, a number among others. */
function countOf(tokens: unknown): number | undefined {
  const count = isObject(tokens) ? tokens["total"] : tokens;
  return typeof count === "number" ? count : undefined;
}
