/** Counters: records that hold the next number of a tape as decimal digits. */
import { SavepointError } from "../../errors.js";

/** The number in a counter. What is no number is damage: to number items anyhow could give them numbers that are taken. */
export function readCounter(key: string, value: string | undefined): number {
  if (value === undefined) return 0;
  const number = Number(value);
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number)) throw counterDamaged(key);
  return number;
}

export function counterDamaged(key: string): SavepointError<"DAMAGED"> {
  const advice = "Nothing was written; put the number that comes next under this key.";
  return new SavepointError("DAMAGED", `The counter ${JSON.stringify(key)} is damaged or holds no number. ${advice}`, {
    details: { keys: [key] },
  });
}
