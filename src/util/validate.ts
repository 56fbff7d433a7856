/** Validation of arguments. Everything here throws `INVALID_ARGUMENT` with a message that names the argument. */
import { SavepointError } from "../errors.js";

/** Validates that an options object is an object and has only known fields. The values are not checked. */
export function validateFields(value: unknown, what: string, fields: ReadonlySet<string>): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidArgument(`${what} must be an object, got ${describe(value)}.`);
  }
  for (const key of Object.keys(value)) {
    if (!fields.has(key)) throw invalidArgument(`${what} has no field ${JSON.stringify(key)}.`);
  }
}

/** Validates the options of a call. @param caller the called method, such as `sp.run` */
export function validateOptions(options: unknown, caller: string): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return;
  throw invalidArgument(`The options of ${caller}() must be an object, got ${describe(options)}.`);
}

/** Validates an optional plain object with arbitrary keys, such as metadata or a configuration. */
export function validatePlainObject(value: unknown, what: string): void {
  if (value === undefined) return;
  const prototype = typeof value === "object" && value !== null ? (Object.getPrototypeOf(value) as unknown) : undefined;
  if (prototype === Object.prototype || prototype === null) return;
  throw invalidArgument(`${what} must be a plain object, got ${describe(value)}.`);
}

/** Validates an optional count or position: a non-negative integer, or `Infinity` for no limit. */
export function validateCount(value: number | undefined, what: string): void {
  if (value === undefined || value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && value >= 0)) return;
  throw invalidArgument(`${what} must be a non-negative integer, got ${String(value)}.`);
}

/** Converts a point in time to milliseconds since 1970. */
export function parseTimestamp(time: number | Date, what: string): number {
  const milliseconds = Number(time);
  if ((typeof time === "number" || time instanceof Date) && !Number.isNaN(milliseconds)) return milliseconds;
  throw invalidArgument(`${what} must be milliseconds since 1970 or a valid Date, got ${String(time)}.`);
}

export function invalidArgument(message: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError("INVALID_ARGUMENT", message);
}

function describe(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
}
