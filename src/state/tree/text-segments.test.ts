import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SEGMENT_LENGTH } from "./limits.js";
import { seeded } from "../../../test/support/states/history.js";
import { segmentLengths, editSegments } from "./text-segments.js";
import { runs } from "../../../test/support/runs.js";

describe("the segments of a string", () => {
  it("make up the string, are neither tiny nor huge and never split a surrogate pair, after any edits", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 - 1 }), (seed) => {
        const random = seeded(seed);
        const parts = ["x", "word ", "😀", "\ud83d", "\ude00", "é"];
        const some = (most: number): string =>
          Array.from({ length: random(4) }, () => (parts[random(parts.length)] as string).repeat(random(most))).join(
            "",
          );
        let text = some(3 * SEGMENT_LENGTH);
        let lengths = segmentLengths(text);
        for (let step = 0; step < 20; step++) {
          const from = random(2) ? boundaryOf(lengths, random) + random(5) - 2 : random(text.length + 1);
          const next =
            text.slice(0, Math.max(0, from)) +
            some(random(3) ? 3 : SEGMENT_LENGTH) +
            text.slice(Math.max(0, from) + random(random(3) ? 4 : SEGMENT_LENGTH));
          const edit = editSegments(text, lengths, next);
          const kept = [lengths.slice(0, edit.start), lengths.slice(edit.start + edit.remove)];
          expect(next.startsWith(text.slice(0, total(kept[0] as number[])))).toBe(true);
          expect(next.endsWith(text.slice(text.length - total(kept[1] as number[])))).toBe(true);
          lengths = [...(kept[0] as number[]), ...edit.lengths, ...(kept[1] as number[])];
          text = next;
          expect(total(lengths)).toBe(text.length);
          expect(Math.max(0, ...lengths)).toBeLessThanOrEqual(SEGMENT_LENGTH + SEGMENT_LENGTH / 4);
          for (let at = 0, end = 0; at < lengths.length - 1; at++) {
            end += lengths[at] as number;
            expect(text.slice(end - 1, end + 1)).not.toMatch(/[\ud800-\udbff][\udc00-\udfff]/);
          }
        }
      }),
      { numRuns: runs(80) },
    );
  });

  it("are kept if an edit does not touch them", () => {
    const text = Array.from({ length: 40_000 }, (_, at) => `${at} `).join("");
    const lengths = segmentLengths(text);
    const edited = editSegments(text, lengths, `${text.slice(0, 100_000)}inserted${text.slice(100_000)}`);
    expect(edited.remove).toBeLessThanOrEqual(2);
    expect(editSegments(text, lengths, `${text}more`)).toEqual({ start: lengths.length, remove: 0, lengths: [4] });
  });
});

function boundaryOf(lengths: readonly number[], random: (below: number) => number): number {
  return total(lengths.slice(0, random(lengths.length + 1)));
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
