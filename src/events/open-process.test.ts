import { describe, expect, it } from "vitest";
import { ALL_OPEN_PROCESSES, openProcessKey } from "../records/index.js";
import type { Store } from "../store/index.js";
import { openMemoryStore } from "../store/memory/store.js";
import { ProcessRegistration } from "./open-process.js";

const countRegistrations = async (store: Store): Promise<number> =>
  (await store.list(ALL_OPEN_PROCESSES, { limit: 9 })).length;

describe("the store of a process registration", () => {
  it("forwards every member of the store, including optional members and accessors", async () => {
    const target = openMemoryStore();
    const extensions = { check: async () => [], texts: { isForwarded: true }, future: () => 42 };
    Object.defineProperties(target, Object.getOwnPropertyDescriptors(extensions));
    Object.defineProperty(target, "size", { get: () => 7 });
    const { store } = new ProcessRegistration(target);
    for (let owner: object = target; owner !== Object.prototype; owner = Object.getPrototypeOf(owner) as object) {
      for (const name of Reflect.ownKeys(owner))
        if (name !== "constructor") expect(name in store, String(name)).toBe(true);
    }
    expect(store.url).toBe(target.url);
    expect(store.capabilities).toBe(target.capabilities);
    expect(store.texts).toBe(extensions.texts);
    expect(await store.check?.()).toEqual([]);
    expect((store as unknown as typeof extensions).future()).toBe(42);
    expect((store as unknown as { size: number }).size).toBe(7);
  });

  it("has no optional members that the store does not have", () => {
    const target = openMemoryStore();
    const { store } = new ProcessRegistration(target);
    expect("check" in store).toBe("check" in target);
    expect("texts" in store).toBe("texts" in target);
  });

  it("calls methods on the store itself, which has private fields", async () => {
    const { store } = new ProcessRegistration(openMemoryStore());
    await store.commit({ puts: [{ key: "a", value: "1" }] });
    expect(await store.get(["a"])).toMatchObject([{ value: "1" }]);
    await store[Symbol.asyncDispose]();
    await expect(store.get(["a"])).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("the registration of an open process", () => {
  it("is written with the first commit and removed on request", async () => {
    const target = openMemoryStore();
    const registration = new ProcessRegistration(target);
    expect(await countRegistrations(target)).toBe(0);
    await registration.store.commit({ puts: [{ key: "a", value: "1" }] });
    await registration.store.commit({ puts: [{ key: "b", value: "2" }] });
    expect(await countRegistrations(target)).toBe(1);
    await registration.remove();
    expect(await countRegistrations(target)).toBe(0);
  });

  it("replaces the reported registrations of crashed processes, with the first commit that succeeds", async () => {
    const target = openMemoryStore();
    await target.commit({ puts: [{ key: openProcessKey("crashed"), value: "1" }] });
    const registration = new ProcessRegistration(target);
    registration.deleteReported([openProcessKey("crashed")]);
    const conflict = registration.store.commit({ checks: [{ key: "a", exists: true }] });
    await expect(conflict).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await target.get([openProcessKey("crashed")])).toMatchObject([{ value: "1" }]);
    await registration.store.commit({ puts: [{ key: "a", value: "1" }] });
    expect(await target.get([openProcessKey("crashed")])).toEqual([undefined]);
    expect(await countRegistrations(target)).toBe(1);
  });

  it("deletes the reported registrations when it is removed, if nothing was committed", async () => {
    const target = openMemoryStore();
    await target.commit({ puts: [{ key: openProcessKey("crashed"), value: "1" }] });
    const registration = new ProcessRegistration(target);
    registration.deleteReported([openProcessKey("crashed")]);
    await registration.remove();
    expect(await countRegistrations(target)).toBe(0);
  });

  it("is written with the next commit if the first one fails", async () => {
    const target = openMemoryStore();
    const registration = new ProcessRegistration(target);
    const conflict = registration.store.commit({ checks: [{ key: "a", exists: true }] });
    await expect(conflict).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await countRegistrations(target)).toBe(0);
    await registration.store.commit({ puts: [{ key: "a", value: "1" }] });
    expect(await countRegistrations(target)).toBe(1);
  });
});
