/** Checks what was typed, as commander reads it: a wrong value is named together with what it was given for. */
import { InvalidArgumentError } from "commander";

export function parseCount(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number)) throw new InvalidArgumentError("Give a whole number.");
  return number;
}

/** More than nothing. */
export function parsePositiveNumber(text: string): number {
  const number = Number(text);
  if (!(number > 0) || !Number.isFinite(number)) throw new InvalidArgumentError("Give a number above 0.");
  return number;
}

export function parseFraction(text: string): number {
  const number = Number(text);
  if (!(number > 0 && number <= 1)) throw new InvalidArgumentError("Give a share: more than 0, up to 1.");
  return number;
}

/** A date, or how long ago: "2026-01-31", "3d". */
export function parseTime(text: string): number {
  const ago = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/.exec(text);
  // A number alone would be taken for a month.
  const time = /^\d+$/.test(text)
    ? Number.NaN
    : ago
      ? Date.now() - Number(ago[1]) * UNITS[ago[2] as keyof typeof UNITS]
      : Date.parse(text);
  if (Number.isNaN(time)) throw new InvalidArgumentError('Give a date such as "2026-01-31", or an age such as "3d".');
  return time;
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Any JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new InvalidArgumentError(`That is no JSON: ${(error as Error).message}.`);
  }
}

/** For an option that may be given several times. */
export function collectValues(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
