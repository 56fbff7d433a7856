/** Reads the usage and the text of a model's reply, in the formats of common SDKs. */
import type { Usage } from "../../records/index.js";
import { toJson } from "../../state/index.js";
import type { EffectUsage } from "../journal/index.js";

/** The property names of token counts in common SDKs. The first that exists counts. */
const TOTALS = ["tokens", "totalTokens", "total_tokens"];
const PARTS = [
  ["inputTokens", "outputTokens"],
  ["input_tokens", "output_tokens"],
  ["promptTokens", "completionTokens"],
  ["prompt_tokens", "completion_tokens"],
];

/** Reads the tokens and the cost from the `usage` property of a reply. */
export function usageOfReply(reply: unknown): EffectUsage | undefined {
  const usage = isRecord(reply) ? reply["usage"] : undefined;
  if (!isRecord(usage)) return undefined;
  const total = TOTALS.map((name) => amount(usage[name])).find((count) => count !== undefined);
  const parts = PARTS.map((names) => names.map((name) => amount(usage[name]))).find((counts) =>
    counts.some((count) => count !== undefined),
  );
  return toUsage(total ?? parts?.reduce<number>((sum, count) => sum + (count ?? 0), 0), amount(usage["cost"]));
}

/** Validates the usage that a function of the caller has returned. Values that are not finite numbers are ignored. */
export function parseUsage(usage: Usage | undefined): EffectUsage | undefined {
  return toUsage(countable(usage?.tokens), countable(usage?.cost));
}

function toUsage(tokens: number | undefined, cost: number | undefined): EffectUsage | undefined {
  if (tokens === undefined && cost === undefined) return undefined;
  return { ...(tokens !== undefined && { tokens }), ...(cost !== undefined && { cost }) };
}

function countable(value: unknown): number | undefined {
  const number = amount(value);
  return number === undefined ? undefined : Math.max(0, number);
}

/** Adds a usage to a sum. */
export function addUsage(sum: { -readonly [Key in keyof Usage]-?: number }, usage: EffectUsage | undefined): void {
  sum.tokens += usage?.tokens ?? 0;
  sum.cost += usage?.cost ?? 0;
}

/** The text and the tool calls of a reply, for comparing replies. Ids are left out, because they differ in equal replies. */
export function textOfReply(reply: unknown): string {
  if (typeof reply === "string") return reply;
  if (!isRecord(reply)) return "";
  const { content, text, toolCalls } = reply;
  const calls = Array.isArray(toolCalls) ? toolCalls : [];
  const body = [content, text].find((part) => part !== undefined);
  return (
    (typeof body === "string" ? body : toText(body)) +
    calls.map((call: unknown) => (isRecord(call) ? toText([call["name"], call["arguments"]]) : "")).join("")
  );
}

/** JSON itself throws for a BigInt. */
function toText(value: unknown): string {
  return value === undefined ? "" : JSON.stringify(toJson(value));
}

function amount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
