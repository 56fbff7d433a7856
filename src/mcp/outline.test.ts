import fc from "fast-check";
import { expect, it } from "vitest";
import { type Omitted, outline } from "./outline.js";
import type { Json } from "../index.js";
import { runs } from "../../test/support/runs.js";

const BUDGET = 3000;

/** Values that are too large in every way: long strings, long arrays, wide and deep objects, keys that pointers must escape. */
const large = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<Json>(null, true, 0, -1.5, "", "x"),
    fc
      .tuple(fc.constantFrom("a", "ab ", "é", "🦊", '"\n'), fc.integer({ min: 0, max: 3000 }))
      .map(([text, times]) => text.repeat(times)),
    fc.integer({ min: 0, max: 900 }).map((length) => Array.from({ length }, (_, n) => ({ n, text: `entry ${n}` }))),
    fc.array(tie("value"), { maxLength: 8 }),
    fc.dictionary(fc.constantFrom("a", "b/c", "~d", "", "e f", "0", "__proto__"), tie("value"), { maxKeys: 6 }),
  ),
})).value;

/** Reads a part and everything that was omitted from it until it is complete. */
function readAll(value: Json, pointer: string): { whole: Json; asked: number } {
  let asked = 0;
  const read = (at: string): Json => {
    let whole: Json | undefined;
    for (let from = 0; ;) {
      asked++;
      const part = outline(value, { pointer: at, from, maxCharacters: BUDGET });
      const inner = (part.omitted ?? []).filter((each) => each.pointer !== at);
      const rest = (part.omitted ?? []).find((each) => each.pointer === at);
      // Omitted parts further down are read separately: only the outermost ones, which include the rest.
      const outermost = inner.filter(
        (each) => !inner.some((other) => each !== other && each.pointer.startsWith(`${other.pointer}/`)),
      );
      whole = join(whole, withoutMore(part.value, rest, from), outermost, at, from, read);
      if (!rest) return whole;
      expect(rest.from).toBeGreaterThan(from);
      from = rest.from;
    }
  };
  return { whole: read(pointer), asked };
}

function withoutMore(value: Json, rest: Omitted | undefined, from: number): Json {
  if (!rest) return value;
  if (typeof value === "string") return value.slice(0, rest.from - from);
  if (Array.isArray(value)) return value.slice(0, -1);
  return Object.fromEntries(Object.entries(value as object).filter(([key]) => key !== "$more")) as Json;
}

function join(
  before: Json | undefined,
  part: Json,
  omitted: readonly Omitted[],
  at: string,
  from: number,
  read: (pointer: string) => Json,
): Json {
  const filled = fill(part, omitted, at, from, read);
  if (before === undefined) return filled;
  if (typeof before === "string") return before + (filled as string);
  if (Array.isArray(before)) return [...before, ...(filled as Json[])];
  return Object.fromEntries([...Object.entries(before as object), ...Object.entries(filled as object)]) as Json;
}

/** Replaces children with omitted parts by the complete ones. */
function fill(
  part: Json,
  omitted: readonly Omitted[],
  at: string,
  from: number,
  read: (pointer: string) => Json,
): Json {
  if (typeof part !== "object" || part === null || omitted.length === 0) return part;
  const entries = Object.entries(part).map(([key, child]): [string, Json] => {
    const place = Array.isArray(part) ? String(Number(key) + from) : key;
    const pointer = `${at}/${place.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const cut = omitted.some((each) => each.pointer === pointer || each.pointer.startsWith(`${pointer}/`));
    return [key, cut ? read(pointer) : child];
  });
  return Array.isArray(part) ? entries.map(([, child]) => child) : (Object.fromEntries(entries) as Json);
}

it("an outline shows a value in parts that fit, and all parts together are the value", () => {
  fc.assert(
    fc.property(large, (value) => {
      const first = outline(value, { maxCharacters: BUDGET });
      expect(JSON.stringify(first.value).length).toBeLessThan(BUDGET * 12);
      expect(JSON.stringify(readAll(value, "").whole)).toBe(JSON.stringify(value));
    }),
    { numRuns: runs(150) },
  );
});

it("an outline does not change a value that fits", () => {
  const value = { a: [1, "two", null], b: {} };
  expect(outline(value)).toEqual({ value, omitted: undefined });
});
