import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { packChunk, unpackItem, unpackChunk } from "./chunk-codec.js";

/** Strings of characters that take one to four bytes in UTF-8, and one or two UTF-16 code units. */
const text = fc.array(fc.constantFrom("a", "bcdefgh", "é", "あ", "👍", "\u0000", "x".repeat(37)), { maxLength: 20 });
const frames = fc.array(
  fc.record({ json: text.map((parts) => parts.join("")), refs: fc.constantFrom("", "0+1", "#ab") }),
  { minLength: 2, maxLength: 20 },
);

describe("one item of a chunk", () => {
  it("is the same when it is unpacked alone and with the others", () => {
    fc.assert(
      fc.property(frames, fc.nat(), (all, pick) => {
        const row = packChunk("t", 5, all);
        const index = pick % all.length;
        expect(unpackItem(row, index)).toEqual(all[index]);
        expect((unpackChunk(row) as unknown[])[index]).toEqual(all[index]);
      }),
      { numRuns: 500 },
    );
  });

  it("is never returned changed, wherever a bit has flipped", () => {
    fc.assert(
      fc.property(frames, fc.nat(), fc.nat(), fc.boolean(), (all, pick, bit, inHead) => {
        const row = packChunk("t", 5, all);
        const [head, body] = [Uint8Array.from(row.head), Uint8Array.from(row.body)];
        const target = inHead ? head : body;
        fc.pre(target.length > 0);
        const at = bit % (target.length * 8);
        target[at >> 3] = (target[at >> 3] as number) ^ (1 << (at & 7));
        const index = pick % all.length;
        const found = unpackItem({ ...row, head, body }, index);
        if (found) expect(found).toEqual(all[index]);
      }),
      { numRuns: 1000 },
    );
  });
});
