/** Durations as users write them. */
import { invalidArgument } from "./validate.js";

/** Milliseconds, or a number with a unit: `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"7d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

/** The longest delay of a timer in Node, in milliseconds. A timer with a longer delay fires immediately. */
export const MAX_TIMER = 2 ** 31 - 1;

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Converts a duration to milliseconds. Throws `INVALID_ARGUMENT` if it is negative, infinite or not a duration.
 *
 * @param name the name of the option, for the error message
 * @example
 * toMilliseconds("5m", "interval"); // 300000
 */
export function toMilliseconds(duration: Duration, name: string): number {
  const match = typeof duration === "string" ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration) : undefined;
  const value = match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : duration;
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  const actual = typeof duration === "string" ? JSON.stringify(duration) : String(duration);
  throw invalidArgument(
    `\`${name}\` must be milliseconds or a number with a unit such as "30s", "5m" or "2h", got ${actual}.`,
  );
}
