/** Large states, and states with values that JSON cannot represent. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { GENERATIONS, type TestClient } from "./clients.js";
import { useLab } from "./lab.js";

interface Part {
  readonly pointer: string;
  readonly kind: string;
  readonly length: number;
  readonly from: number;
}

/** Reads omitted parts until nothing is missing, and returns the elements of a list. */
async function readList(client: TestClient, pointer: string): Promise<unknown[]> {
  const all: unknown[] = [];
  for (let from = 0; ;) {
    const part = await client.call<{ state: unknown[]; omitted?: Part[] }>("session_resume", {
      session: "s",
      pointer,
      from,
    });
    const rest = part.omitted?.find((each) => each.pointer === pointer);
    all.push(...(rest ? part.state.slice(0, -1) : part.state));
    if (!rest) return all;
    expect(rest.from).toBeGreaterThan(from);
    from = rest.from;
  }
}

describe.each(GENERATIONS)("states, for $name", (generation) => {
  const lab = useLab(generation);

  it("values that JSON cannot represent are shown in a tagged form", async () => {
    const sp = await lab.open();
    await sp.session("s").save({
      date: new Date(0),
      noDate: new Date(Number.NaN),
      map: new Map([["k", 1n]]),
      pairs: new Map([[1, "one"]]),
      set: new Set([1, "two"]),
      bytes: new Uint8Array([1, 2, 3]),
      manyBytes: new Uint8Array(5000),
      numbers: [Number.NaN, Number.POSITIVE_INFINITY, -0, 1.5],
      nothing: undefined,
      url: new URL("https://example.org/a"),
      list: [undefined, null],
    });
    const client = await lab.connect();
    const shown = await client.call("session_resume", { session: "s" });
    expect(shown["state"]).toEqual({
      date: { $date: "1970-01-01T00:00:00.000Z" },
      noDate: { $date: null },
      map: { $map: { k: { $bigint: "1" } } },
      pairs: { $map: [[1, "one"]] },
      set: { $set: [1, "two"] },
      bytes: { $bytes: 3, base64: "AQID" },
      manyBytes: { $bytes: 5000 },
      numbers: [{ $number: "NaN" }, { $number: "Infinity" }, { $number: "-0" }, 1.5],
      nothing: { $undefined: true },
      url: { $url: "https://example.org/a" },
      list: [{ $undefined: true }, null],
    });
    expect((await client.call("session_resume", { session: "s", pointer: "/map/$map/k" })).state).toEqual({
      $bigint: "1",
    });
    // Changes keep the types of values that a program has saved; the model need not send them back.
    await client.call("session_save", { session: "s", changes: [{ op: "add", path: "/seen", value: true }] });
    const state = (await sp.session<{ date: Date; seen: boolean }>("s").latest())?.state;
    expect(state?.date).toEqual(new Date(0));
    expect(state?.seen).toBe(true);
  });

  it("what a model saved is returned unchanged, also if it resembles a tagged form", async () => {
    const client = await lab.connect();
    const state = JSON.parse(
      '{"__proto__":{"a":1},"constructor":1,"$date":"x","":{"~/":[]},"deep":[[[{}]]],"n":1e300,"s":"\\u0000\\ud83e\\udd8a"}',
    ) as object;
    await client.call("session_save", { session: "s", state });
    const { state: shown } = await client.call("session_resume", { session: "s" });
    expect(JSON.stringify(shown)).toBe(JSON.stringify(state));
    for (const plain of [0, "", false, [], null]) {
      await client.call("session_save", { session: "s", state: plain });
      expect((await client.call("session_resume", { session: "s" })).state).toEqual(plain);
    }
    let deep: unknown = "end";
    for (let n = 0; n < 190; n++) deep = [deep];
    await client.call("session_save", { session: "s", state: deep });
    expect((await client.call("session_resume", { session: "s" })).state).toEqual(deep);
    for (let n = 0; n < 500; n++) deep = [deep];
    expect((await client.fail("session_save", { session: "s", state: deep })).code).toBe("INVALID_STATE");
  });

  it("a large state is returned in parts, and every part can be read", async () => {
    const sp = await lab.open();
    const list = Array.from({ length: 3000 }, (_, n) => ({ n, text: `message ${n} `.repeat(10) }));
    const text = "añb🦊".repeat(100_000);
    const state = {
      small: 1,
      list,
      nested: { "a/b": { text, also: [1, 2, 3] } },
      wide: Object.fromEntries(list.map(({ n }) => [`k${n}`, "v".repeat(100)])),
    };
    await sp.session("s").save(state);
    const client = await lab.connect({});
    const result = await client.raw("session_resume", { session: "s" });
    expect(result.content[0]?.text.length).toBeLessThan(150_000);
    const outline = result.structuredContent as { state: typeof state; omitted: Part[] };
    expect(outline.state.small).toBe(1);
    expect(outline.state.nested["a/b"].also).toEqual([1, 2, 3]);
    expect(outline.state.list[0]).toEqual(list[0]);
    expect(outline.omitted.map(({ pointer, kind, length }) => ({ pointer, kind, length }))).toEqual(
      expect.arrayContaining([
        { pointer: "/list", kind: "array", length: 3000 },
        { pointer: "/nested/a~1b/text", kind: "text", length: text.length },
        { pointer: "/wide", kind: "object", length: 3000 },
      ]),
    );
    expect(await readList(client, "/list")).toEqual(list);
    let read = "";
    for (let from: number | undefined = 0; from !== undefined;) {
      const part: { state: string; omitted?: Part[] } = await client.call("session_resume", {
        session: "s",
        pointer: "/nested/a~1b/text",
        from,
      });
      const rest: Part | undefined = part.omitted?.[0];
      read += rest ? part.state.slice(0, rest.from - from) : part.state;
      from = rest?.from;
    }
    expect(read === text).toBe(true);
    const wide: Record<string, unknown> = {};
    for (let from: number | undefined = 0; from !== undefined;) {
      const part: { state: Record<string, unknown>; omitted?: Part[] } = await client.call("session_resume", {
        session: "s",
        pointer: "/wide",
        from,
      });
      Object.assign(wide, part.state);
      delete wide["$more"];
      from = part.omitted?.[0]?.from;
    }
    expect(wide).toEqual(state.wide);
    expect((await client.call("session_resume", { session: "s", pointer: "/list/2999/n" })).state).toBe(2999);
    expect(JSON.stringify(await client.read("savepoint://sessions/s/checkpoints/latest")).length).toBeLessThan(150_000);
  });

  it("a state of many megabytes can be saved", async () => {
    const client = await lab.connect();
    const text = "x".repeat(12 * 2 ** 20);
    await client.call("session_save", { session: "s", state: { text } });
    const { omitted } = await client.call<{ omitted: Part[] }>("session_resume", { session: "s" });
    expect(omitted).toMatchObject([{ pointer: "/text", length: text.length }]);
    const sp = await lab.open();
    expect((await sp.session<{ text: string }>("s").latest())?.state.text === text).toBe(true);
  });

  it("large messages are truncated and can be read by their index", async () => {
    const sp = await lab.open();
    const long = "long ".repeat(30_000);
    await sp.conversations.create({ id: "c", messages: Array.from({ length: 12 }, () => message.user(long)) });
    await sp.agents.save({ id: "a", name: "A", state: { notes: long, n: 1 } });
    const client = await lab.connect({});
    const page = await client.call<{
      messages: { index: number; omitted: Part[] }[];
      nextCursor: string;
      first: number;
    }>("conversation_load", { id: "c" });
    expect(JSON.stringify(page).length).toBeLessThan(150_000);
    expect(page.messages.at(-1)).toMatchObject({ index: 11, omitted: [{ pointer: "/content", length: long.length }] });
    expect(page.first).toBeGreaterThan(0);
    const older = await client.call<{ messages: { index: number }[] }>("conversation_load", {
      id: "c",
      cursor: page.nextCursor,
    });
    expect(older.messages.at(-1)?.index).toBe(page.first - 1);
    const part = await client.call<{ messages: { message: string }[] }>("conversation_load", {
      id: "c",
      index: 3,
      pointer: "/content",
      from: 100_000,
    });
    expect(part.messages[0]?.message).toBe(long.slice(100_000));
    const agent = await client.call<{ content: unknown; omitted: Part[] }>("agent_load", { id: "a" });
    expect(agent).toMatchObject({ content: { state: { n: 1 } }, omitted: [{ pointer: "/state/notes" }] });
    const notes = await client.call("agent_load", { id: "a", pointer: "/state/notes", from: 100_000 });
    expect(notes["content"]).toBe(long.slice(100_000));
  });
});
