import { describe, expect, it } from "vitest";
import { Mutex } from "./mutex.js";

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

describe("a mutex", () => {
  it("runs one piece of work at a time, in the order of the calls, and starts none before the call returns", async () => {
    const mutex = new Mutex();
    const first = deferred();
    const log: string[] = [];
    const one = mutex.run(async () => {
      log.push("one begins");
      await first.promise;
      log.push("one ends");
    });
    const two = mutex.run(async () => void log.push("two"));
    const three = mutex.run(async () => void log.push("three"));
    expect(log).toEqual([]);
    first.resolve();
    await Promise.all([one, two, three]);
    expect(log).toEqual(["one begins", "one ends", "two", "three"]);
  });

  it("rejects with the error of the work, also if it throws before its first await, and runs the next", async () => {
    const mutex = new Mutex();
    const failing = mutex.run(() => {
      throw new Error("refused");
    });
    const next = mutex.run(async () => "done");
    await expect(failing).rejects.toThrow("refused");
    await expect(next).resolves.toBe("done");
  });

  it("is idle before any work, not during it, and again afterwards", async () => {
    const mutex = new Mutex();
    expect(mutex.isIdle).toBe(true);
    const gate = deferred();
    const work = mutex.run(() => gate.promise);
    expect(mutex.isIdle).toBe(false);
    gate.resolve();
    await work;
    await mutex.idle();
    expect(mutex.isIdle).toBe(true);
  });

  it("runs work that is added by work after the work that waits already", async () => {
    const mutex = new Mutex();
    const log: string[] = [];
    const outer = mutex.run(async () => {
      void mutex.run(async () => void log.push("inner"));
      await Promise.resolve();
      log.push("outer ends");
    });
    void mutex.run(async () => void log.push("second"));
    await outer;
    await mutex.idle();
    expect(log).toEqual(["outer ends", "second", "inner"]);
  });

  it("is idle only after work that was added while it was waited for", async () => {
    const mutex = new Mutex();
    const log: string[] = [];
    void mutex.run(async () => {
      void mutex.run(async () => void log.push("added"));
    });
    await mutex.idle();
    expect(log).toEqual(["added"]);
  });
});
