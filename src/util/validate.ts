/** Checks of what callers give: what makes no sense is told at once, and by its name. */
import { SavepointError } from "../errors.js";

/** An object that is given as a whole. */
export function validateFields(given: unknown, what: string, known: ReadonlySet<string>): void {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw invalidArgument(`${what} is given as an object, not as ${given === null ? "null" : describe(given)}.`);
  }
  for (const key of Object.keys(given)) {
    if (!known.has(key)) throw invalidArgument(`${what} has no field ${JSON.stringify(key)}.`);
  }
}

/** Plain data by names: metadata, or a configuration. */
export function validatePlainObject(given: unknown, what: string): void {
  if (given === undefined) return;
  const prototype = typeof given === "object" && given !== null ? (Object.getPrototypeOf(given) as unknown) : undefined;
  if (prototype === Object.prototype || prototype === null) return;
  throw invalidArgument(
    `${what} is an object with names and values, not ${given === null ? "null" : describe(given)}.`,
  );
}

/** How many, or which place: a whole number from 0 on, or no end. */
export function validateCount(given: number | undefined, what: string): void {
  if (given === undefined || given === Number.POSITIVE_INFINITY || (Number.isSafeInteger(given) && given >= 0)) return;
  throw invalidArgument(`${what} is ${String(given)}, not a whole number from 0 on.`);
}

/** A moment as milliseconds. */
export function parseTimestamp(given: number | Date, what: string): number {
  const time = Number(given);
  if ((typeof given === "number" || given instanceof Date) && !Number.isNaN(time)) return time;
  throw invalidArgument(`${what} is no time. Give milliseconds since 1970, or a Date.`);
}

export function invalidArgument(message: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError("INVALID_ARGUMENT", message);
}

function describe(value: unknown): string {
  return Array.isArray(value) ? "an array" : `something of type ${typeof value}`;
}
