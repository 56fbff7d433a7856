/** Counters: records that hold the next item number of a tape as decimal digits. */
import { SavepointError } from "../../errors.js";
import type { Frame, ItemBatch } from "../contract/index.js";

/**
 * Parses the value of a counter; a missing one is 0. Anything but a number is damage: guessing could assign item numbers
 * twice.
 */
export function readCounter(key: string, value: string | undefined): number {
  if (value === undefined) return 0;
  const number = Number(value);
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number)) throw counterDamaged(key);
  return number;
}

/** The error for a counter that is damaged or not a number. */
export function counterDamaged(key: string): SavepointError<"DAMAGED"> {
  const advice = "Nothing was written. Write the next number under this key.";
  return new SavepointError("DAMAGED", `The counter ${JSON.stringify(key)} is damaged or not a number. ${advice}`, {
    details: { keys: [key] },
  });
}

/** A batch of items whose numbers are assigned. */
export interface NumberedItems {
  readonly tape: string;
  readonly first: number;
  readonly items: readonly Frame[];
}

/** The items of a batch, the first of which gets this number. */
export function numberItems({ tape, items }: ItemBatch, first: number): NumberedItems {
  return { tape, first, items: typeof items === "function" ? items(first) : items };
}
