/** Parsers for options and arguments. Commander adds the name of the option to the message of a parser that throws. */
import { InvalidArgumentError } from "commander";
import { quoteForShell } from "./shell.js";

/** A non-negative integer. */
export function parseCount(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number)) {
    throw new InvalidArgumentError("Expected a non-negative integer.");
  }
  return number;
}

export function parsePositiveNumber(text: string): number {
  const number = Number(text);
  if (!(number > 0) || !Number.isFinite(number)) throw new InvalidArgumentError("Expected a number greater than 0.");
  return number;
}

/** A number above 0 and up to 1. */
export function parseFraction(text: string): number {
  const number = Number(text);
  if (!(number > 0 && number <= 1)) throw new InvalidArgumentError("Expected a number above 0 and up to 1.");
  return number;
}

/** A date such as "2026-01-31", or an age such as "3d". Returns milliseconds since the epoch. */
export function parseTime(text: string): number {
  const ago = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/.exec(text);
  // Date.parse() would read a bare number as a month or a year.
  const time = /^\d+$/.test(text)
    ? Number.NaN
    : ago
      ? Date.now() - Number(ago[1]) * UNITS[ago[2] as keyof typeof UNITS]
      : Date.parse(text);
  if (Number.isNaN(time)) {
    throw new InvalidArgumentError('Expected a date such as "2026-01-31", or an age such as "3d".');
  }
  return time;
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    const isWord = /^[\p{L}\p{N}][^{}[\]"']*$/u.test(text);
    const advice = isWord ? `A string needs quotes: ${quoteForShell(JSON.stringify(text))}` : (error as Error).message;
    throw new InvalidArgumentError(`Expected JSON. ${advice}${advice.endsWith(".") ? "" : "."}`);
  }
}

/** Collects the values of an option that may be repeated. */
export function collectValues(text: string, previous: readonly string[] = []): string[] {
  return [...previous, text];
}
