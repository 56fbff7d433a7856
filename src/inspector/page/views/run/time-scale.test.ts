import { describe, expect, it } from "vitest";
import { buildTimeScale } from "./time-scale.js";

const DAY = 86_400_000;

describe("the axis of a timeline", () => {
  it("is linear without waits", () => {
    const { at, gaps } = buildTimeScale([{ from: 0, to: 1000 }], 0, 1000);
    expect([at(0), at(250), at(1000)]).toEqual([0, 0.25, 1]);
    expect(gaps).toEqual([]);
  });

  it("shortens a sleep of two days, so that the work around it stays visible", () => {
    const { at, gaps } = buildTimeScale(
      [
        { from: 0, to: 1000 },
        { from: 2 * DAY, to: 2 * DAY + 1000 },
      ],
      0,
      2 * DAY + 1000,
    );
    expect(gaps).toHaveLength(1);
    expect(at(1000)).toBeGreaterThan(0.3);
    expect(at(2 * DAY)).toBeLessThan(0.7);
    expect(at(2 * DAY + 1000)).toBeCloseTo(1);
  });

  it("rises with time, for spans that overlap and times outside of it", () => {
    const { at } = buildTimeScale(
      [
        { from: 10, to: 500 },
        { from: 100, to: 300 },
        { from: 9000, to: 9100 },
      ],
      0,
      10_000,
    );
    const places = [-5, 0, 10, 200, 500, 4000, 9000, 9050, 10_000, 20_000].map(at);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect([places[0], places.at(-1)]).toEqual([0, 1]);
  });

  it("maps a single moment to a place", () => {
    const { at, gaps } = buildTimeScale([], 5, 5);
    expect(at(5)).toBe(0);
    expect(gaps).toEqual([]);
  });
});
