/** Filters of searches, with the semantics of LangGraph's `InMemoryStore`. */
import type { Fields } from "./items.js";

const OPERATORS: Readonly<Record<string, (value: unknown, operand: unknown) => boolean>> = {
  $eq: (value, operand) => value === operand,
  $ne: (value, operand) => value !== operand,
  $gt: (value, operand) => toNumber(value) > toNumber(operand),
  $gte: (value, operand) => toNumber(value) >= toNumber(operand),
  $lt: (value, operand) => toNumber(value) < toNumber(operand),
  $lte: (value, operand) => toNumber(value) <= toNumber(operand),
  $in: (value, operand) => Array.isArray(operand) && operand.includes(value),
  $nin: (value, operand) => !Array.isArray(operand) || !operand.includes(value),
};

/** Whether a value has all fields of a filter. A field is compared with `===`, or with each operator of an object of operators. */
export function matchesFilter(value: Fields, filter: Fields): boolean {
  return Object.entries(filter).every(([name, condition]) =>
    matchesCondition(Object.hasOwn(value, name) ? value[name] : undefined, condition),
  );
}

function matchesCondition(value: unknown, condition: unknown): boolean {
  if (typeof condition !== "object" || condition === null) return value === condition;
  const operators = Object.entries(condition);
  if (!operators.every(([name]) => Object.hasOwn(OPERATORS, name))) return false;
  return operators.every(([name, operand]) => OPERATORS[name]?.(value, operand));
}

/** The number of a value in a comparison. For objects without one `NaN`, with which every comparison is false. */
function toNumber(value: unknown): number {
  if (typeof value === "symbol") return Number.NaN;
  if (typeof value !== "object" || value === null) return Number(value);
  return value instanceof Date ? value.getTime() : Number(Array.isArray(value) ? String(value) : Number.NaN);
}
