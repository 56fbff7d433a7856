import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareKeys } from "../store/contract/index.js";
import type { KeyRange } from "../store/contract/contract.js";
import { labelKey, labelRange, labelsOf, noteKey, notesOf } from "./annotations.js";
import { branchesOf, branchKey } from "./branch.js";
import { idKey, rowKey, rowsOf } from "./checkpoint-row.js";
import { decodeNumbers, encodeNumber, packId, tapeName, tapesOf, unpackId } from "./keys.js";
import { ALL_SESSION_NUMBERS, sessionKey, sessionNumberKey } from "./session.js";

const number = fc.oneof(fc.nat({ max: 40 }), fc.nat(), fc.maxSafeNat());
const id = fc.oneof(
  fc.constantFrom("a", "a b", "ab", "a\u0001", "=", "main"),
  fc.string({ minLength: 1, unit: "grapheme" }),
);
const covers = ({ from, to }: KeyRange, key: string): boolean =>
  compareKeys(key, from) >= 0 && compareKeys(key, to) < 0;

describe("encoded numbers", () => {
  it("sort like the numbers and are decoded without separators", () => {
    fc.assert(
      fc.property(number, number, fc.string(), (a, b, rest) => {
        expect(Math.sign(compareKeys(encodeNumber(a), encodeNumber(b)))).toBe(Math.sign(a - b));
        expect(decodeNumbers(encodeNumber(a) + encodeNumber(b) + rest, 2)).toEqual({ numbers: [a, b], rest });
      }),
    );
  });
});

describe("packed ids", () => {
  it("unpack to the same ids, and packed UUIDs sort like UUIDs", () => {
    fc.assert(
      fc.property(fc.oneof(id, fc.uuid()), fc.uuid(), fc.uuid(), (any, a, b) => {
        expect(unpackId(packId(any))).toBe(any);
        expect(packId(a)).toHaveLength(22);
        expect(Math.sign(compareKeys(packId(a), packId(b)))).toBe(Math.sign(compareKeys(a, b)));
      }),
    );
  });

  it("differ for different ids, even if an id looks like a packed one", () => {
    const uuid = "0199e0a5-1234-7000-8000-00000000abcd";
    for (const other of [uuid.toUpperCase(), packId(uuid), `=${uuid}`, ` ${uuid}`]) {
      expect(packId(other)).not.toBe(packId(uuid));
      expect(unpackId(packId(other))).toBe(other);
    }
  });
});

describe("key ranges", () => {
  it("cover all their own keys and no key of another session or branch", () => {
    fc.assert(
      fc.property(number, number, number, id, id, id, (mine, other, seq, name, neighbour, third) => {
        fc.pre(mine !== other && name !== neighbour);
        expect(covers(rowsOf(mine), rowKey(mine, seq))).toBe(true);
        expect(covers(rowsOf(mine), rowKey(other, seq))).toBe(false);
        expect(covers(rowsOf(mine, seq, seq + 1), rowKey(mine, seq))).toBe(true);
        expect(covers(rowsOf(mine, 0, seq), rowKey(mine, seq))).toBe(false);
        expect(covers(notesOf(mine, seq, seq + 1), noteKey(mine, seq, "label"))).toBe(true);
        expect(covers(notesOf(mine), noteKey(other, seq, "label"))).toBe(false);
        expect(covers(labelsOf(mine), labelKey(mine, name, seq))).toBe(true);
        expect(covers(labelsOf(mine), labelKey(other, name, seq))).toBe(false);
        expect(covers(labelRange(mine, name), labelKey(mine, name, seq))).toBe(true);
        expect(covers(labelRange(mine, name), labelKey(mine, neighbour, seq))).toBe(false);
        expect(covers(tapesOf(mine), tapeName(mine, seq))).toBe(true);
        expect(covers(tapesOf(mine), tapeName(other, seq))).toBe(false);
        expect(covers(branchesOf(name), branchKey(name, third))).toBe(true);
        expect(covers(branchesOf(name), branchKey(neighbour, third))).toBe(false);
        expect(covers(branchesOf(name), sessionKey(neighbour))).toBe(false);
        expect(covers(branchesOf(name), sessionKey(name))).toBe(false);
        expect(covers(ALL_SESSION_NUMBERS, sessionNumberKey(mine))).toBe(true);
        expect(idKey(name, mine)).not.toBe(idKey(name, other));
        expect(idKey(name, mine)).not.toBe(idKey(neighbour, mine));
      }),
    );
  });
});
