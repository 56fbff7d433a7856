import { describe, expect, it } from "vitest";
import { readAhead } from "./read-ahead.js";

/** Work that ends when the test calls `finish`. */
function manualWork(): {
  work: (thing: number) => Promise<number>;
  started: number[];
  finish: (thing: number) => void;
} {
  const started: number[] = [];
  const ends = new Map<number, () => void>();
  return {
    started,
    work: (thing) => {
      started.push(thing);
      return new Promise((resolve) => ends.set(thing, () => resolve(thing)));
    },
    finish: (thing) => ends.get(thing)?.(),
  };
}

describe("reading ahead", () => {
  it("yields the results in order, with at most `limit` items in progress", async () => {
    const { work, started, finish } = manualWork();
    const results = readAhead([1, 2, 3, 4, 5], 2, work);
    const first = results.next();
    await Promise.resolve();
    while (started.length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(started).toEqual([1, 2]);
    finish(2);
    finish(1);
    expect(await first).toEqual({ done: false, value: 1 });
    const second = results.next();
    expect(await second).toEqual({ done: false, value: 2 });
    expect(started).toEqual([1, 2, 3]);
    const third = results.next();
    while (started.length < 4) await new Promise((resolve) => setImmediate(resolve));
    finish(3);
    finish(4);
    expect((await third).value).toBe(3);
    const rest = [(await results.next()).value];
    const last = results.next();
    finish(5);
    rest.push((await last).value);
    expect(rest).toEqual([4, 5]);
    expect((await results.next()).done).toBe(true);
  });

  it("starts no further item after a failure, and waits for those in progress", async () => {
    const ended: number[] = [];
    const started: number[] = [];
    const work = async (thing: number): Promise<number> => {
      started.push(thing);
      if (thing === 1) throw new Error("the first has failed");
      await new Promise((resolve) => setImmediate(resolve));
      ended.push(thing);
      return thing;
    };
    const all = async (): Promise<void> => {
      for await (const _ of readAhead([1, 2, 3, 4], 2, work));
    };
    await expect(all()).rejects.toThrow("the first has failed");
    expect({ started, ended }).toEqual({ started: [1, 2], ended: [2] });
  });

  it("waits for the items in progress when the caller stops", async () => {
    const ended: number[] = [];
    const work = async (thing: number): Promise<number> => {
      await new Promise((resolve) => setImmediate(resolve));
      ended.push(thing);
      return thing;
    };
    for await (const result of readAhead([1, 2, 3, 4, 5], 3, work)) if (result === 1) break;
    expect(ended).toEqual([1, 2, 3]);
  });
});
