/** What can be read from a model's reply, whoever's it is: how much it used, and what it says. */
import type { Usage } from "../../records/index.js";
import type { EffectUsage } from "../journal/index.js";

/** The names by which SDKs tell the tokens of a reply; the first that is there counts. */
const TOTALS = ["tokens", "totalTokens", "total_tokens"];
const PARTS = [
  ["inputTokens", "outputTokens"],
  ["input_tokens", "output_tokens"],
  ["promptTokens", "completionTokens"],
  ["prompt_tokens", "completion_tokens"],
];

/** The tokens and the cost that a reply's own `usage` tells. */
export function usageOfReply(reply: unknown): EffectUsage | undefined {
  const usage = isRecord(reply) ? reply["usage"] : undefined;
  if (!isRecord(usage)) return undefined;
  const total = TOTALS.map((name) => amount(usage[name])).find((count) => count !== undefined);
  const parts = PARTS.map((names) => names.map((name) => amount(usage[name]))).find((counts) =>
    counts.some((count) => count !== undefined),
  );
  const tokens = total ?? parts?.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  const cost = amount(usage["cost"]);
  if (tokens === undefined && cost === undefined) return undefined;
  return { ...(tokens !== undefined && { tokens }), ...(cost !== undefined && { cost }) };
}

/** What can be counted of what somebody says was used. */
export function parseUsage(usage: Usage | undefined): EffectUsage | undefined {
  const [tokens, cost] = [countable(usage?.tokens), countable(usage?.cost)];
  if (tokens === undefined && cost === undefined) return undefined;
  return { ...(tokens !== undefined && { tokens }), ...(cost !== undefined && { cost }) };
}

function countable(value: unknown): number | undefined {
  const number = amount(value);
  return number === undefined ? undefined : Math.max(0, number);
}

export function addUsage(sum: { -readonly [Key in keyof Usage]-?: number }, usage: EffectUsage | undefined): void {
  sum.tokens += usage?.tokens ?? 0;
  sum.cost += usage?.cost ?? 0;
}

/** What a reply says and wants called, for telling whether it is the same again. Ids differ even if nothing else does. */
export function textOfReply(reply: unknown): string {
  if (typeof reply === "string") return reply;
  if (!isRecord(reply)) return "";
  const { content, text, toolCalls } = reply;
  const calls = Array.isArray(toolCalls) ? toolCalls : [];
  const said = [content, text].find((part) => part !== undefined);
  return (
    (typeof said === "string" ? said : (JSON.stringify(said) ?? "")) +
    calls.map((call: unknown) => (isRecord(call) ? JSON.stringify([call["name"], call["arguments"]]) : "")).join("")
  );
}

function amount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
