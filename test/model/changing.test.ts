import { describe, expect, it } from "vitest";
import { message, messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

interface State {
  messages: unknown[];
  count: number;
  when?: Date;
}

describe.each(STORES)("append on $name", (kind) => {
  const data = useData(kind);

  it.each([
    ["a long list", { messages: messages(50) }, "/messages"],
    ["an empty list", { messages: [] }, "/messages"],
    ["a short list that stands inline", { messages: [1, 2] }, "/messages"],
    ["a list of small numbers", { messages: Array.from({ length: 3000 }, (_, n) => n % 10) }, "/messages"],
    ["a list inside an object", { deep: { er: { messages: messages(20) } } }, "/deep/er/messages"],
    [
      "a list inside an element of a list",
      { runs: [{ calls: messages(3) }, { calls: messages(30) }] },
      "/runs/1/calls",
    ],
    ["a list inside an entry of a large object", many(), "/files/f77/lines"],
    ["a list inside a Map", { map: new Map([["a/b", messages(20)]]) }, "/map/a~1b"],
    ["a list inside an object with a hostile key", { "~/": { $: messages(4) } }, "/~0~1/$"],
    ["the state itself", messages(20), ""],
  ])("adds to %s, for a handle that knows it and one that does not", async (_, state, path) => {
    const warm = (await data.open()).session("s");
    await warm.save(state);
    const expected = structuredClone(state);
    const list = path
      .split("/")
      .slice(1)
      .reduce((at: unknown, token) => {
        const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
        return at instanceof Map ? at.get(key) : (at as Record<string, unknown>)[key];
      }, expected as unknown) as unknown[];
    list.push(message(1), 2);
    await warm.append(path, [message(1), 2]);
    expect((await warm.latest())?.state).toStrictEqual(expected);
    const cold = (await data.open()).session("s");
    list.push({ when: new Date(3) });
    await cold.append(path, [{ when: new Date(3) }], { label: "third" });
    const third = await cold.load({ label: "third" });
    expect(third?.state).toStrictEqual(expected);
    expect(third?.stateBytes).toBe((await (await data.open()).session("again").save(expected)).stateBytes);
  });

  it("writes only what is added, whatever the size of the state", async () => {
    const session = (await data.open()).session("s");
    await session.save({ messages: messages(2000) });
    const stored: number[] = [];
    for (let n = 0; n < 50; n++) stored.push((await session.append("/messages", [message(n)])).storedBytes);
    expect(Math.max(...stored)).toBeLessThan(1000);
  });

  it("saves a checkpoint even if there is nothing to add", async () => {
    const session = (await data.open()).session("s");
    await session.save({ messages: messages(20) });
    expect((await session.append("/messages", [])).seq).toBe(1);
    expect((await session.latest())?.state).toEqual({ messages: messages(20) });
  });

  it("rejects a path without a list, and the session stays usable", async () => {
    const session = (await data.open()).session("s");
    await expect(session.append("/messages", [1])).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    const state = { messages: messages(20), text: "x".repeat(9000), none: null, object: { a: 1 }, set: new Set([1]) };
    await session.save(state);
    for (const path of [
      "/nothing",
      "/text",
      "/none",
      "/object",
      "/object/a",
      "/set",
      "",
      "/messages/0",
      "/messages/99",
      "/messages/-",
      "/__proto__",
      "/constructor",
      "/none/a",
    ]) {
      await expect(session.append(path, [1]), path).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    for (const path of ["messages", "/a~2", "#/messages"]) {
      await expect(session.append(path, [1]), path).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    await expect(session.append("/messages", { role: "user" } as never)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect((await session.append("/messages", [1])).seq).toBe(1);
    expect((await session.latest())?.state).toStrictEqual({ ...state, messages: [...messages(20), 1] });
  });
});

function many(): object {
  return { files: Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`f${n}`, { n, lines: messages(9) }])) };
}

describe.each(STORES)("update on $name", (kind) => {
  const data = useData(kind);

  it("passes the state deep-frozen and saves the returned one, which is frozen too", async () => {
    const session = (await data.open()).session<State>("s");
    let given: Readonly<State> | undefined;
    const next = { messages: messages(20), count: 1 };
    await session.update((state) => {
      given = state;
      return next;
    });
    expect(given).toBeUndefined();
    expect(Object.isFrozen(next) && Object.isFrozen(next.messages[3])).toBe(true);
    await session.update((state) => {
      given = state;
      return { ...(state as State), count: 2 };
    });
    expect(given).toEqual({ messages: messages(20), count: 1 });
    expect(() => given?.messages.push(1)).toThrow(TypeError);
    expect(() => Object.assign(given?.messages[0] as object, { content: "x" })).toThrow(TypeError);
    expect((await session.latest())?.state).toEqual({ messages: messages(20), count: 2 });
    // A state that was loaded stays the caller's own.
    const latest = await session.latest();
    latest?.state.messages.push(1);
    expect((await session.latest())?.state.messages).toHaveLength(20);
  });

  it("writes only what is new", async () => {
    const session = (await data.open()).session<State>("s");
    await session.save({ messages: messages(1000), count: 0 });
    for (let n = 0; n < 20; n++) {
      const info = await session.update((state) => ({
        ...(state as State),
        messages: [...(state as State).messages, message(n)],
        count: n,
      }));
      expect(info.storedBytes).toBeLessThan(1000);
    }
    expect((await (await data.open()).session<State>("s").latest())?.state).toEqual({
      messages: [...messages(1000), ...messages(20)],
      count: 19,
    });
  });

  it("runs one after another when several are called at once", async () => {
    const session = (await data.open()).session<State>("s");
    await session.save({ messages: [], count: 0 });
    const add = (state: Readonly<State> | undefined): State => ({
      ...(state as State),
      count: (state?.count ?? 0) + 1,
    });
    await Promise.all(Array.from({ length: 10 }, () => session.update(add)));
    expect((await session.latest())?.state.count).toBe(10);
  });

  it("saves nothing when it throws or returns nothing or a promise, and the session stays usable", async () => {
    const session = (await data.open()).session<State>("s");
    await session.save({ messages: messages(20), count: 0 });
    const failure = new Error("mine");
    await expect(
      session.update(() => {
        throw failure;
      }),
    ).rejects.toBe(failure);
    await expect(session.update(() => Promise.resolve({}) as never)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    await expect(session.update(() => undefined as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await session.head())?.seq).toBe(0);
    expect((await session.update((state) => ({ ...(state as State), count: 7 }))).seq).toBe(1);
    expect((await session.latest())?.state.count).toBe(7);
  });

  it("detects changes of values that cannot be frozen, such as a Date", async () => {
    const session = (await data.open()).session<State>("s");
    await session.update(() => ({ messages: messages(20), count: 0, when: new Date(0) }));
    await session.update((state) => {
      state?.when?.setTime(99);
      return state as State;
    });
    expect((await session.latest())?.state.when?.getTime()).toBe(99);
    expect((await session.load({ seq: 0 }))?.state.when?.getTime()).toBe(0);
  });

  it("sees saves, appends and rewinds in between, and is seen by them", async () => {
    const session = (await data.open()).session<State>("s");
    await session.update(() => ({ messages: messages(20), count: 0 }));
    await session.append("/messages", [message(100)]);
    const seen: number[] = [];
    const look = (state: Readonly<State> | undefined): State => {
      seen.push(state?.messages.length ?? -1);
      return state as State;
    };
    await session.update(look);
    const state = { messages: messages(5), count: 3 };
    await session.save(state);
    state.messages.push(message(6));
    await session.update(look);
    await session.rewind({ seq: 0 });
    await session.update(look);
    expect(seen).toEqual([21, 5, 20]);
    expect((await session.latest())?.state).toEqual({ messages: messages(20), count: 0 });
  });

  it("may call save from inside, which runs after it", async () => {
    const session = (await data.open()).session<State>("s");
    await session.save({ messages: messages(3), count: 0 });
    let inner: Promise<unknown> | undefined;
    await session.update((state) => {
      inner = session.append("/messages", [9]);
      return { ...(state as State), count: 1 };
    });
    await inner;
    expect((await session.latest())?.state).toEqual({ messages: [...messages(3), 9], count: 1 });
  });
});
