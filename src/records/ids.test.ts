import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createIdSource, placeOfId, encodesPlace, timeOfId } from "./ids.js";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("generated checkpoint ids", () => {
  it("are UUIDv7 that encode their time and their place", () => {
    const place = fc.record({ number: fc.nat(2 ** 22 - 1), seq: fc.nat(2 ** 20 - 1) });
    fc.assert(
      fc.property(place, fc.nat(2 ** 47), ({ number, seq }, now) => {
        const id = createIdSource(() => now)({ number, seq });
        expect(id).toMatch(UUID_V7);
        expect(timeOfId(id)).toBe(now);
        expect(placeOfId(id)).toEqual({ number, seq });
      }),
    );
  });

  it("do not encode a place that does not fit", () => {
    const newId = createIdSource(Date.now);
    for (const place of [
      { number: 2 ** 22, seq: 0 },
      { number: 5, seq: 2 ** 20 },
      { number: 2 ** 40, seq: 2 ** 40 },
    ]) {
      const id = newId(place);
      expect(id).toMatch(UUID_V7);
      expect(encodesPlace(id, place.number, place.seq)).toBe(false);
    }
  });

  it("rise within a session, even if the clock is set back a little", () => {
    let now = 1_700_000_000_000;
    const newId = createIdSource(() => (now -= 5));
    const ids = Array.from({ length: 1000 }, (_, seq) => newId({ number: 3, seq }));
    expect(ids).toEqual([...ids].sort());
  });

  it("follow a clock that is set back a lot", () => {
    let now = 1_700_000_000_000;
    const newId = createIdSource(() => now);
    newId({ number: 0, seq: 0 });
    now -= 3_600_000;
    expect(timeOfId(newId({ number: 0, seq: 1 }))).toBe(now);
  });

  it("end with eight random digits", () => {
    const newId = createIdSource(() => 0);
    const ends = new Set(Array.from({ length: 1000 }, () => newId({ number: 0, seq: 0 }).slice(-8)));
    expect(ends.size).toBeGreaterThan(990);
  });

  it.each(["", "x", "0199e0a5-1234-4000-8000-00000000abcd", "0199E0A5-1234-7000-8000-00000000ABCD"])(
    "encode no place if a caller chose %j",
    (id) => {
      expect(placeOfId(id)).toBeUndefined();
      expect(timeOfId(id)).toBeUndefined();
    },
  );
});
