/** Lengths of time, as people write them. */
import { SavepointError } from "../errors.js";

/** Milliseconds, or a number with its unit: `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"7d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

/** Timers of Node that are set for longer go off at once. */
export const MAX_TIMER = 2 ** 31 - 1;

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * A duration in milliseconds. What is none is refused.
 *
 * @param name the option it was given for, to name in the error
 */
export function toMilliseconds(duration: Duration, name: string): number {
  const match = typeof duration === "string" ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration) : undefined;
  const value = match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : duration;
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `${name} is ${typeof duration === "string" ? JSON.stringify(duration) : String(duration)}. Give milliseconds, or a number with its unit such as "30s", "5m" or "2h".`,
  );
}
