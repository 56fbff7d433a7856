import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IntervalSet } from "./interval-set.js";

describe("an interval set", () => {
  it("contains the added numbers, returns the new parts of each range and merges ranges that touch", () => {
    const ranges = fc.array(fc.tuple(fc.nat({ max: 60 }), fc.nat({ max: 12 })), { maxLength: 40 });
    fc.assert(
      fc.property(ranges, (added) => {
        const intervals = new IntervalSet();
        const members = new Set<number>();
        for (const [start, count] of added) {
          const range = Array.from({ length: count }, (_, n) => start + n);
          const fresh = intervals.add(start, count).flatMap((span) => numbersOf(span));
          expect(fresh).toEqual(range.filter((n) => !members.has(n)));
          for (const n of range) members.add(n);
        }
        const spans = intervals.spans();
        expect(spans.flatMap(numbersOf)).toEqual([...members].sort((a, b) => a - b));
        for (const [index, span] of spans.entries()) {
          const next = spans[index + 1];
          if (next) expect(next.start).toBeGreaterThan(span.start + span.count);
        }
      }),
    );
  });
});

function numbersOf({ start, count }: { start: number; count: number }): number[] {
  return Array.from({ length: count }, (_, n) => start + n);
}
